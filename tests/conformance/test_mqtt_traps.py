"""What is special about MQTT, on a real Mosquitto: sessions, retained messages, topics, crashes of the broker."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mgw.links.contract import Direction, Domain, Endpoint, Guarantee, Link, LinkConfig
from mgw.links.mqtt.link import open_link
from mgw.transforms.errors import (
    AdminError,
    ConversionFailure,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkUnavailable,
)
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import (
    Pair,
    Reader,
    Writer,
    body_bytes,
    first_occurrences,
    numbered,
    numbers,
    reading,
    unique,
    use_of,
    wait_until,
    writing,
)
from tests.conformance.test_mqtt_link import mosquitto_pub, run
from tests.support.brokers import Mosquitto

pytestmark = pytest.mark.mosquitto

VERSIONS = pytest.mark.parametrize("version", [5, 4], ids=["5", "3.1.1"])


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    config = ("max_inflight_messages 1000", "autosave_on_changes false", "autosave_interval 1800")
    with Mosquitto(config=config) as server:
        yield server


def link_to(port: int, version: int = 5, username: str | None = None, password: str | None = None, **more: Any) -> Link:
    attributes = {"hostname": "127.0.0.1", "port": port, "protocol_version": version, **more}
    return open_link(LinkConfig("plant", "mqtt", attributes, username=username, password=password))


def endpoint(topic: str, domain: Domain | None = None, **options: str) -> Endpoint:
    return Endpoint("q", "plant", topic, domain, options)


def pair_of(source: str, destination: str | None = None, **options: str) -> Pair:
    return Pair(endpoint(source, None, **options), endpoint(destination or source, None, **options))


def text(name: str, value: str) -> Header:
    return Header(name, ValueType.TEXT, value)


# -- quality of service ---------------------------------------------------------------------------------------------


def test_qos_2_is_refused_with_the_reason(broker: Mosquitto) -> None:
    link = link_to(broker.port)
    for direction in (None, *Direction):
        with pytest.raises(AdminError, match=r"MQTT_Qos = 2 loses messages .* use MQTT_Qos = 1"):
            link.check_endpoint(endpoint("a", MQTT_Qos="2"), direction)


@VERSIONS
def test_message_published_at_qos_2_arrives_at_qos_1(broker: Mosquitto, version: int) -> None:
    topic = unique("qos2")
    with reading(link_to(broker.port, version), pair_of(topic)) as reader:
        mosquitto_pub(broker.port, topic, b"exact", version=version, qos=2)
        message = reader.one()
        assert (message.body, message.header("MGW_MQTT_qos")) == (b"exact", 1)


def test_qos_0_is_at_most_once_and_moves_messages(broker: Mosquitto) -> None:
    pair = pair_of(unique("qos0"), MQTT_Qos="0")
    link = link_to(broker.port)
    for end, direction in zip(pair, Direction, strict=True):
        assert link.verify(use_of(end), direction).level is Guarantee.AT_MOST_ONCE
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(*numbered(50))
        assert reader.bodies(50) == numbers(50)


@VERSIONS
def test_verify_says_what_is_promised_and_what_is_lost(broker: Mosquitto, version: int) -> None:
    link = link_to(broker.port, version)
    inbound = link.verify(use_of(endpoint("a/+")), Direction.INBOUND)
    outbound = link.verify(use_of(endpoint("a")), Direction.OUTBOUND)
    assert (inbound.level, outbound.level) == (Guarantee.EXACT_UNLESS_BROKER_CRASH, Guarantee.AT_LEAST_ONCE)
    assert "max_queued_messages" in inbound.note
    assert ("headers, correlation and expiration do not travel" in outbound.note) == (version == 4)
    enveloped = link.verify(use_of(endpoint("a", MQTT_Envelope="JSON")), Direction.OUTBOUND)
    assert "do not travel" not in enveloped.note


# -- sessions -------------------------------------------------------------------------------------------------------


@VERSIONS
def test_session_collects_while_nobody_is_connected(broker: Mosquitto, version: int) -> None:
    pair = pair_of(unique("session"))
    use = use_of(pair.source)
    reader = Reader(link_to(broker.port, version), use).connect()
    reader.source.close()
    with writing(link_to(broker.port, version), pair) as writer:
        writer.deliver(*numbered(100))
    again = Reader(link_to(broker.port, version), use).connect()
    assert again.bodies(100) == numbers(100)
    again.source.close()


@VERSIONS
def test_session_survives_a_clean_restart_of_the_broker(version: int) -> None:
    with Mosquitto() as own:
        pair = pair_of("t")
        reader = Reader(link_to(own.port, version), use_of(pair.source)).connect()
        own.restart()
        with writing(link_to(own.port, version), pair) as writer:
            writer.deliver(*numbered(10))
        reader.reconnect()
        assert reader.bodies(10) == numbers(10)
        reader.source.close()


@VERSIONS
def test_acknowledgement_of_an_earlier_connection_is_never_sent(broker: Mosquitto, version: int) -> None:
    pair = pair_of(unique("stale"))
    link = link_to(broker.port, version)
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(*numbered(5))
        held = reader.batches(5, settle=False)
        reader.reconnect()
        again = reader.batches(5, settle=False)
        for batch in held:
            reader.settle(batch)
        reader.reconnect()
        assert reader.bodies(5) == numbers(5)
        assert all(d.redelivered for batch in again for d in batch.deliveries)


@VERSIONS
def test_lost_session_is_reported_and_reading_goes_on(
    broker: Mosquitto, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    pair = pair_of(unique("lost"))
    link = link_to(broker.port, version)
    use = use_of(pair.source)
    reader = Reader(link, use).connect()
    reader.source.close()
    link.forget(use, Direction.INBOUND)
    with writing(link, pair) as writer:
        writer.deliver(Message(b"missed"))
        with caplog.at_level(logging.WARNING, "mgw.links.mqtt"):
            reader.connect()
        assert "no longer has the session" in caplog.text
        writer.deliver(Message(b"next"))
        assert reader.bodies(1) == [b"next"]
    reader.source.close()


def test_session_without_subscription_is_subscribed_again(broker: Mosquitto) -> None:
    """As after a crash between CONNECT and SUBSCRIBE."""
    pair = pair_of(unique("half"))
    link = link_to(broker.port)
    use = use_of(pair.source)
    reader = Reader(link, use).connect()
    client_id = reader.source._client_id  # type: ignore[attr-defined]
    reader.source.close()
    run("mosquitto_sub", "-p", str(broker.port), "-V", "5", "-c", "-x", "600", "-i", client_id, "-q", "1", "-E",
        "-t", "other", "-U", pair.source.provider_queue)  # fmt: skip
    reader.connect()
    mosquitto_pub(broker.port, pair.source.provider_queue, b"here")
    assert reader.bodies(1) == [b"here"]
    reader.source.close()


def test_taken_over_session_names_the_client_id(broker: Mosquitto) -> None:
    """Mosquitto 2.0.11 closes without a reason; other brokers send 0x8E (tests/unit/test_mqtt_wire.py)."""
    pair = pair_of(unique("taken"))
    use = use_of(pair.source)
    first, second = (Reader(link_to(broker.port), use) for _ in range(2))
    first.connect()
    second.connect()
    with pytest.raises(LinkUnavailable, match=rf"a second client with the id MGW_{use.job}_in_"):
        first.source.read(1, 5)
    first.source.close()
    second.source.close()


@VERSIONS
def test_forgotten_session_collects_nothing(broker: Mosquitto, version: int) -> None:
    pair = pair_of(unique("forget"))
    link = link_to(broker.port, version)
    use = use_of(pair.source)
    reader = Reader(link, use).connect()
    reader.source.close()
    link.forget(use, Direction.INBOUND)
    with writing(link, pair) as writer:
        writer.deliver(*numbered(3))
        reader.connect()
        writer.deliver(Message(b"last"))
        assert reader.bodies(1) == [b"last"]
    reader.source.close()


def test_client_ids_are_stable_and_fit_the_protocol(broker: Mosquitto) -> None:
    def client_id(version: int, job: str, hub: str, topic: str = "t") -> str:
        source = link_to(broker.port, version).source(use_of(endpoint(topic), job=job, hub_id=hub))
        found: str = source._client_id  # type: ignore[attr-defined]
        return found

    assert client_id(5, "TELEMETRY", "aa").startswith("MGW_TELEMETRY_in_")
    for version in (4, 5):
        ids = {client_id(version, *names) for names in (("A", "aa"), ("A", "bb"), ("B", "aa"), ("A", "aa", "u"))}
        assert len(ids) == 4
        assert client_id(version, "A", "aa") in ids
    short = client_id(4, "A_VERY_LONG_NAME_OF_A_JOB", "aa")
    assert len(short) <= 23
    assert short.isalnum()


# -- retained messages ----------------------------------------------------------------------------------------------


@VERSIONS
def test_retained_messages_from_before_the_job_are_skipped(broker: Mosquitto, version: int) -> None:
    topic = unique("retained")
    mosquitto_pub(broker.port, topic, b"old", "-r")
    with reading(link_to(broker.port, version), pair_of(topic)) as reader:
        mosquitto_pub(broker.port, topic, b"new", "-r")
        assert reader.bodies(1) == [b"new"]
        reader.reconnect()
        assert not reader.source.read(10, 0.3).deliveries


@VERSIONS
def test_retained_messages_are_delivered_on_request(broker: Mosquitto, version: int) -> None:
    topic = unique("wanted")
    mosquitto_pub(broker.port, topic, b"old", "-r")
    with reading(link_to(broker.port, version), pair_of(topic, MQTT_Retained="deliver")) as reader:
        message = reader.one()
        assert (message.body, message.header("MGW_MQTT_retain")) == (b"old", True)
        if version == 5:
            reader.reconnect()
            assert not reader.source.read(10, 0.3).deliveries


@VERSIONS
def test_retained_message_is_published_and_removed(broker: Mosquitto, version: int) -> None:
    topic = unique("keep")
    link = link_to(broker.port, version)
    show = ("mosquitto_sub", "-p", str(broker.port), "-t", topic, "-C", "1", "-W", "1")
    with writing(link, pair_of(topic, MQTT_Retain="TRUE")) as writer:
        writer.deliver(Message(b"state"))
        assert run(*show) == b"state\n"
        writer.deliver(Message(None))
        assert subprocess.run(show, capture_output=True, check=False).stdout == b""
        writer.deliver(Message(b"live", headers=(Header("MGW_MQTT_retain", ValueType.BOOLEAN, False),)))
        assert subprocess.run(show, capture_output=True, check=False).stdout == b""


# -- topics ---------------------------------------------------------------------------------------------------------


@VERSIONS
def test_wildcard_source_shows_the_topic_of_each_message(broker: Mosquitto, version: int) -> None:
    root = unique("plant")
    with reading(link_to(broker.port, version), pair_of(f"{root}/+/telemetry")) as reader:
        topics = [f"{root}/{device}/telemetry" for device in ("a", "b", "ä")]
        for topic in (topics[0], f"{root}/a/other", *topics[1:]):
            mosquitto_pub(broker.port, topic, b"1", version=version)
        assert [d.message.header("MGW_MQTT_topic") for d in reader.collect(3)] == topics


@VERSIONS
def test_shared_subscription_divides_the_messages(broker: Mosquitto, version: int) -> None:
    topic = unique("shared")
    link = link_to(broker.port, version)
    shared = endpoint(f"$share/group/{topic}", Domain.QUEUE)
    link.check_endpoint(shared, Direction.INBOUND)
    pair = Pair(shared, endpoint(topic))
    with reading(link, pair) as one, reading(link, pair) as two, writing(link, pair) as writer:
        writer.deliver(*numbered(100))
        found: list[list[bytes | None]] = [[], []]

        def read() -> bool:
            for bodies, reader in zip(found, (one, two), strict=True):
                batch = reader.source.read(100, 0.05)
                reader.settle(batch)
                bodies += [body_bytes(d.message) for d in batch.deliveries]
            return len(found[0]) + len(found[1]) >= 100

        wait_until(read, "100 messages")
        assert sorted(found[0] + found[1], key=str) == sorted(numbers(100), key=str)
        assert all(found)


@VERSIONS
def test_topic_is_chosen_per_message_by_a_placeholder(broker: Mosquitto, version: int) -> None:
    root = unique("cmd")
    pair = pair_of(f"{root}/#", root + "/commands/{device}")
    link = link_to(broker.port, version)
    link.check_endpoint(pair.destination, Direction.OUTBOUND)
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(
            Message(b"1", headers=(Header("MGW_KAFKA_H_device", ValueType.RAW, b"pump-1"),)),
            Message(b"2", headers=(text("MGW_KAFKA_H_device", "no"), text("device", "pump-2"))),
            Message(b"3", headers=(Header("device", ValueType.INTEGER, 7),)),
        )
        topics = [d.message.header("MGW_MQTT_topic") for d in reader.collect(3)]
        assert topics == [f"{root}/commands/{device}" for device in ("pump-1", "pump-2", "7")]
        for headers in ((), (text("device", "+"),), (text("device", ""),), (text("device", "a//b"),)):
            with pytest.raises(ConversionFailure) as raised:
                writer.destination.encode(Message(b"x", headers=headers))
            assert raised.value.cause
            assert raised.value.cure


def test_header_chooses_the_topic_only_below_the_registered_one(broker: Mosquitto) -> None:
    root = unique("free")
    pair = Pair(endpoint(f"{root}/#"), endpoint(root, MQTT_TopicFrom="HEADER"))
    link = link_to(broker.port)
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(Message(b"1", headers=(text("MGW_MQTT_topic", f"{root}/a/b"),)), Message(b"2"))
        assert [d.message.header("MGW_MQTT_topic") for d in reader.collect(2)] == [f"{root}/a/b", root]
        with pytest.raises(ConversionFailure, match="not below the registered topic"):
            writer.destination.encode(Message(b"x", headers=(text("MGW_MQTT_topic", f"{root}elsewhere"),)))
    with writing(link, pair_of(root)) as writer:
        frame = writer.destination.encode(Message(b"x", headers=(text("MGW_MQTT_topic", "other"),)))
        assert root.encode() in frame[0]


@pytest.mark.parametrize("topic", ["a/+", "a/#", "#", "", "$SYS/x", "a{", "a/{}", "$share/g/a", "a\x00b"])
def test_impossible_destination_is_refused_at_registration(broker: Mosquitto, topic: str) -> None:
    with pytest.raises(AdminError, match="q@plant"):
        link_to(broker.port).check_endpoint(endpoint(topic), Direction.OUTBOUND)


@pytest.mark.parametrize("topic", ["a/#/b", "a+", "", "$share/g", "$share//a", "a\x00b"])
def test_impossible_source_is_refused_at_registration(broker: Mosquitto, topic: str) -> None:
    with pytest.raises(AdminError, match="q@plant"):
        link_to(broker.port).check_endpoint(endpoint(topic), Direction.INBOUND)


def test_plain_topic_is_no_queue(broker: Mosquitto) -> None:
    with pytest.raises(AdminError, match="shared subscription"):
        link_to(broker.port).check_endpoint(endpoint("a", Domain.QUEUE), None)


# -- content --------------------------------------------------------------------------------------------------------


def test_control_characters_in_headers_do_not_end_the_connection(broker: Mosquitto) -> None:
    pair = pair_of(unique("control"))
    link = link_to(broker.port)
    headers = (text("lines", "a\nb\x00c\x7f"), text("MGW_X_bom", "\ufeffx\ufffe"), text("plain", "ü"))
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(Message(b"x", headers=headers))
        found = reader.one().headers
        assert [header for header in found if header in headers] == list(headers)


def test_byte_order_mark_of_a_foreign_publisher_arrives(broker: Mosquitto) -> None:
    topic = unique("bom")
    with reading(link_to(broker.port), pair_of(topic)) as reader:
        mosquitto_pub(broker.port, topic, b"x", "-D", "publish", "user-property", "name", "\ufeffvalue")
        assert reader.one().header("name") == "\ufeffvalue"


def test_user_properties_have_the_names_of_the_manual_where_the_link_says_so(broker: Mosquitto) -> None:
    topic = unique("documented")
    with reading(link_to(broker.port, header_names="documented"), pair_of(topic)) as reader:
        mosquitto_pub(broker.port, topic, b"x", "-D", "publish", "user-property", "tenant", "a")
        assert reader.one().header("MGW_MQTT_U_tenant") == "a"


def test_properties_of_a_foreign_publisher_arrive(broker: Mosquitto) -> None:
    topic = unique("foreign")
    properties = (
        ("user-property", "colour", "rot"),
        ("user-property", "MGW_MQTT_topic", "forged"),
        ("content-type", "text/plain"),
        ("response-topic", "answers"),
        ("correlation-data", "4711"),
        ("payload-format-indicator", "1"),
        ("message-expiry-interval", "600"),
    )
    more = [word for values in properties for word in ("-D", "publish", *values)]
    with reading(link_to(broker.port), pair_of(topic)) as reader:
        mosquitto_pub(broker.port, topic, "Grüße".encode(), *more)
        message = reader.one()
        assert (message.body, message.correlation) == ("Grüße", "4711")
        assert message.expiration is not None
        assert 500 < message.expiration <= 600
        assert {header.name.removeprefix("MGW_MQTT_"): header.value for header in message.headers} == {
            "topic": topic,
            "qos": 1,
            "retain": False,
            "dup": False,
            "colour": "rot",
            "U_MGW_MQTT_topic": "forged",
            "contentType": "text/plain",
            "responseTopic": "answers",
            "correlationData": b"4711",
            "payloadFormat": 1,
        }


def test_text_that_is_no_text_fails_that_one_message(broker: Mosquitto) -> None:
    topic = unique("broken")
    with reading(link_to(broker.port), pair_of(topic, MQTT_PayloadType="TEXT")) as reader:
        for body in (b"good", b"\xff\xfe", b"good again"):
            mosquitto_pub(broker.port, topic, body)
        deliveries = reader.collect(3)
        assert [d.failure is not None for d in deliveries] == [False, True, False]
        assert [d.message.body for d in deliveries] == ["good", b"\xff\xfe", "good again"]


@VERSIONS
def test_body_of_20_megabytes_passes_both_ways(broker: Mosquitto, version: int) -> None:
    pair = pair_of(unique("large"))
    link = link_to(broker.port, version)
    body = bytes(range(256)) * (80 * 1024)
    with reading(link, pair) as reader, writing(link, pair) as writer:
        writer.deliver(Message(body))
        assert reader.one().body == body


def test_packet_over_the_brokers_limit_fails_when_it_is_encoded() -> None:
    with Mosquitto(config=("max_packet_size 10000",)) as own, writing(link_to(own.port), pair_of("t")) as writer:
        with pytest.raises(ConversionFailure, match="accepts at most 10000"):
            writer.destination.encode(Message(b"x" * 10_000))
        writer.deliver(Message(b"x" * 9000))


def test_payload_over_the_brokers_limit_is_rejected_in_words() -> None:
    with (
        Mosquitto(config=("message_size_limit 1000",)) as own,
        writing(link_to(own.port), pair_of("t")) as writer,
        pytest.raises(DeliveryRejected, match="packet too large"),
    ):
        writer.deliver(Message(b"x" * 2000))


# -- security -------------------------------------------------------------------------------------------------------


@VERSIONS
def test_right_password_is_let_in(version: int) -> None:
    with Mosquitto(username="me", password="right") as own:
        pair = pair_of("t")
        link = link_to(own.port, version, "me", "right")
        with reading(link, pair) as reader, writing(link, pair) as writer:
            writer.deliver(Message(b"x"))
            assert reader.bodies(1) == [b"x"]
        assert all(check.ok for check in link.test())
        refused = link_to(own.port, version).test()
        assert not refused[-1].ok
        assert "not authorised" in refused[-1].detail
        assert "without user name" in refused[-1].detail


@VERSIONS
def test_tls_is_verified(version: int) -> None:
    with Mosquitto(tls=True) as own:
        assert own.certificates is not None
        assert own.tls_port is not None
        pair = pair_of("t")
        link = link_to(own.tls_port, version, tls=True, tls_ca_file=str(own.certificates.ca))
        with reading(link, pair) as reader, writing(link, pair) as writer:
            writer.deliver(*numbered(500), Message(b"y" * 1_000_000))
            assert reader.bodies(501) == [*numbers(500), b"y" * 1_000_000]
        assert "with TLS" in link.test()[0].detail
        other = link_to(own.tls_port, version, tls=True, tls_ca_file=str(own.certificates.other_ca))
        system = link_to(own.tls_port, version, tls=True)
        for bad in (other, system):
            with pytest.raises(LinkRefused, match="is not trusted"):
                bad.source(use_of(pair.source)).connect({})
            assert "tls_ca_file" in bad.test()[-1].cure
        plain = link_to(own.tls_port, version).test()
        assert not plain[-1].ok
        assert "with TLS" in plain[-1].cure


def test_denied_topic_is_refused_in_words() -> None:
    with Mosquitto() as first:  # its folder is a place for the access rules
        rules = first.folder / "acl"
        rules.write_text("topic readwrite allowed/#\n")
        rules.chmod(0o644)
        with Mosquitto(config=(f"acl_file {rules}",)) as own:
            link = link_to(own.port)
            with writing(link, pair_of("denied")) as writer, pytest.raises(DeliveryRejected, match="not authorised"):
                writer.deliver(Message(b"x"))
            with reading(link, pair_of("allowed/a")) as reader, writing(link, pair_of("allowed/a")) as writer:
                writer.deliver(Message(b"x"))
                assert reader.bodies(1) == [b"x"]


# -- crashes --------------------------------------------------------------------------------------------------------


@VERSIONS
def test_broker_killed_during_traffic_loses_nothing_and_keeps_order(version: int) -> None:
    total, kills = 600, 2
    with Mosquitto() as own:
        pair = pair_of("t")
        link = link_to(own.port, version, connect_timeout=5.0)
        reader = Reader(link, use_of(pair.source)).connect()
        writer = Writer(link, use_of(pair.destination)).connect()
        found: list[bytes | None] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                try:
                    batch = reader.source.read(50, 0.1)
                    reader.settle(batch)
                except LinkError:
                    reader.reconnect()
                else:
                    found.extend(body_bytes(delivery.message) for delivery in batch.deliveries)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            confirmed, killed = 0, 0
            while confirmed < total // 10:
                try:
                    confirmed = _publish(writer, numbered(total), confirmed, own if killed < kills else None, killed)
                except LinkError:
                    killed += 1
                    own.restart()
                    _reconnect(writer)
            wait_until(lambda: len(set(found)) == total, f"{total} messages", 60)
        finally:
            stop.set()
            thread.join()
            reader.source.close()
            writer.destination.close()
        assert killed == kills
        assert first_occurrences(found) == numbers(total)


def _publish(writer: Writer, messages: Sequence[Message], confirmed: int, victim: Mosquitto | None, killed: int) -> int:
    """Publish what is not confirmed in batches of ten, six in flight; kills the broker on the way. The last batch."""
    last = len(messages) // 10
    sent = confirmed
    while confirmed < last:
        while sent < min(last, confirmed + 6):
            batch = messages[sent * 10 : sent * 10 + 10]
            sent += 1
            writer.destination.publish(sent, [writer.destination.encode(message) for message in batch])
            if victim is not None and sent == (killed + 1) * 20:
                victim.kill()
        try:
            confirmed = writer.destination.confirmed(1.0) or confirmed
        except LinkError as error:
            error.confirmed = confirmed  # type: ignore[attr-defined]
            raise
    return confirmed


def _reconnect(writer: Writer) -> None:
    deadline = time.monotonic() + 20
    while True:
        writer.destination.close()
        try:
            writer.destination.connect()
        except LinkError:
            assert time.monotonic() < deadline
        else:
            return
