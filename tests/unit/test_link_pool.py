"""A link of an agent lives as long as its definition; what one attempt of a job was told ends with the attempt."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.runtime.job_setup import JobSetup, LinkEnd
from mgw.links import registry
from mgw.links.attempt import Attempt
from mgw.links.contract import Direction, Endpoint, JobUse, Link, LinkConfig
from mgw.links.kafka.link import KafkaLink
from mgw.links.mqtt.knowledge import Knowledge
from mgw.links.pool import LinkPool
from mgw.transforms.errors import ConfigInvalid

RABBIT = LinkConfig("rmq", "RABBITMQ", {"hostname": "h"}, inbound_log_queue="in.{job}", outbound_log_queue="out.{job}")


def test_a_definition_has_one_link_for_all_threads() -> None:
    pool = LinkPool()
    found: list[Link] = []
    threads = [threading.Thread(target=lambda: found.append(pool.link(replace(RABBIT)))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(link) for link in found} == {id(pool.link(RABBIT))}


@pytest.mark.parametrize(
    "change",
    [
        {"attributes": {"hostname": "other"}},
        {"options": {"AMQP_Heartbeat": "7"}},
        {"username": "u", "password": "p"},
        {"outbound_log_queue": "other.{job}"},
        {"inbound_log_queue": None, "outbound_log_queue": None},
    ],
    ids=repr,
)
def test_an_altered_definition_has_a_link_of_its_own(change: dict[str, Any]) -> None:
    pool = LinkPool()
    first, altered = pool.link(RABBIT), replace(RABBIT, **change)
    second = pool.link(altered)
    assert second is not first
    assert second.config == altered
    assert pool.link(replace(altered)) is second


def test_messages_outside_the_logs_go_by_a_link_without_logs() -> None:
    pool = LinkPool()
    link, plain = pool.link(RABBIT), pool.without_logs(RABBIT)
    assert (plain.config.inbound_log_queue, plain.config.outbound_log_queue) == (None, None)
    assert pool.link(RABBIT) is link
    assert pool.without_logs(RABBIT) is plain


def test_a_link_that_is_not_defined_any_more_is_dropped() -> None:
    pool = LinkPool()
    other = replace(RABBIT, name="other")
    kept, plain, dropped = pool.link(RABBIT), pool.without_logs(RABBIT), pool.link(other)
    pool.keep([RABBIT])
    assert (pool.link(RABBIT), pool.without_logs(RABBIT)) == (kept, plain)
    assert pool.link(other) is not dropped


def test_a_definition_that_cannot_be_opened_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, config = LinkPool(), LinkConfig("later", "LATER", {})
    with pytest.raises(ConfigInvalid):
        pool.link(config)
    opened: Any = SimpleNamespace(config=config)
    monkeypatch.setattr(registry, "open_link", lambda _: opened)
    assert pool.link(config) is opened


def test_a_new_link_shares_what_the_others_know(monkeypatch: pytest.MonkeyPatch) -> None:
    class Knowing:
        def __init__(self, config: LinkConfig) -> None:
            self.config = config
            self.others: list[str] = []

        def share_knowledge(self, links: Iterable[Any]) -> None:
            self.others += [link.config.name for link in links]

    made: Any = Knowing
    monkeypatch.setattr(registry, "open_link", made)
    pool = LinkPool()
    links: list[Any] = [
        pool.link(LinkConfig(name, "KNOWING", {"broker": broker})) for name, broker in ("a1", "b1", "a2")
    ]
    assert [link.others for link in links] == [[], ["a"], ["a", "b"]]


def _use() -> JobUse:
    return JobUse(Endpoint("q", "rmq", "q"), "j")


def test_an_attempt_keeps_one_of_each_kind_until_the_next_attempt() -> None:
    class Answers:
        pass

    link, other, use = object(), object(), _use()
    answers = use.attempt.of(link, Answers)
    assert replace(use, located=True).attempt.of(link, Answers) is answers
    assert isinstance(use.attempt.of(link, dict), dict)
    assert use.attempt.of(other, Answers) is not answers
    assert Attempt().of(link, Answers) is not answers
    assert _use() == _use(), "definitions are the same whatever an attempt was told"


def test_each_attempt_of_a_job_asks_anew() -> None:
    job: Any = JobDef.__new__(JobDef)
    ends = [LinkEnd(RABBIT, _use(), direction) for direction in Direction]
    setup = JobSetup(job, ends[0], ends[1], None, None)
    attempts = [end.use.attempt for begun in (setup, setup.begin(), setup.begin()) for end in begun.ends]
    assert len({id(attempt) for attempt in attempts}) == 6
    assert setup.begin().ends == setup.ends


def test_renewed_tls_files_of_a_kafka_link_are_read_again(tmp_path: Path) -> None:
    from tests.support.certificates import Certificates

    made = Certificates(tmp_path)
    file = tmp_path / "authority.pem"
    file.write_bytes(made.ca.read_bytes())
    attributes = {"bootstrap_servers": "h:1", "security_protocol": "SSL", "tls_ca_file": str(file)}
    link = LinkPool().link(LinkConfig("k", "KAFKA", attributes))
    assert isinstance(link, KafkaLink)

    def authorities() -> list[Any]:
        ends: list[Any] = [link.source(_use()), link.destination(_use())]
        return [context.get_ca_certs() for end in ends for context in [end._settings.common["ssl_context"]]]

    before = authorities()
    file.write_bytes(made.other_ca.read_bytes())
    after = authorities()
    assert before[0] == before[1] != after[0] == after[1]
    file.unlink()
    with pytest.raises(ConfigInvalid, match=f"TLS files cannot be used; cause: {file}: "):
        link.source(_use())


def test_what_an_mqtt_broker_lost_is_known_after_the_link_was_altered() -> None:
    pool = LinkPool()
    config = LinkConfig("plant", "MQTT", {"hostname": "h"})
    first: Any = pool.link(config)
    first._knowledge.note_loss("mgw-1", "it lost the session")
    assert first._knowledge.note_overflow("mgw-1", "it overflowed")
    altered: Any = pool.link(replace(config, attributes={"hostname": "h", "keepalive": 7}))
    assert altered._knowledge.loss("mgw-1") == "it lost the session"
    assert not altered._knowledge.note_overflow("mgw-1", "it overflowed again"), "the job goes on, at least once"
    elsewhere: Any = pool.link(replace(config, attributes={"hostname": "other"}))
    assert not elsewhere._knowledge.loss("mgw-1")


def test_the_room_of_an_mqtt_broker_is_measured_now_and_then() -> None:
    knowledge, now = Knowledge(), [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", lambda: now[0])
        ample, scarce = ("u", "log", 10), ("u", "log", 5000)
        assert knowledge.room(ample) is None
        knowledge.note_room(ample, "")
        knowledge.note_room(scarce, "it keeps 1000")
        found = []
        for now[0] in (590.0, 610.0, 3590.0, 3610.0):
            found.append((knowledge.room(ample), knowledge.room(scarce)))
    assert found == [("", "it keeps 1000"), ("", None), ("", None), (None, None)]


def test_one_look_at_a_time_into_a_log_queue_whichever_link_of_the_broker_looks() -> None:
    pool = LinkPool()
    links: list[Any] = [pool.link(replace(RABBIT, name=name, options={"AMQP_Heartbeat": "9"})) for name in ("a", "b")]
    links += [pool.link(replace(RABBIT, name="a")), pool.link(replace(RABBIT, name="c", attributes={"hostname": "x"}))]
    altered, elsewhere = links[-2:]
    lock = links[0]._knowledge.alone_with("/", "log")
    assert all(link._knowledge.alone_with("/", "log") is lock for link in (links[1], altered))
    assert links[0]._knowledge.alone_with("other", "log") is not lock
    assert elsewhere._knowledge.alone_with("/", "log") is not lock
