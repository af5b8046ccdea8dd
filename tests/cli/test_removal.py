"""What holds messages is not removed without a word about them: ``mgw`` refuses, counts, moves and tells."""

from __future__ import annotations

import json

import pytest

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from tests.cli.conftest import Mgw
from tests.cli.test_run_with_refusals import running
from tests.support.waiting import eventually

FILE = """\
version: 1
links:
  mem: {type: memory}
foreign_queues:
  far@mem: {domain: queue}
queues:
  ONE: {}
  MANY: {multiple_consumers: true, subscribers: {me: {}, you: {rule: "priority > 5"}}}
  SAFE: {}
jobs:
  out: {type: outbound, source: MANY, destination: far@mem, enabled: false}
"""
KEPT = "version: 1\nqueues:\n  SAFE: {}\n"


@pytest.fixture
def held(mgw: Mgw) -> Mgw:
    """Two messages in ONE, three in MANY for ``me`` and job ``out``."""
    mgw.ok("apply", mgw.file(FILE))
    for text in ("a", "b"):
        mgw.ok("aq", "enqueue", "ONE", text)
    for text in ("x", "y", "z"):
        mgw.ok("aq", "enqueue", "MANY", text)
    mgw.file(KEPT, "kept.yaml")
    return mgw


def refused(mgw: Mgw, *words: str) -> str:
    before = mgw.ok("aq", "queues")
    done = mgw(*words)
    assert (done.code, done.out) == (1, "")
    assert [line.split()[:-1] for line in mgw.ok("aq", "queues").splitlines()] == [
        line.split()[:-1] for line in before.splitlines()
    ]
    return done.err


def messages(mgw: Mgw, queue: str) -> int:
    (found,) = (each for each in json.loads(mgw.ok("aq", "queues", "--json")) if each["name"] == queue)
    return int(found["messages"]["ready"])


def test_job(held: Mgw) -> None:
    said = refused(held, "jobs", "remove", "out")
    assert "job out cannot be removed" in said
    assert "its subscription to queue MANY holds 3 messages, the oldest is " in said
    assert "--move-to QUEUE" in said
    assert held("jobs", "remove", "out", "--force", "--move-to", "SAFE").code == 2
    done = held.ok("jobs", "remove", "OUT", "--move-to", "safe")
    assert done.startswith("job out removed; 3 messages, the oldest is ")
    assert done.endswith(" old: moved to queue SAFE\n")
    assert messages(held, "SAFE") == 3
    assert "remove job out, which reads MANY, by " in held.ok("events")


def test_job_with_force(held: Mgw) -> None:
    assert held.ok("jobs", "remove", "out", "--force").endswith(" old: deleted with it\n")


def test_job_and_subscriber_whose_messages_are_dropped(held: Mgw) -> None:
    for words in (("--drop-messages", "--force"), ("--drop-messages", "--move-to", "SAFE")):
        assert "give only one of" in held("jobs", "remove", "out", *words).err
    done = held.ok("jobs", "remove", "out", "--drop-messages")
    assert done.startswith("job out removed; 3 messages, the oldest is ")
    assert done.endswith(" old: deleted with it\n")
    ends = ("--type", "outbound", "--source", "MANY", "--destination", "far@mem")
    held.ok("subscribers", "create", "half", *ends)
    held.ok("aq", "enqueue", "MANY", "x")
    assert "holds 1 message" in refused(held, "subscribers", "remove", "half")
    assert held.ok("subscribers", "remove", "half", "--drop-messages").endswith(" old: deleted with it\n")


def test_subscriber(held: Mgw) -> None:
    assert "3 messages, the oldest is " in refused(held, "aq", "subscribers", "remove", "MANY", "me")
    held.ok("aq", "subscribers", "remove", "MANY", "you")
    assert "moved to queue SAFE" in held.ok("aq", "subscribers", "remove", "MANY", "me", "--move-to", "SAFE")
    assert messages(held, "SAFE") == 3


def test_queue_and_queue_table(held: Mgw) -> None:
    held.ok("aq", "stop", "ONE")
    assert "2 messages, the oldest is " in refused(held, "aq", "drop", "ONE")
    assert "moved to queue SAFE" in held.ok("aq", "drop", "ONE", "--move-to", "SAFE")
    held.ok("jobs", "remove", "out", "--force")
    assert "deleted with it" in held.ok("aq", "tables", "drop", "MANY_TAB", "--force")


def test_queue_that_something_uses(held: Mgw) -> None:
    held.ok("aq", "create", "BAD", "-t", "SAFE_TAB")
    held.ok("schedules", "create", "half", "-t", "outbound", "--source", "ONE", "--destination", "far@mem")
    held.ok("jobs", "alter", "out", "--exception-queue", "BAD")
    for queue, uses in (("MANY", "job out uses it as its source"), ("ONE", "schedule half uses it as its source")):
        for more in ("--force", "--move-to=BAD"):
            assert uses in refused(held, "aq", "drop", queue, more)
    for words in (("aq", "stop", "BAD"), ("aq", "stop", "SAFE")):
        held.ok(*words)
    said = refused(held, "aq", "drop", "BAD")
    assert "queue BAD cannot be removed" in said
    assert "mgw jobs remove out), or alter it (mgw jobs alter out --exception-queue QUEUE)" in said
    assert "job out uses it as its source (MANY)" in refused(held, "aq", "tables", "drop", "MANY_TAB", "--force")
    assert held.ok("aq", "queues", "--json").count('"enqueue_enabled": true') >= 2, "nothing was stopped by a refusal"
    held.ok("schedules", "remove", "half")
    held.ok("jobs", "alter", "out", "--exception-queue", "")
    held.ok("aq", "drop", "BAD")
    held.ok("jobs", "remove", "out", "--force")
    held.ok("aq", "tables", "drop", "MANY_TAB", "--force")


def test_export_without_a_queue_of_a_job_is_a_file_that_can_be_used(held: Mgw) -> None:
    """The documented procedures do not know jobs: the queue is gone, the job is there."""
    held.ok("jobs", "alter", "out", "--exception-queue", "SAFE", "--rule", "priority > 1")
    held.ok("apply", held.file("jobs: {here: {type: local, source: ONE, destination: SAFE}}\n", "here.yaml"))
    with open_hub(f"sqlite:///{held.folder}/hub.db") as hub:
        GatewayAdmin(hub).aq.drop_queue_table("MANY_TAB", force=True)
        GatewayAdmin(hub).aq.drop_queue_table("SAFE_TAB", force=True)
    done = held("export", "-o", "exported.yaml")
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines() == [
        "mgw: warning: job here is left out: it needs queue SAFE, which was dropped since the job was made; create it "
        "first (mgw aq create SAFE --table TABLE) and export again, or remove the job (mgw jobs remove here)",
        "mgw: warning: job out is left out: it needs queues MANY, SAFE, which were dropped since the job was made; "
        "create them first (mgw aq create MANY --table TABLE, mgw aq create SAFE --table TABLE) and export again, or "
        "remove the job (mgw jobs remove out)",
    ]
    assert held.ok("lint", "exported.yaml") == "exported.yaml: no problems found\n"
    assert "nothing to do" in held.ok("plan", "exported.yaml")
    text = (held.folder / "exported.yaml").read_text("utf-8")
    kept = [line.removeprefix("# ") for line in text.partition("As the hub has it:\n")[2].splitlines()]
    more = "version: 1\nqueues: {MANY: {multiple_consumers: true}, SAFE: {}}\n" + "\n".join(kept) + "\n"
    again = held.ok("apply", held.file(more, "again.yaml"))
    assert again.splitlines()[-1].startswith("2 created"), again
    assert held("export").err == ""


def test_subscription_of_a_job_that_went_with_its_queue_is_made_again(held: Mgw) -> None:
    """The documented procedures do not know jobs."""

    with open_hub(f"sqlite:///{held.folder}/hub.db") as hub:
        GatewayAdmin(hub).aq.drop_queue_table("MANY_TAB", force=True)
    again = "alter  job out (subscription: none -> MGW_out)"
    assert again in held.ok("plan", "gateway.yaml")
    assert "1 created, 1 altered" in held.ok("apply", "gateway.yaml")
    assert "MGW_out" in held.ok("aq", "subscribers", "list", "MANY")
    (told,) = (each for each in json.loads(held.ok("events", "--json")) if each["event_name"] == "SubscribedAgain")
    assert "does not get messages that were enqueued meanwhile" in told["event_text"]
    assert "nothing to do" in held.ok("apply", "gateway.yaml")


def test_plan_counts_and_apply_refuses_all_of_it(held: Mgw) -> None:
    planned = held.ok("plan", "--prune", "kept.yaml")
    assert "remove job out: deletes 3 messages, the oldest is " in planned
    assert "remove queue ONE: deletes 2 messages, the oldest is " in planned
    told = {each["name"]: each for each in json.loads(held.ok("plan", "--prune", "--json", "kept.yaml"))}
    assert told["ONE"]["deletes"]["messages"] == 2
    assert told["ONE"]["deletes"]["oldest_age"] >= 0
    assert told["far@mem"].keys() == {"verb", "kind", "name", "changes"}
    said = refused(held, "apply", "--prune", "kept.yaml")
    assert "nothing was applied: messages would be deleted" in said
    assert "remove job out: 3 messages" in said
    assert "remove queue ONE: 2 messages" in said
    assert "--force" in said
    assert held.ok("apply", "--prune", "--force", "kept.yaml").splitlines()[-1].endswith(" removed, 1 unchanged")
    assert held.ok("apply", "--prune", "kept.yaml").startswith("nothing to do")


def test_file_may_say_it(held: Mgw) -> None:
    held.file("version: 1\nsettings: {prune: force}\nqueues:\n  SAFE: {}\n", "kept.yaml")
    assert held.ok("apply", "--prune", "kept.yaml").splitlines()[-1].endswith(" removed, 1 unchanged")
    assert held("lint", held.file("version: 1\nsettings: {prune: yes}\n", "bad.yaml")).code == 78


def test_subscriber_that_leaves_the_file(held: Mgw) -> None:
    changed = held.file(FILE.replace("me: {}, ", ""), "changed.yaml")
    assert "deletes 3 messages, the oldest is " in held.ok("plan", changed)
    assert "alter queue MANY: 3 messages" in refused(held, "apply", changed)
    with running(held, changed, "queue MANY") as told:
        assert "3 messages" in told["queue MANY"]
    assert "me" in held.ok("aq", "subscribers", "list", "MANY").split()
    held.ok("apply", "--force", changed)
    assert "me" not in held.ok("aq", "subscribers", "list", "MANY").split()


BRIDGE = """
version: 1
links:
  mem: {type: memory}
foreign_queues:
  near@mem: {domain: queue}
queues:
  SAFE: {}
  Q: {}
jobs:
  in: {type: inbound, source: near@mem, destination: Q}
"""


def test_what_a_running_agent_works_on_goes_in_one_run(mgw: Mgw) -> None:
    with mgw.running(mgw.file(BRIDGE)):
        eventually(
            lambda: "RETRY" in mgw("jobs", "list").out, deadline=60
        )  # the broker of this process has no such queue
        assert (
            mgw.ok("apply", "--prune", mgw.file(KEPT, "kept.yaml")).splitlines()[-1].endswith(" removed, 1 unchanged")
        )
        assert json.loads(mgw.ok("jobs", "list", "--json")) == []


def test_what_is_empty_goes_without_force(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(FILE))
    mgw.ok("jobs", "remove", "out")
    assert "deletes" not in mgw.ok("plan", "--prune", mgw.file(KEPT, "kept.yaml"))
    assert mgw.ok("apply", "--prune", "kept.yaml").splitlines()[-1].endswith(" removed, 1 unchanged")
