"""The exception desk on queues of RabbitMQ: what is looked at stays as it was, what is replayed is never lost."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.services.audit_words import told
from mgw.gateway.services.exceptions import (
    EVERYTHING,
    Change,
    Desk,
    DeskRefused,
    NoSuchPlace,
    Outcome,
    Pace,
    Which,
    desk_of,
)
from mgw.gateway.services.exceptions import link_desk as module
from mgw.gateway.services.happenings import audit
from mgw.transforms.errors import LinkError, LinkRefused, LinkUnavailable
from mgw.transforms.message import Header, ValueType
from tests.support.brokers import RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.ports import free_port
from tests.support.waiting import eventually

TRANSFORMATION = {"set": {"body.c": "tab.user_data.f - 32"}}


class Queues:
    """Job ``in`` from SRC@r to H, with the exception queue BAD@r; and OTHER@r."""

    def __init__(self, gateway: Gateway, server: RabbitMQ, channel: Any) -> None:
        self.gateway, self.server, self.channel = gateway, server, channel
        self.names = {name: f"{name}.{uuid.uuid4().hex}" for name in ("SRC", "BAD", "OTHER")}
        place = {"hostname": server.host, "port": server.port}
        gateway.admin.create_msgsystem_link("r", "RABBITMQ", place, username=server.username, password=server.password)
        gateway.queue("H")
        for name, real in self.names.items():
            channel.queue_declare(real, durable=True)
            gateway.admin.register_foreign_queue(name, "r", real, domain="QUEUE")
        gateway.admin.create_transformation("f", "BASIC", "BASIC", TRANSFORMATION)
        gateway.admin.create_job("in", "INBOUND", "SRC@r", "H", transformation="f", exception_queue="BAD@r")

    def fail(self, count: int = 3) -> None:
        """So many messages of SRC get into BAD by the job, which has stopped then."""
        for number in range(count):
            properties = pika.BasicProperties(
                headers={"tenant": "a", "n": number}, correlation_id=f"c{number}", expiration="3600000"
            )
            self.channel.basic_publish("", self.names["SRC"], f"hot {number}".encode(), properties)
        with self.gateway.run():
            eventually(lambda: self.gateway.job("in")["EXCEPTIONQ_TOTAL"] == count, deadline=60)

    def foreign(self, text: str) -> None:
        """Somebody else's message in BAD."""
        command = ["amqp-publish", f"--url={self.server.url}%2f", "-r", self.names["BAD"], "-b", text]
        subprocess.run(command, check=True, timeout=60)

    def taken(self, name: str) -> list[tuple[bytes, Any, bool]]:
        """Body, properties and redelivered flag of all messages of a queue, which are removed."""
        found = []
        while (got := self.channel.basic_get(self.names[name], auto_ack=True))[0] is not None:
            found.append((got[2], got[1], got[0].redelivered))
        return found

    def bodies(self, name: str) -> list[str]:
        return [body.decode() for body, _, _ in self.taken(name)]

    def ready(self, name: str) -> int:
        return int(self.channel.queue_declare(self.names[name], passive=True).method.message_count)

    def desk(self, **to: str) -> Desk:
        return desk_of(self.gateway.admin, "in", **to)  # type: ignore[arg-type]


@pytest.fixture
def queues(tmp_path: Path, rabbitmq: RabbitMQ) -> Iterator[Queues]:
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield Queues(gateway, rabbitmq, connection.channel())
    connection.close()


def listed(desk: Desk, which: Which = EVERYTHING, limit: int | None = None) -> list[str]:
    return [entry.id for entry in desk.entries(which, limit, whole=False)]


def replayed(desk: Desk, which: Which = EVERYTHING, limit: int | None = None, *, dry: bool = False) -> Outcome:
    return desk.replay(which, by="me", limit=limit, pace=Pace(None), dry=dry)


def test_looking_changes_nothing_and_a_replay_brings_the_originals_back(queues: Queues) -> None:
    queues.fail()
    queues.foreign("stranger")
    desk = queues.desk()
    ids = listed(desk)
    assert len(set(ids)) == 4
    assert listed(desk) == ids
    assert listed(desk, Which(number=722), 2) == ids[:2]
    eventually(lambda: queues.ready("BAD") == 4)
    (shown,) = desk.entries(Which(ids=(ids[1].upper(),)))
    assert (shown.message.body, shown.job, shown.queue, shown.reason.number) == (b"hot 1", "in", "BAD@r", 722)
    assert shown.reason.origin.startswith(queues.names["SRC"])
    (stranger,) = desk.entries(Which(ids=(ids[3],)))
    assert (stranger.message.body, stranger.job, stranger.reason.text) == (b"stranger", "", "")

    change = Change(body=b'{"f": 212}', put=[Header("by", ValueType.TEXT, "me")])
    new = desk.edit(ids[1], change, by="me").id
    assert listed(desk) == [ids[0], *ids[2:], new]
    assert replayed(desk, dry=True).done == [ids[0], ids[2], new]
    outcome = replayed(desk)
    assert (outcome.done, outcome.target, list(outcome.failed)) == ([ids[0], ids[2], new], "SRC@r", [ids[3]])
    assert "--to" in outcome.failed[ids[3]]
    sent = queues.taken("SRC")
    assert [body for body, _, _ in sent] == [b"hot 0", b"hot 2", b'{"f": 212}']
    for (_, properties, redelivered), number in zip(sent, (0, 2, 1), strict=True):
        headers = {name: value for name, value in properties.headers.items() if name != "MGW_AQ_expires_at"}
        assert headers == {"tenant": "a", "n": number} | ({"by": "me"} if number == 1 else {})
        assert (properties.correlation_id, properties.content_type, redelivered) == (f"c{number}", None, False)
        assert 0 < int(properties.expiration) <= 3_600_000
    told = [text for text in queues.gateway.events() if "replayed from BAD@r to SRC@r by me" in text]
    assert len(told) == 1
    assert any("edited by me" in text for text in queues.gateway.events())

    assert replayed(queues.desk(to="OTHER@r")).done == [ids[3]]
    assert queues.bodies("OTHER") == ["stranger"]
    assert (queues.ready("BAD"), listed(desk)) == (0, [])


def test_the_next_page_leaves_nothing_out_where_a_copy_of_the_last_message_stays(queues: Queues) -> None:
    for text in ("a", "same", "b", "same", "c"):
        queues.foreign(text)
    desk = queues.desk()
    ids = listed(desk)
    page = desk.page(EVERYTHING, 2)
    assert [each.id for each in page.entries] == ids[:2]
    assert [each.id for each in desk.page(EVERYTHING, 2, after=page.next, look=5).beyond] == ids[4:]
    desk.discard(Which(ids=(ids[1],)), by="me", limit=None, pace=Pace(None), dry=False)
    rest = desk.page(EVERYTHING, 5, after=page.next)
    assert ([each.id for each in rest.entries], rest.next) == ([ids[2], ids[1], ids[4]], None)
    with pytest.raises(NoSuchPlace):
        desk.page(EVERYTHING, 2, after="h 1.0 a")


def test_a_discard_takes_what_is_meant_and_leaves_the_others_in_order(queues: Queues) -> None:
    for text in ("a", "same", "b", "same", "c"):
        queues.foreign(text)
    desk = queues.desk()
    ids = listed(desk)
    assert ids[3] == f"{ids[1]}-2"
    pace = Pace(1.9)  # one at a time, and the connection is kept meanwhile
    outcome = desk.discard(Which(ids=(ids[0], ids[3])), by="me", limit=None, pace=pace, dry=False)
    assert outcome.done == [ids[0], ids[3]]
    eventually(lambda: queues.ready("BAD") == 3)
    left = queues.taken("BAD")
    assert [body for body, _, _ in left] == [b"same", b"b", b"c"]
    assert all(redelivered for _, _, redelivered in left)
    assert any("discarded by me" in text for text in queues.gateway.events())
    begin, kept, end = reversed(audit(queues.gateway.hub, 3))
    assert [each.actor for each in (begin, kept, end)] == ["me"] * 3
    assert begin.before_change == {"exception_queue": "BAD@r", "ids": 2, "rate": 1.9}
    assert kept.before_change == {"exception_queue": "BAD@r", "begun": begin.id, "messages": outcome.done}
    assert told(end) == f"end discard of exceptions in (in BAD@r, begun: {begin.id}): 2 discarded"


def test_a_replay_reads_pages_in_order_and_only_what_was_there_when_it_began(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        queues.channel.basic_publish("", queues.names["BAD"], str(number).encode())
    monkeypatch.setattr(module, "_MOST", 100)
    desk = queues.desk(to="OTHER@r")
    with pytest.raises(DeskRefused, match=r"more messages than can be looked through; .*limit"):
        listed(desk)
    assert len(listed(desk, limit=100)) == 100
    eventually(lambda: queues.ready("BAD") == 250)
    outcome = replayed(desk)
    assert (len(outcome.done), outcome.stopped) == (250, "")
    assert queues.bodies("OTHER") == [str(number) for number in range(250)]


def test_a_target_that_refuses_keeps_the_messages_where_they_are(queues: Queues) -> None:
    limited = f"limited.{uuid.uuid4().hex}"
    queues.channel.queue_declare(limited, durable=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    queues.gateway.admin.register_foreign_queue("LIMITED", "r", limited, domain="QUEUE")
    for number in range(4):
        queues.foreign(str(number))
    outcome = replayed(queues.desk(to="LIMITED@r"))
    there = int(queues.channel.queue_declare(limited, passive=True).method.message_count)
    assert outcome.stopped
    assert there == len(outcome.done) >= 2
    eventually(lambda: queues.ready("BAD") == 4 - there)


def test_a_hub_that_fails_after_the_replay_doubles_and_does_not_lose(
    queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.fail(2)

    def fail(*_: object) -> None:
        raise LinkUnavailable("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(module.Journal, "keep", fail)
        with pytest.raises(LinkUnavailable):
            replayed(queues.desk())
    eventually(lambda: queues.ready("BAD") == 2)
    assert len(replayed(queues.desk()).done) == 2
    assert queues.bodies("SRC") == ["hot 0", "hot 1"] * 2


def test_a_replay_that_is_killed_loses_nothing_and_repeats_at_most_a_batch(queues: Queues) -> None:
    count, batch = 200, 20
    for number in range(count):
        queues.channel.basic_publish("", queues.names["BAD"], str(number).encode())
    eventually(lambda: queues.ready("BAD") == count)
    words = [
        "--hub",
        queues.gateway.url,
        "exceptions",
        "replay",
        "in",
        "--all",
        "--to",
        "OTHER@r",
        "--rate",
        str(batch),
    ]
    with subprocess.Popen([sys.executable, "-m", "mgw.gateway", *words], stdout=subprocess.PIPE) as command:
        eventually(lambda: queues.ready("OTHER") >= batch, deadline=60, what="the first batch at the other queue")
        command.kill()
    nothing = f"{queues.names['BAD']}\t0\n"
    eventually(
        lambda: nothing in queues.server.ctl("list_queues", "name", "messages_unacknowledged"),
        deadline=60,
        what="messages that were held",
    )
    left, sent = queues.bodies("BAD"), queues.bodies("OTHER")
    numbers = [str(number) for number in range(count)]
    assert sent == numbers[: len(sent)]
    assert left == numbers[count - len(left) :]
    assert len(sent) < count
    assert count <= len(left) + len(sent) <= count + batch


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ({"x-queue-type": "quorum", "x-delivery-limit": 1}, "quorum queue, which counts each look as a delivery"),
        (None, "auto-delete queue"),
    ],
    ids=["quorum", "auto-delete"],
)
def test_a_queue_in_which_looking_harms_is_refused(
    queues: Queues, arguments: dict[str, Any] | None, cause: str
) -> None:
    name = f"bad.{uuid.uuid4().hex}"
    queues.channel.queue_declare(name, durable=True, arguments=arguments, auto_delete=arguments is None)
    queues.gateway.admin.register_foreign_queue("BAD2", "r", name, domain="QUEUE")
    queues.gateway.admin.alter_job("in", exception_queue="BAD2@r")
    queues.channel.basic_publish("", name, b"kept")
    for _ in range(3):
        with pytest.raises(LinkRefused, match=cause):
            listed(queues.desk())
    eventually(lambda: queues.channel.queue_declare(name, passive=True).method.message_count == 1)
    method, _, body = queues.channel.basic_get(name)
    assert (body, method.redelivered) == (b"kept", False)


def test_another_reader_and_wrong_names_are_refused(queues: Queues) -> None:
    queues.channel.basic_consume(queues.names["BAD"], lambda *_: None)
    with pytest.raises(LinkRefused, match=r"1 consumer\(s\) read it"):
        listed(queues.desk())
    with pytest.raises(DeskRefused, match="cannot be replayed to itself"):
        queues.desk(to="bad@R")
    with pytest.raises(DeskRefused, match="it is a foreign queue; leave --consumer out"):
        queues.desk(consumer="c")


def test_a_broker_that_is_down_is_told_with_a_cure(queues: Queues) -> None:
    queues.gateway.admin.alter_msgsystem_link("r", {"port": free_port()})
    with pytest.raises(LinkError, match=r"nothing listens there.*check hostname, port"):
        listed(queues.desk())
