"""``mgw links prepare`` and ``prepare: true`` in a file."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Mgw
from tests.conformance.test_log_preparation import exists
from tests.faults.ends.rabbitmq import declare
from tests.support.brokers import RabbitMQ
from tests.support.ports import free_port
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

FILE = """\
version: 1
links:
  r: {{type: rabbitmq, hostname: {0.host}, port: {1}, username: {0.username}, password: "{0.password}", prepare: {2}}}
foreign_queues:
  q@r: {{provider_queue: prepared.{3}}}
queues:
  OUT: {{}}
jobs:
  {3}_out: {{type: outbound, source: OUT, destination: q@r}}
"""


@pytest.mark.rabbitmq
def test_apply_prepares_a_link_that_asks_for_it(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    declare(rabbitmq, "prepared.file", {"x-queue-type": "classic"})
    file = mgw.file(FILE.format(rabbitmq, rabbitmq.port, "true", "file"))
    assert "apply then prepares link r; what that creates: mgw links prepare r --dry-run" in mgw.ok("plan", file)
    out = mgw.ok("apply", file)
    made = "create queue mgw.sent.file_out (durable, x-queue-type=classic, x-max-length=2): log of job file_out"
    assert made in out.splitlines()
    assert exists(rabbitmq, "mgw.sent.file_out")
    assert mgw.ok("apply", file).startswith("nothing to do")
    assert "outbound_log_queue: mgw.sent.{job}" in mgw.ok("export")
    assert "link r is prepared: nothing to do" in mgw.ok("links", "prepare", "R")


@pytest.mark.rabbitmq
def test_a_broker_that_is_away_fails_apply_but_not_the_start(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    file = mgw.file(FILE.format(rabbitmq, free_port(), "true", "away"))
    result = mgw("apply", file)
    assert result.code == 1
    assert "link r is not prepared" in result.err
    assert "then run: mgw links prepare r" in result.err
    assert "create job away_out" in result.out
    with mgw.running(file):
        eventually(lambda: "RUNNING" in mgw("status").out, deadline=60)


@pytest.mark.rabbitmq
def test_a_gateway_that_starts_before_its_broker_prepares_its_link_later(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    declare(rabbitmq, "prepared.late", {"x-queue-type": "classic"})
    late = free_port()

    def job() -> dict[str, object]:
        found: dict[str, object] = json.loads(mgw.ok("jobs", "show", "late_out", "--json"))
        return found

    with mgw.running(mgw.file(FILE.format(rabbitmq, late, "true", "late"))):
        eventually(lambda: job()["status"] == "RETRY", deadline=60, what="a job that does not reach its broker")
        with TcpProxy(rabbitmq.host, rabbitmq.port, port=late):
            eventually(lambda: exists(rabbitmq, "mgw.sent.late_out"), deadline=60, what="the log of the job")
            eventually(lambda: job()["guarantee"] == "exact-unless-broker-crash", deadline=60, what="the guarantee")
            assert job()["status"] == "READY"


@pytest.mark.rabbitmq
def test_the_command_says_what_it_would_make(mgw: Mgw, rabbitmq: RabbitMQ) -> None:
    declare(rabbitmq, "prepared.dry", {"x-queue-type": "classic"})
    mgw.ok("apply", mgw.file(FILE.format(rabbitmq, rabbitmq.port, "false", "dry")))
    lines = mgw.ok("links", "prepare", "r", "--dry-run").splitlines()
    assert lines[0].startswith("create queue mgw.sent.dry_out (durable")
    assert lines[-1] == "dry run: nothing was changed"
    assert not exists(rabbitmq, "mgw.sent.dry_out")
    done = json.loads(mgw.ok("links", "prepare", "r", "--json"))
    assert done["logs"][0]["verb"] == "create"
    assert done["settings"] == {"inbound_log_queue": "mgw.acks.{job}", "outbound_log_queue": "mgw.sent.{job}"}
    assert exists(rabbitmq, "mgw.sent.dry_out")


def test_a_link_without_logs_is_found_by_lint(mgw: Mgw) -> None:
    result = mgw("lint", mgw.file("version: 1\nlinks:\n  m: {type: memory, prepare: true}\n"))
    assert result.code == 78
    assert "links of type MEMORY keep no logs" in result.out
