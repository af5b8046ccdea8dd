"""``mgw jobs reset, restart, pause, resume, drain`` and ``mgw links reconnect``: what they say."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Mgw

CONFIGURATION = """\
version: 1
links: {mem: {type: memory}}
foreign_queues: {orders@mem: {}}
queues: {ORDERS: {}}
jobs:
  orders_out: {type: outbound, source: ORDERS, destination: orders@mem}
"""


@pytest.fixture
def applied(mgw: Mgw) -> Mgw:
    mgw.ok("apply", mgw.file(CONFIGURATION))
    return mgw


def _enabled(mgw: Mgw) -> bool:
    return bool(json.loads(mgw.ok("jobs", "show", "orders_out", "--json"))["enabled"])


def test_each_verb_says_what_it_did(applied: Mgw) -> None:
    assert applied.ok("jobs", "pause", "ORDERS_OUT") == "job orders_out paused\n"
    assert not _enabled(applied)
    assert applied.ok("links", "reconnect", "mem") == "link mem: no enabled job uses it\n"
    assert applied.ok("jobs", "resume", "orders_out") == "job orders_out resumed\n"
    assert _enabled(applied)
    assert applied.ok("jobs", "restart", "orders_out") == "job orders_out restarts\n"
    assert applied.ok("jobs", "reset", "orders_out") == "job orders_out reset\n"
    assert applied.ok("jobs", "reset", "--all") == "no job is RETRY or FAILED\n"
    assert applied.ok("links", "reconnect", "MEM") == "link mem: jobs orders_out connect again\n"
    assert applied.ok("jobs", "drain", "orders_out") == "job orders_out drained and paused\n"
    assert not _enabled(applied)


def test_a_job_that_nobody_runs_is_paused_with_what_waits_for_it(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "ORDERS", "--lines", stdin="one\ntwo\n")
    left = applied("jobs", "drain", "orders_out", "--timeout", "0.1")
    assert (left.code, left.out) == (1, "job orders_out paused after 0.1 s: 2 messages wait, it was STOPPED\n")


@pytest.mark.parametrize("words", [("reset",), ("reset", "orders_out", "--all")])
def test_reset_wants_a_job_or_all(applied: Mgw, words: tuple[str, ...]) -> None:
    refused = applied("jobs", *words)
    assert (refused.code, "give either JOB or --all" in refused.err) == (2, True)


@pytest.mark.parametrize("words", [("jobs", "restart"), ("jobs", "drain"), ("jobs", "pause"), ("links", "reconnect")])
def test_what_is_not_there_is_named(applied: Mgw, words: tuple[str, ...]) -> None:
    refused = applied(*words, "nothing")
    assert (refused.code, "nothing" in refused.err) == (1, True)
