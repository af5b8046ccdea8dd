"""The exception desk on logs: streams of RabbitMQ, topics of Kafka. What is done is left out, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.services.exceptions import EVERYTHING, Change, DeskRefused, Outcome, Pace, Which
from mgw.gateway.services.exceptions import link_desk as module
from mgw.transforms.errors import LinkError, LinkUnavailable, QueueMissing
from mgw.transforms.message import Header, ValueType
from tests.conformance.exception_logs import Logs, StreamLogs, TopicLogs, listed, replayed
from tests.support.brokers import Kafka, RabbitMQ
from tests.support.gateways import gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.ports import free_port
from tests.support.waiting import eventually


@pytest.fixture
def logs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Logs]:
    kind = request.param
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        if kind != "stream":
            yield TopicLogs(gateway, request.getfixturevalue("kafka"), kind)
            return
        server: RabbitMQ = request.getfixturevalue("rabbitmq")
        connection = pika.BlockingConnection(pika.URLParameters(server.url))
        yield StreamLogs(gateway, server, connection.channel())
        connection.close()


every_log = pytest.mark.parametrize("logs", ["kafka-python", "confluent", "stream"], indirect=True)


@every_log
def test_a_replay_brings_the_originals_back_once(logs: Logs) -> None:
    given = logs.fail(6)
    logs.put("BAD", ["stranger"])
    desk = logs.desk()
    ids = listed(desk)
    assert len(set(ids)) == 7
    assert listed(desk) == ids
    assert listed(desk, Which(number=722), 2) == [each for each in ids if each in listed(desk, Which(number=722))][:2]
    (shown,) = desk.entries(Which(ids=(ids[1],)))
    assert (shown.job, shown.queue, shown.reason.number) == ("in", "BAD@l", 722)
    assert shown.reason.origin.startswith(logs.names["SRC"])
    assert replayed(desk, dry=True).numbers == {"done": 6, "gone": 0, "failed": 1}
    outcome = replayed(desk)
    ((stranger, why),) = outcome.failed.items()
    assert "--to" in why
    assert (len(outcome.done), outcome.target, outcome.stopped) == (6, "SRC@l", "")
    again = logs.taken("SRC")
    if isinstance(logs, StreamLogs):
        assert again == given
    else:
        for part in range(3):
            sent = [each for each in given if each.part == part]
            assert [each for each in again if each.part == part] == [*sent, *sent]
    told = [text for text in logs.gateway.events() if "replayed from BAD@l to SRC@l by me" in text]
    assert len(told) == 1
    assert ids[0] in told[0]

    assert listed(desk) == [stranger]
    assert replayed(desk).numbers == {"done": 0, "gone": 0, "failed": 1}
    assert replayed(logs.desk(to="OTHER@l")).done == [stranger]
    assert logs.bodies("OTHER") == ["stranger"]
    assert listed(desk) == []
    logs.put("BAD", ["later"])
    assert len(listed(desk)) == 1


@every_log
def test_an_edited_message_is_the_last_one_and_the_old_one_is_done(logs: Logs) -> None:
    logs.fail(3)
    desk = logs.desk()
    ids = listed(desk)
    change = Change(body=b'{"f": 212}', put=[Header("by", ValueType.TEXT, "me")])
    edited = desk.edit(ids[1], change, by="me")
    assert edited.id not in ids
    assert sorted(listed(desk)) == sorted([ids[0], ids[2], edited.id])
    (shown,) = desk.entries(Which(ids=(edited.id,)))
    assert shown.message.body == b'{"f": 212}'
    assert (shown.message, shown.reason.origin) == (edited.message, edited.reason.origin)
    assert any("edited by me" in text for text in logs.gateway.events())
    assert len(replayed(desk).done) == 3
    assert b'{"f": 212}' in [sent.body for sent in logs.taken("SRC")]
    with pytest.raises(DeskRefused, match="is not in exception queue BAD@l"):
        desk.edit(ids[1], change, by="me")


@every_log
def test_a_discard_takes_what_is_meant(logs: Logs) -> None:
    logs.put("BAD", ["a", "b", "c", "d", "e"])
    desk = logs.desk()
    ids = listed(desk)
    outcome = desk.discard(Which(ids=(ids[0], ids[3])), by="me", limit=None, pace=Pace(1.9), dry=False)
    assert outcome.done == [ids[0], ids[3]]
    assert listed(desk) == [each for each in ids if each not in outcome.done]
    assert any("discarded by me" in text for text in logs.gateway.events())
    assert len(desk.discard(Which(), by="me", limit=2, pace=Pace(None), dry=False).done) == 2
    assert listed(desk) == ids[4:]


@every_log
def test_pages_are_read_in_order_and_only_what_was_there(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.put("BAD", [str(number) for number in range(250)])
    monkeypatch.setattr(module, "_MOST", 100)
    with pytest.raises(DeskRefused, match=r"more messages than can be looked through; .*limit"):
        listed(logs.desk())
    assert len(listed(logs.desk(), limit=100)) == 100
    told, after = list[str](), None
    while True:  # the last message of each page is discarded before the next one is asked for
        page = logs.desk().page(EVERYTHING, 90, after=after)
        told += [each.id for each in page.entries]
        if (after := page.next) is None:
            break
        logs.desk().discard(Which(ids=(told[-1],)), by="me", limit=None, pace=Pace(None), dry=False)
        logs.put("BAD", ["again"])
    assert (len(told), len(set(told))) == (252, 252)
    outcome = replayed(logs.desk(to="OTHER@l"))
    assert (len(outcome.done), outcome.stopped) == (250, "")
    assert len(set(logs.bodies("OTHER"))) == 249, "248 of the first ones, and those that came later"
    assert listed(logs.desk()) == []


@every_log
def test_a_hub_that_fails_after_the_replay_doubles_and_does_not_lose(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.put("BAD", ["0", "1"])

    def fail(*_: object) -> None:
        raise LinkUnavailable("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(module.Journal, "keep", fail)
        with pytest.raises(LinkUnavailable):
            replayed(logs.desk(to="OTHER@l"))
    assert len(replayed(logs.desk(to="OTHER@l")).done) == 2
    assert sorted(logs.bodies("OTHER")) == ["0", "0", "1", "1"]
    assert listed(logs.desk()) == []


@every_log
def test_a_log_that_was_made_again_hides_nothing(logs: Logs) -> None:
    logs.put("BAD", ["a", "b", "c"])
    desk = logs.desk()
    assert len(desk.discard(Which(), by="me", limit=None, pace=Pace(None), dry=False).done) == 3
    logs.make_again("BAD")
    assert listed(desk) == []
    logs.put("BAD", ["x", "y", "z", "v"])
    assert len(listed(desk)) == 4
    assert len(desk.discard(Which(), by="me", limit=2, pace=Pace(None), dry=False).done) == 2
    assert len(listed(desk)) == 2


@every_log
def test_two_desks_at_once_see_what_the_other_one_has_done(logs: Logs) -> None:
    logs.put("BAD", ["a", "b", "c"])
    first, second = logs.desk(to="OTHER@l"), logs.desk(to="OTHER@l")
    taken: list[Any] = []
    pace = Pace(1, lambda _: taken.append(1))
    pace.before(1, Outcome())  # it waits before its first message
    monkey = pace.before

    def before(count: int, outcome: Outcome, sleep: Any = None) -> bool:
        if not taken:
            taken.extend(replayed(second, limit=1).done)
        return monkey(count, outcome, lambda _: None)

    pace.before = before  # type: ignore[method-assign]
    outcome = first.replay(Which(), by="me", limit=None, pace=pace, dry=False)
    assert (len(outcome.done), outcome.gone) == (2, taken[:1])
    assert sorted(logs.bodies("OTHER")) == ["a", "b", "c"]


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_topic_with_gaps_is_read_to_its_end(tmp_path: Path, kafka: Kafka, client: str) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        topics = TopicLogs(gateway, kafka, client, partitions=2)
        topics.put("BAD", ["cut", "kept"], part=0)
        topics.put("BAD", ["done", "first"], part=1)
        desk = topics.desk(to="OTHER@l")
        assert len(listed(desk)) == 4
        assert replayed(desk, Which(ids=("1@0",))).done == ["1@0"]
        topics.cut("BAD", {0: 1})
        with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=f"t-{client}")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topics.names["BAD"], b"aborted", partition=1).get(30)
            producer.abort_transaction()
            assert sorted(listed(desk)) == ["0@1", "1@1"]
            producer.begin_transaction()
            producer.send(topics.names["BAD"], b"committed", partition=1).get(30)
            assert sorted(listed(desk)) == ["0@1", "1@1"]  # an open transaction ends the log for now
            producer.commit_transaction()
        assert sorted(replayed(desk).done) == ["0@1", "1@1", "1@4"]
        topics.cut("BAD", {0: 2, 1: 2})
        assert listed(desk) == []
        topics.put("BAD", ["later"], part=0)
        assert replayed(desk).done == ["0@2"]
        with gateway.hub.read() as conn:  # what the log no longer holds is forgotten
            kept = conn.exec_driver_sql("SELECT part, position FROM gw_desk_done ORDER BY part, position").all()
        assert [tuple(row) for row in kept] == [(0, 2), (1, 4)]
        assert sorted(topics.bodies("OTHER")) == ["committed", "done", "first", "kept", "later"]


def test_a_replay_that_is_killed_loses_nothing_and_repeats_at_most_a_batch(tmp_path: Path, kafka: Kafka) -> None:
    count, batch = 100, 20
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        topics = TopicLogs(gateway, kafka, "kafka-python", partitions=1)
        topics.put("BAD", [str(number) for number in range(count)])
        words = ["--hub", gateway.url, "exceptions", "replay", "in", "--all", "--to", "OTHER@l", "--rate", str(batch)]
        with subprocess.Popen([sys.executable, "-m", "mgw.gateway", *words], stdout=subprocess.PIPE) as command:
            eventually(lambda: len(topics.taken("OTHER")) >= batch, deadline=60, what="the first batch")
            command.kill()
        left, sent = len(listed(topics.desk())), topics.bodies("OTHER")
        assert sent == [str(number) for number in range(len(sent))]
        assert len(sent) < count
        assert count <= left + len(sent) <= count + batch
        assert len(replayed(topics.desk(to="OTHER@l")).done) == left
        assert set(topics.bodies("OTHER")) == {str(number) for number in range(count)}


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_partition_that_the_source_does_not_have_is_left_to_the_key(
    tmp_path: Path, kafka: Kafka, client: str
) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        topics = TopicLogs(gateway, kafka, client)
        topics.fail(3)
        topics.partitions = 1
        topics.make_again("SRC")
        assert len(replayed(topics.desk()).done) == 3
        assert [(sent.key, sent.timestamp) for sent in topics.taken("SRC")] == [
            (b"k%d" % number, 1_700_000_000_000 + number) for number in range(3)
        ]


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_what_is_wrong_is_told_with_a_cure(tmp_path: Path, kafka: Kafka, client: str) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        topics = TopicLogs(gateway, kafka, client)
        gateway.admin.register_foreign_queue("GONE", "l", "nobody.made.it")
        gateway.admin.alter_job("in", exception_queue="GONE@l")
        with pytest.raises(QueueMissing, match=r"topic nobody.made.it does not exist; cause: .*; cure: create"):
            listed(topics.desk())
        gateway.admin.alter_msgsystem_link("l", {"bootstrap_servers": f"127.0.0.1:{free_port()}"})
        with pytest.raises(LinkError, match=r"cause: .*; cure: "):
            listed(topics.desk())
