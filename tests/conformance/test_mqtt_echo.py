"""The sending log of MQTT destinations, on a real Mosquitto: what the echo proves, and what it says when it cannot."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from mgw.links.attempt import Attempt
from mgw.links.contract import Destination, Direction, Endpoint, Guarantee, JobUse, Link, LinkConfig, Recovered
from mgw.links.mqtt.connection import open_session
from mgw.links.mqtt.link import open_link
from mgw.links.mqtt.logged_destination import EchoDestination, room_for
from mgw.transforms.errors import ConfigInvalid, LinkError, LinkRefused, LinkUnavailable
from mgw.transforms.message import Message
from tests.conformance.link_suite import Reader, Writer, body_bytes, unique, use_of
from tests.conformance.test_mqtt_link import mosquitto_pub
from tests.support.brokers import Mosquitto
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.mosquitto

QUICK = "autosave_on_changes false"  # does not write its whole store at every change
BEST = Guarantee.EXACT_UNLESS_BROKER_CRASH
_ids = count(1)


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    """With Mosquitto's own limit of 1000 queued messages."""
    config = ("max_queued_messages 1000", "max_inflight_messages 1000", QUICK)
    with Mosquitto(config=config) as server:
        yield server


def link_to(port: int, version: int = 5, log: str | None = "mgw/sent/{job}", **options: str) -> Link:
    attributes = {"hostname": "127.0.0.1", "port": port, "protocol_version": version, "connect_timeout": 5}
    return open_link(LinkConfig("plant", "mqtt", attributes, options, outbound_log_queue=log))


def use_for(topic: str, **options: str) -> JobUse:
    return use_of(Endpoint("q", "plant", topic, None, options))


def message(body: bytes, **more: Any) -> Message:
    """With an id, as every message from a hub has."""
    return Message(body, msgid=next(_ids).to_bytes(16, "big"), **more)


class Publisher(Writer):
    """A writer whose echo can be looked into."""

    def echo_size(self, link: Link, use: JobUse) -> int:
        """Messages in the echo session; the destination must be closed."""
        echo = link._echo(use, link._outbound(use))  # type: ignore[attr-defined]
        session = open_session(link._settings, echo.client_id, clean=False, expiry=600, receive_maximum=65535)  # type: ignore[attr-defined]
        try:
            found: list[tuple[int, bytes]] = []
            while frames := session.wire.pump(0.5):
                found += [frame for frame in frames if frame[0] >> 4 == 3]
            return len(found)
        finally:
            session.wire.close()


def bodies(reader: Reader, wanted: int) -> list[bytes | None]:
    """What arrived: ``wanted`` messages, and whatever else has come by then."""
    found = reader.bodies(wanted)
    while batch := reader.source.read(100, 0.3).deliveries:
        found += [body_bytes(delivery.message) for delivery in batch]
    return found


def test_promise_is_exact_but_for_a_crash_of_the_broker(broker: Mosquitto) -> None:
    link, use = link_to(broker.port), use_for(unique("t"))
    report = link.verify(use, Direction.OUTBOUND)
    assert report.level is BEST
    assert report.note.startswith("a crash of the broker loses what came after its last save")
    plain = link_to(broker.port, log=None).verify(use, Direction.OUTBOUND)
    assert (plain.level, "no outbound_log_queue" in plain.note) == (Guarantee.AT_LEAST_ONCE, True)
    through = link.verify(replace(use, through=True), Direction.OUTBOUND)
    assert (through.level, "from link to link" in through.note) == (Guarantee.AT_LEAST_ONCE, True)


def test_without_mqtt_5_the_note_says_why_there_is_no_log(broker: Mosquitto) -> None:
    link, use = link_to(broker.port, 4), use_for(unique("t"))
    report = link.verify(use, Direction.OUTBOUND)
    assert report.level is Guarantee.AT_LEAST_ONCE
    assert report.note.startswith("a sending log (outbound_log_queue) needs MQTT 5")
    writer = Publisher(link, use).connect()
    writer.deliver(message(b"x"))
    assert writer.destination.recovered() is None
    writer.destination.close()


@pytest.mark.parametrize("name", ["mgw/sent", "mgw/+/{job}", "$SYS/{job}", ""])
def test_impossible_log_topic_is_refused(name: str) -> None:
    with pytest.raises(ConfigInvalid, match="outbound_log_queue cannot be"):
        link_to(1, log=name)


def test_inbound_log_queue_is_refused() -> None:
    attributes = {"hostname": "127.0.0.1"}
    with pytest.raises(ConfigInvalid, match="inbound_log_queue is refused"):
        open_link(LinkConfig("plant", "mqtt", attributes, inbound_log_queue="x/{job}"))


def test_only_what_the_broker_does_not_have_is_sent_again(broker: Mosquitto, caplog: pytest.LogCaptureFixture) -> None:
    """A publisher dies with a batch half sent; the next one is handed the whole batch."""
    topic = unique("half")
    use = use_for(topic)
    reader = Reader(link_to(broker.port), use).connect()
    plan = [message(b"%d" % number) for number in range(5)]
    with TcpProxy(broker.host, broker.port) as proxy:
        first = Publisher(link_to(proxy.port), use).connect()
        assert first.destination.recovered() == Recovered(None)
        first.deliver(message(b"before"))
        proxy.stall(requests=False)
        first.send(*plan[:3])  # arrives, and its confirmation does not
        assert reader.bodies(4) == [b"before", b"0", b"1", b"2"]
        second = Publisher(link_to(broker.port), use)
        with caplog.at_level(logging.INFO, "mgw.links.mqtt"):
            second.connect()
            assert second.destination.recovered() == Recovered(1)
            second.sequence = 1
            second.deliver(*plan)
        assert "3 of 5 messages of batch 2 are already at the broker" in caplog.text
        proxy.cut()
        first.destination.close()
    second.deliver(message(b"after"))
    assert bodies(reader, 3) == [b"3", b"4", b"after"]
    second.reconnect()
    assert second.destination.recovered() == Recovered(3)
    second.destination.close()
    reader.source.close()


def test_older_publisher_is_shut_out(broker: Mosquitto) -> None:
    """A second agent takes the job over: the first one gets nothing more to the broker."""
    use = use_for(unique("fence"))
    reader = Reader(link_to(broker.port), use).connect()
    first, second = (Publisher(link_to(broker.port), use) for _ in range(2))
    first.connect().deliver(message(b"1"))
    second.connect()
    with pytest.raises(LinkUnavailable, match="a second client with the id MGW_"):
        first.deliver(message(b"never"))
    assert second.destination.recovered() == Recovered(1)
    second.sequence = 1
    second.deliver(message(b"2"))
    assert bodies(reader, 2) == [b"1", b"2"]
    for destination in (first.destination, second.destination):
        destination.close()
    reader.source.close()


def test_echo_holds_only_what_is_not_completed(broker: Mosquitto) -> None:
    topic = unique("trim")
    link, use = link_to(broker.port), use_for(topic)
    writer = Publisher(link, use).connect()
    for _ in range(30):
        writer.deliver(*[message(b"x") for _ in range(100)])
    mosquitto_pub(broker.port, topic, b"of somebody else")
    writer.deliver(message(b"x"))
    writer.destination.close()
    assert writer.echo_size(link, use) == 1, "the newest record"
    writer.connect()
    assert writer.destination.recovered() == Recovered(31)
    writer.destination.close()


def test_messages_of_others_do_not_fill_the_echo_of_an_idle_job(broker: Mosquitto) -> None:
    topic = unique("busy")
    link, use = link_to(broker.port), use_for(topic)
    writer = Publisher(link, use).connect()
    writer.deliver(message(b"x"))
    other = Publisher(link_to(broker.port, log=None), use_of(Endpoint("q", "plant", topic), job="OTHER")).connect()
    for _ in range(20):
        other.deliver(*[message(b"y") for _ in range(100)])
        writer.destination.confirmed(0)
    writer.deliver(message(b"x"))
    writer.destination.confirmed(0.1)
    for publisher in (writer, other):
        publisher.destination.close()
    assert writer.echo_size(link, use) == 1
    writer.connect()
    assert writer.destination.recovered() == Recovered(2)
    writer.destination.close()


def test_more_than_the_echo_takes_waits_until_there_is_room(broker: Mosquitto) -> None:
    topic = unique("room")
    link, use = link_to(broker.port), use_for(topic)
    reader = Reader(link_to(broker.port), use).connect()
    writer = Publisher(link, use)
    with TcpProxy(broker.host, broker.port) as proxy:
        first = Publisher(link_to(proxy.port), use).connect()
        proxy.stall(requests=False)
        plans = [[message(b"%d" % (100 * batch + number)) for number in range(100)] for batch in range(20)]
        for plan in plans:
            first.send(*plan)
        assert bodies(reader, 400) == [b"%d" % number for number in range(400)]
        first.destination.close()
        proxy.resume()
        second = Publisher(link_to(proxy.port), use).connect()
        proxy.stall(requests=False)
        for plan in plans:
            second.send(*plan)
        assert not reader.source.read(10, 0.3).deliveries, "the echo is full"
        second.destination.close()
    writer.connect()
    for plan in plans:
        writer.send(*plan)
    writer.confirm()
    assert bodies(reader, 1600) == [b"%d" % number for number in range(400, 2000)]
    writer.destination.close()
    assert writer.echo_size(link, use) == 1
    reader.source.close()


def test_what_the_broker_has_is_known_until_its_batch_is_recorded(broker: Mosquitto) -> None:
    """Three batches are at the broker; a publisher gets to send the first again and dies, the next one has the rest."""
    topic = unique("later")
    use = use_for(topic)
    reader = Reader(link_to(broker.port), use).connect()
    plans = [[message(b"%d" % (10 * batch + number)) for number in range(6)] for batch in range(3)]
    with TcpProxy(broker.host, broker.port) as proxy:
        first = Publisher(link_to(proxy.port), use).connect()
        proxy.stall(requests=False)
        for plan in plans:
            first.send(*plan)
        reader.bodies(18)
        second = Publisher(link_to(broker.port), use).connect()
        second.deliver(*plans[0])
        second.destination.close()
        proxy.cut()
        first.destination.close()
    third = Publisher(link_to(broker.port), use).connect()
    assert third.destination.recovered() == Recovered(1)
    third.sequence = 1
    third.deliver(*plans[1])
    third.deliver(*plans[2], message(b"new"))
    assert bodies(reader, 1) == [b"new"]
    third.destination.close()
    reader.source.close()


def test_record_survives_as_many_messages_of_others_as_there_are_packet_ids(broker: Mosquitto) -> None:
    """Mosquitto gives the packet id of the record to another message, too."""
    topic = unique("ids")
    link, use = link_to(broker.port), use_for(topic)
    writer = Publisher(link, use).connect()
    writer.deliver(message(b"x"))
    other = Publisher(link_to(broker.port, log=None), use_of(Endpoint("q", "plant", topic), job="OTHER")).connect()
    for _ in range(67):
        other.deliver(*[message(b"y")] * 1000)
        writer.destination.confirmed(0)
    other.destination.close()
    writer.reconnect()
    assert writer.destination.recovered() == Recovered(1)
    writer.deliver(message(b"x"))
    writer.reconnect()
    assert writer.destination.recovered() == Recovered(2)
    writer.destination.close()
    assert writer.echo_size(link, use) <= 2, "the record, and the marker of the last connect"


def test_topics_chosen_per_message_are_echoed(broker: Mosquitto) -> None:
    root = unique("many")
    for place, options in ((root + "/{correlation}/x", {}), (root, {"MQTT_TopicFrom": "HEADER"})):
        use = use_for(place, **options)
        link = link_to(broker.port)
        assert link.verify(use, Direction.OUTBOUND).level is BEST
        writer = Publisher(link, use).connect()
        plan = [message(b"x", correlation=f"d{number}") for number in range(5)]
        writer.deliver(*plan)
        writer.reconnect()
        assert writer.destination.recovered() == Recovered(1)
        writer.deliver(*plan)  # the same messages in another batch, as after a reset: all are known
        writer.deliver(message(b"x", correlation="d"))
        writer.destination.close()
        assert writer.echo_size(link, use) == 1


# -- what must hold, and what happens when it does not --------------------------------------------------------------


def test_broker_that_keeps_too_few_messages_is_found_out() -> None:
    with Mosquitto(config=("max_queued_messages 100", QUICK)) as own:
        use = use_for("t")
        link = link_to(own.port)
        report = link.verify(use, Direction.OUTBOUND)
        assert report.level is Guarantee.AT_LEAST_ONCE
        assert "the broker keeps 100 messages for an absent session, but the echo needs 600" in report.note
        writer = Publisher(link, use).connect()
        assert writer.destination.recovered() is None
        writer.deliver(message(b"x"))
        writer.destination.close()
    with Mosquitto(config=("max_queued_messages 1000", QUICK)) as own:
        link = link_to(own.port)
        assert link.verify(use_for("t"), Direction.OUTBOUND).level is BEST
        large = replace(use_for("t"), batch_size=2000)
        assert "the echo needs 4051" in link.verify(large, Direction.OUTBOUND).note


def test_batches_grow_as_far_as_the_echo_needs_no_more_room_for_it(broker: Mosquitto) -> None:
    """What the broker must keep is the same as without growth, so that no job loses its level for it."""
    link = link_to(broker.port)
    for size, limit, grown, room in (
        (30, 500, 150, 380),
        (100, 500, 150, 450),
        (200, 500, 200, 500),
        (30, 30, 30, 500),
    ):
        use = replace(use_for(unique("t")), batch_size=size, batch_limit=limit)
        destination = link.destination(use)
        assert isinstance(destination, EchoDestination)
        assert destination.largest_batch is None, "not connected"
        destination.connect()
        assert (destination.largest_batch, destination._room) == (grown, room)
        assert room + grown + 50 == room_for(size), "connecting adds 50"
        destination.close()


def test_broker_that_lacks_room_is_not_measured_again_at_every_look() -> None:
    with Mosquitto(config=("max_queued_messages 100", QUICK)) as own, TcpProxy(own.host, own.port) as proxy:
        link, use = link_to(proxy.port), use_for("t")
        first = link.verify(use, Direction.OUTBOUND)
        assert "the broker keeps 100 messages" in first.note
        measured = proxy.forwarded_bytes
        assert link.verify(replace(use, attempt=Attempt()), Direction.OUTBOUND) == first
        assert proxy.forwarded_bytes - measured < 2000 < measured


def test_unknown_broker_must_be_declared_to_be_one_node() -> None:
    with Mosquitto(config=("sys_interval 0", QUICK)) as own:
        use = use_for("t")
        report = link_to(own.port).verify(use, Direction.OUTBOUND)
        assert report.level is Guarantee.AT_LEAST_ONCE
        assert "MQTT_SingleNode is not TRUE" in report.note
        declared = link_to(own.port, MQTT_SingleNode="TRUE")
        assert declared.verify(use, Direction.OUTBOUND).level is BEST


def test_every_client_id_begins_with_the_prefix() -> None:
    with Mosquitto(config=("clientid_prefixes MGW_", QUICK)) as own:
        use = use_for("t")
        link = link_to(own.port)
        assert [check.name for check in link.test() if not check.ok] == []
        assert link.verify(use, Direction.OUTBOUND).level is BEST
        writer = Publisher(link, use).connect()
        writer.deliver(message(b"x"))
        writer.destination.close()
        link.forget(use, Direction.OUTBOUND)


def test_echo_that_overflowed_lowers_the_promise_until_it_is_sure_again(
    broker: Mosquitto, caplog: pytest.LogCaptureFixture
) -> None:
    """Others fill the session while the gateway is down."""
    topic = unique("full")
    use = use_for(topic)
    link = link_to(broker.port)
    writer = Publisher(link, use).connect()
    writer.deliver(message(b"x"))
    writer.destination.close()
    other = Publisher(link_to(broker.port, log=None), use_of(Endpoint("q", "plant", topic), job="OTHER")).connect()
    for _ in range(12):
        other.deliver(*[message(b"y") for _ in range(100)])
    other.destination.close()
    with pytest.raises(LinkUnavailable, match=r"the echo of .* is incomplete"):
        writer.connect()
    report = link.verify(use, Direction.OUTBOUND)
    assert report.level is Guarantee.AT_LEAST_ONCE
    assert "overflowed" in report.note
    with caplog.at_level(logging.WARNING, "mgw.links.mqtt"):
        writer.connect()
    assert "may arrive twice" in caplog.text
    assert writer.destination.recovered() == Recovered(1)
    writer.deliver(message(b"x"))
    assert link.verify(use, Direction.OUTBOUND).level is BEST
    writer.destination.close()
    assert writer.echo_size(link, use) == 1


def with_rules(*rules: str) -> tuple[Mosquitto, Mosquitto]:
    """A broker with access rules, and the one whose folder holds them."""
    keeper = Mosquitto().start()
    path = keeper.folder / "acl"
    path.write_text("\n".join(rules) + "\n")
    path.chmod(0o644)
    return Mosquitto(config=(f"acl_file {path}", QUICK)).start(), keeper


def test_echo_hidden_by_access_rules_is_found_out() -> None:
    own, keeper = with_rules("topic read $SYS/#", "topic write out", "topic readwrite mgw/sent/#")
    with keeper, own:
        use = use_for("out")
        link = link_to(own.port)
        writer = Publisher(link, use).connect()

        def carry() -> None:
            while True:
                writer.deliver(message(b"x"))

        with pytest.raises(LinkUnavailable, match="messages that the broker had confirmed did not come back"):
            carry()
        assert link.verify(use, Direction.OUTBOUND).level is Guarantee.AT_LEAST_ONCE
        again = Publisher(link, replace(use, attempt=Attempt())).connect()
        assert again.destination.recovered() is None
        again.deliver(message(b"x"))
        for publisher in (writer, again):
            publisher.destination.close()


def test_forbidden_record_topic_is_refused_in_words() -> None:
    own, keeper = with_rules("topic read $SYS/#", "topic readwrite out")
    with keeper, own:
        report = link_to(own.port).verify(use_for("out"), Direction.OUTBOUND)
        assert report.level is Guarantee.AT_LEAST_ONCE
        assert "may not write to topics below that of its records" in report.note
    own, keeper = with_rules("topic read $SYS/#", "topic readwrite out", "topic readwrite mgw/sent/+/+")
    with keeper, own:
        destination: Destination = link_to(own.port).destination(use_for("out"))
        with pytest.raises(LinkRefused, match="refused a record of the sending log"):
            destination.connect()
        destination.close()


def test_removed_echo_is_noticed_while_the_job_runs(broker: Mosquitto) -> None:
    use = use_for(unique("gone"))
    link = link_to(broker.port)
    writer = Publisher(link, use).connect()
    writer.deliver(message(b"x"))
    link.forget(use, Direction.OUTBOUND)
    with pytest.raises(LinkError):
        writer.deliver(message(b"y"))
    writer.reconnect()
    assert writer.destination.recovered() == Recovered(None)
    writer.destination.close()


def test_log_survives_a_clean_restart_of_the_broker() -> None:
    with Mosquitto(config=(QUICK,)) as own:
        use = use_for("t")
        link = link_to(own.port)
        writer = Publisher(link, use).connect()
        plan = [message(b"x") for _ in range(10)]
        writer.deliver(*plan)
        own.restart()
        writer.reconnect()
        assert writer.destination.recovered() == Recovered(1)
        writer.deliver(message(b"y"))
        writer.destination.close()
        eventually(lambda: writer.echo_size(link, use) == 1, what="one record")
