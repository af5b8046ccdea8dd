"""The way back to an earlier generation: what it restores, what it refuses, and what somebody else does meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq import NO_WAIT, DequeueOptions, HoldsMessages, QueueAdmin
from mgw.gateway.config.apply import apply_actions, plan_for
from mgw.gateway.config.export import export_text
from mgw.gateway.config.hub_queues import drop_queue
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import load_text
from mgw.gateway.config.models import Document
from mgw.gateway.config.obstacles import WouldStop
from mgw.gateway.config.queue_users import QueueIsUsed
from mgw.gateway.config.running import read_queue, read_running
from mgw.gateway.config.unchanged import Seen
from mgw.gateway.runtime.job_setup import JobSetup, setup_of
from mgw.gateway.services import generations as service
from mgw.gateway.services import queues
from mgw.gateway.services.admin import GatewayAdmin, Overtaken
from mgw.gateway.services.definition_changes import Changes, Invalid
from mgw.gateway.services.expected import Expected
from mgw.gateway.services.generations import NotRestored, generations, text_of, way_back
from mgw.gateway.services.impact import impact
from mgw.gateway.services.removal_preview import users_of
from mgw.gateway.state import catalog
from mgw.transforms.errors import AdminError
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.ready_hubs import ready_file
from tests.support.waiting import eventually

BASE = """
agents: {DEFAULT_AGENT: {comment: first}, second: {max_threads: 3, options: {workers: 2}}}
links:
  mem: {type: memory, timeout: 7}
  rabbit: {type: rabbitmq, hostname: localhost, username: gw, password: tops3cret, agent: second}
foreign_queues: {in@mem: {domain: queue}, old@mem: {domain: queue, comment: old}}
queues: {Q: {}, NEWS: {multiple_consumers: true}}
transformations:
  step: {from_type: BASIC, to_type: BASIC, function: mgw.transforms.builtin:uppercase}
  chain: {from_type: BASIC, to_type: BASIC, steps: [step]}
jobs:
  carry: {type: inbound, source: in@mem, destination: Q, batch_size: 20, transformation: chain}
  spread: {type: outbound, source: NEWS, destination: old@mem, enabled: false}
"""


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    @contextmanager
    def made(url: str) -> Iterator[None]:
        with gateway_on(url) as gateway:
            Changes(gateway.hub).apply(BASE)
            yield

    return ready_file(tmp_path_factory.mktemp("ready") / "hub.db", made)


@pytest.fixture
def gateway(ready: Path, tmp_path: Path) -> Iterator[Gateway]:
    """A hub with BASE, which is its first generation."""
    shutil.copy(ready, tmp_path / "hub.db")
    shutil.copy(f"{ready}.key", tmp_path / "hub.db.key")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


def first(gateway: Gateway) -> int:
    return generations(gateway.hub, 100)[-1].number


def document(text: str) -> Document:
    checked = check_source(load_text(text, "test"))
    assert checked.ok, checked.findings
    return checked.document


# ---------------------------------------------------------------------------------------------------- what is restored


def _create(admin: GatewayAdmin) -> None:
    admin.create_agent("third", options={"workers": 4})
    admin.create_msgsystem_link("other", "MEMORY", {"timeout": 1}, agent_name="third")
    admin.register_foreign_queue("new", "other", domain="QUEUE")
    admin.create_transformation("later", "BASIC", "BASIC", {"function": "mgw.transforms.builtin:uppercase"})
    admin.create_job("more", "INBOUND", "new@other", "Q", transformation="later", enabled=False)


def _alter(admin: GatewayAdmin) -> None:
    admin.alter_agent("second", max_threads=9, comment="altered")
    admin.set_agent_option("second", "workers", 5)
    admin.alter_agent(max_threads=5, comment=None)
    admin.alter_msgsystem_link("mem", {"timeout": 9}, comment="altered")
    admin.alter_msgsystem_link("rabbit", {"password": "n3wer"})
    admin.alter_transformation(
        "step", definition={"function": "mgw.transforms.builtin:uppercase", "where": "priority < 4"}, comment="altered"
    )
    admin.alter_job("carry", rule="1 = 1", transformation=None, options={"MsgBatchSize": 40}, comments="altered")
    admin.disable_job("carry")


def _remove(admin: GatewayAdmin) -> None:
    admin.remove_job("carry")
    admin.remove_job("spread")
    admin.drop_transformation("chain")
    admin.drop_transformation("step")
    for name in ("in", "old"):
        admin.unregister_foreign_queue(name, "mem")
    for name in ("mem", "rabbit"):
        admin.remove_msgsystem_link(name)
    admin.remove_agent("second")


@pytest.mark.parametrize("change", [_create, _alter, _remove])
def test_each_kind_of_object_is_as_it_was(gateway: Gateway, change: Callable[[GatewayAdmin], None]) -> None:
    then = export_text(gateway.hub)
    change(gateway.admin)
    assert export_text(gateway.hub) != then
    way = way_back(gateway.hub, first(gateway), {"RABBIT_PASSWORD": "n3wer"})
    list(way.go(gateway.hub))
    assert export_text(gateway.hub) == then
    assert text_of(gateway.hub, first(gateway)) == then
    assert way_back(gateway.hub, first(gateway)).is_empty
    link = gateway.admin.get_link("rabbit")
    assert link is not None
    assert link.password == ("tops3cret" if change is _create else "n3wer"), "secrets are those of today"


def test_the_default_agent_goes_back_to_its_defaults(gateway: Gateway) -> None:
    gateway.admin.alter_agent(comment=None)
    plain = generations(gateway.hub, 1)[0].number
    gateway.admin.alter_agent(max_threads=5, comment="later")
    gateway.admin.set_agent_option("DEFAULT_AGENT", "workers", 2)
    assert "DEFAULT_AGENT" not in text_of(gateway.hub, plain)
    list(way_back(gateway.hub, plain).go(gateway.hub))
    agent = gateway.admin.get_agent("DEFAULT_AGENT")
    assert agent is not None
    assert (agent.max_threads, agent.comments, gateway.admin.list_agent_options()) == (16, None, [])


def test_encrypted_options_of_agents_stay_or_are_asked_for(gateway: Gateway) -> None:
    admin, number = gateway.admin, first(gateway)

    def options() -> dict[str, tuple[str, bool]]:
        with gateway.hub.read() as conn:
            found = catalog.list_agent_options(conn, "second", gateway.secrets)
        return {each.name: (each.value, each.encrypted) for each in found}

    admin.set_agent_option("second", "workers", 7, encrypted=True)
    secret = generations(gateway.hub, 1)[0].number
    admin.alter_agent("second", comment="later")
    list(way_back(gateway.hub, number).go(gateway.hub))
    assert options() == {"workers": ("7", True)}, "neither what it was before it was a secret, nor what stands for one"
    admin.set_agent_option("second", "workers", 8)
    with pytest.raises(NotRestored, match="workers of agent second was encrypted then") as refusal:
        way_back(gateway.hub, secret)
    assert "mgw agents alter second --encrypted-option workers=FILE" in refusal.value.cure
    admin.set_agent_option("second", "workers", 9, encrypted=True)
    list(way_back(gateway.hub, secret).go(gateway.hub))
    assert options() == {"workers": ("9", True)}
    admin.remove_msgsystem_link("rabbit")
    admin.remove_agent("second")
    with pytest.raises(NotRestored) as refusal:
        way_back(gateway.hub, secret)
    assert "do first: mgw agents create second; mgw agents alter second --encrypted-option workers=FILE" in (
        refusal.value.cure
    )
    admin.create_agent("second")
    admin.set_agent_option("second", "workers", 10, encrypted=True)
    list(way_back(gateway.hub, secret, {"RABBIT_PASSWORD": "n3wer"}).go(gateway.hub))
    assert (options(), admin.get_agent("second").max_threads) == ({"workers": ("10", True)}, 3)  # type: ignore[union-attr]


def test_a_job_comes_back_to_the_source_of_one_that_a_running_agent_has_yet_to_remove(gateway: Gateway) -> None:
    gateway.admin.remove_job("carry")
    gateway.admin.create_job("other", "INBOUND", "in@mem", "Q")
    with gateway.run():
        list(way_back(gateway.hub, first(gateway)).go(gateway.hub))
    assert [job.name for job in gateway.admin.list_jobs()] == ["carry", "spread"]


# ------------------------------------------------------------------------------------------------ what is not restored


def test_nothing_but_definitions_of_the_gateway_is_touched(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes a queue while the way back is looked for."""
    gateway.admin.alter_msgsystem_link("mem", {"timeout": 9})

    def late(hub: Any) -> Document:
        gateway.queue("LATE")
        return read_running(hub)

    monkeypatch.setattr(service, "read_running", late)
    way = way_back(gateway.hub, first(gateway))
    assert [str(each) for each in way.actions if each.changes_hub] == ["alter  link mem (timeout: 9.0 -> 7.0)"]
    list(way.go(gateway.hub))
    assert gateway.queues.queue("LATE") is not None


def test_subscribers_and_schedules_of_the_old_style_are_refused_with_the_cure(gateway: Gateway) -> None:
    admin, number = gateway.admin, first(gateway)
    triplet = ("OUTBOUND", "NEWS", "in@mem")
    admin.add_subscriber("Sub", *triplet, rule="priority < 3")
    with pytest.raises(NotRestored, match="subscriber Sub was added") as refusal:
        way_back(gateway.hub, number)
    assert "mgw subscribers remove Sub" in refusal.value.cure
    admin.schedule_propagation("sched", *triplet, latency=2)
    both, then = generations(gateway.hub, 1)[0].number, export_text(gateway.hub)
    admin.alter_subscriber("sub", rule="priority < 4")
    admin.disable_job("sub")
    admin.alter_job("sub", rule="priority < 5", comments="mine")
    admin.alter_propagation_schedule("sched", latency=3)
    assert text_of(gateway.hub, both) == then, "it is shown as it was, whatever it was changed as"
    with pytest.raises(NotRestored, match="schedule sched was altered") as refusal:
        way_back(gateway.hub, both)
    assert "set comments of it to none, rule of it to priority < 3" in refusal.value.cure
    admin.alter_job("sub", rule="priority < 3", comments=None, poll_interval=2)
    admin.enable_job("sub")
    assert way_back(gateway.hub, both).is_empty, "what somebody brought back by hand is as it was"
    assert admin.remove_job("sub")
    admin.create_job("sub", *triplet, rule="priority < 3", poll_interval=2)
    with pytest.raises(NotRestored) as refusal:
        way_back(gateway.hub, both)
    assert "mgw subscribers create Sub --type outbound --source NEWS --destination in@mem" in refusal.value.cure
    admin.remove_job("sub")
    assert way_back(gateway.hub, number).is_empty


def test_what_something_that_stays_uses_is_not_removed_and_nothing_else_either(gateway: Gateway) -> None:
    """Schedules of DBMS_HQADM, and halves of jobs of the old style, are in no document."""
    admin, number = gateway.admin, first(gateway)
    _create(admin)
    gateway.queue("FILES", queue_payload_type="RAW", multiple_consumers=True)
    admin.hq_schedule_propagation("FILES", "MQSERIES_OUTBOUND", "new@other")
    admin.create_transformation("raw", "RAW", "RAW", {"function": "mgw.transforms.builtin:uppercase"})
    admin.alter_job("HQ$_1", transformation="raw")
    plan = plan_for(gateway.hub, document(BASE), prune=True)
    held = export_text(gateway.hub)
    used = ["job HQ$_1 uses ", "transformation raw", "foreign queue new@other", "link other"]
    with pytest.raises(NotRestored, match="would stop halfway") as refusal:
        way_back(gateway.hub, number)
    with pytest.raises(WouldStop) as stopped:
        list(apply_actions(GatewayAdmin(gateway.hub), document(BASE), plan))
    for error in (refusal.value, stopped.value):
        assert all(each in error.cause for each in used), error.cause
        assert "mgw outbound-schedules remove FILES new@other;" in error.cure
    assert "queue FILES" in stopped.value.cause, "that a rollback leaves"
    with pytest.raises(AdminError) as refused:
        admin.unregister_foreign_queue("new", "other")
    assert "mgw outbound-schedules remove FILES new@other" in refused.value.cure
    with pytest.raises(QueueIsUsed, match=r"schedule of DBMS_HQADM of job HQ\$_1 uses it as its source") as used_queue:
        queues.drop_queue(gateway.hub, "FILES", force=True)
    assert "mgw outbound-schedules remove FILES new@other" in used_queue.value.cure
    assert export_text(gateway.hub) == held
    admin.hq_unschedule_propagation("FILES", "MQSERIES_OUTBOUND", "new@other")
    list(way_back(gateway.hub, number).go(gateway.hub))
    _create(admin)
    admin.add_subscriber("sub", "OUTBOUND", "NEWS", "new@other")
    admin.schedule_propagation("sched", "INBOUND", "new@other", "NEWS")
    with pytest.raises(WouldStop) as stopped:
        list(
            apply_actions(GatewayAdmin(gateway.hub), document(BASE), plan_for(gateway.hub, document(BASE), prune=True))
        )
    assert "mgw subscribers remove sub; mgw schedules remove sched;" in stopped.value.cure
    assert admin.get_job("more") is not None


def test_a_queue_that_was_dropped_since_is_named_and_no_other_is_offered(gateway: Gateway) -> None:
    """The documented procedure does not know jobs, and drops it."""
    gateway.queue("QX")
    gateway.admin.aq.stop_queue("Q")
    gateway.admin.aq.drop_queue("Q")
    with pytest.raises(NotRestored) as refusal:
        way_back(gateway.hub, first(gateway))
    assert "queue Q, which job carry needs, was dropped since" in refusal.value.what
    assert "create first: Q (mgw aq create" in refusal.value.cure
    with pytest.raises(Invalid) as invalid:
        Changes(gateway.hub).patch("jobs", "carry", {"comment": "altered"}, Expected())
    assert "queue 'Q', which job carry needs, was dropped" in invalid.value.cause
    assert "mgw aq create Q " in invalid.value.cure
    gateway.admin.aq.create_queue("Q", "Q_TAB")
    assert way_back(gateway.hub, first(gateway)).is_empty


def test_what_is_in_the_way_of_a_rollback_is_told_before_its_first_step(gateway: Gateway) -> None:
    admin = gateway.admin
    gateway.queue("FILES", queue_payload_type="RAW")
    admin.create_job("files", "OUTBOUND", "FILES", "old@mem")
    number = generations(gateway.hub, 1)[0].number
    admin.remove_job("files")
    admin.hq_schedule_propagation("FILES", "MQSERIES_OUTBOUND", "in@mem")
    admin.create_agent("third")
    admin.startup("third")
    with pytest.raises(NotRestored) as refusal:
        way_back(gateway.hub, number)
    assert refusal.value.cause == (
        "agent third is START_SCHEDULED; schedule of DBMS_HQADM of job HQ$_1 has the source of job files"
    )
    assert "mgw agents shutdown third; mgw outbound-schedules remove FILES in@mem;" in refusal.value.cure
    admin.shutdown("third")
    admin.hq_unschedule_propagation("FILES", "MQSERIES_OUTBOUND", "in@mem")
    list(way_back(gateway.hub, number).go(gateway.hub))


# -------------------------------------------------------------------------------------------------------- somebody else


def _touch(admin: GatewayAdmin, section: str, name: str) -> None:
    touches: dict[str, Callable[[], object]] = {
        "agents": lambda: admin.alter_agent(name, comment="touched"),
        "links": lambda: admin.alter_msgsystem_link(name, comment="touched"),
        "transformations": lambda: admin.alter_transformation(name, comment="touched"),
        "jobs": lambda: admin.alter_job(name, comments="touched"),
    }
    touches[section]()


def test_what_was_changed_since_the_plan_is_not_overwritten(gateway: Gateway) -> None:
    _alter(gateway.admin)
    _create(gateway.admin)
    way = way_back(gateway.hub, first(gateway))
    for action in [each for each in way.actions if each.changes_hub and each.section != "foreign_queues"]:
        _touch(gateway.admin, action.section, action.name)
        changed = export_text(gateway.hub)
        with pytest.raises(Overtaken, match=f"{action.object} was changed"):
            list(apply_actions(GatewayAdmin(gateway.hub), way.document, [action]))
        assert export_text(gateway.hub) == changed
    with pytest.raises(Overtaken, match="the definitions were changed"):
        way.go(gateway.hub)
    steps = way_back(gateway.hub, first(gateway)).go(gateway.hub)
    gateway.admin.alter_msgsystem_link("mem", comment="between the comparison and the first step")
    with pytest.raises(Overtaken, match="the definitions were changed"):
        list(steps)


def test_what_a_plan_rests_on_is_asked_before_its_first_step_alone(gateway: Gateway) -> None:
    """Whatever kind of step that is; and a step on a table of the hub is no change of somebody else."""
    changes, held = Changes(gateway.hub), export_text(gateway.hub)
    later = BASE.replace("Q: {}", "Q: {options: {age_warning: 60}}").replace("batch_size: 20", "batch_size: 30")
    for wanted in (f"settings: {{transform_modules: [string]}}\n{BASE}", later):
        version, plan = gateway.admin.snapshot_version(), plan_for(gateway.hub, document(wanted))
        gateway.admin.alter_msgsystem_link("rabbit", comment="somebody else's")
        gateway.admin.alter_msgsystem_link("rabbit", comment=None)
        with pytest.raises(Overtaken, match="the definitions were changed"):
            list(apply_actions(GatewayAdmin(gateway.hub), document(wanted), plan, version=version))
        assert export_text(gateway.hub) == held
    tag = changes.plan(later).tag
    done = changes.apply(later, Expected(one_of=frozenset((tag,)))).actions
    assert [each.section for each in done if each.changes_hub] == ["queues", "jobs"]


def test_what_somebody_else_has_just_removed_is_done(gateway: Gateway) -> None:
    _create(gateway.admin)
    plan = plan_for(gateway.hub, document(BASE), prune=True)
    removals = [each.object for each in plan if each.changes_hub]
    assert removals == ["job more", "transformation later", "foreign queue new@other", "link other", "agent third"]
    gateway.admin.remove_job("more")
    gateway.admin.drop_transformation("later")
    gateway.admin.unregister_foreign_queue("new", "other")
    gateway.admin.remove_msgsystem_link("other")
    gateway.admin.remove_agent("third")
    done = apply_actions(GatewayAdmin(gateway.hub), document(BASE), plan)
    assert not any(each.changes_hub for each in done)
    assert generations(gateway.hub, 1)[0].what == "remove agent third"


def test_a_queue_that_got_a_message_since_the_plan_stays_open_and_is_not_dropped(gateway: Gateway) -> None:
    plan = plan_for(gateway.hub, document("agents: {second: {}}"), prune=True)
    (action,) = [each for each in plan if (each.section, each.name) == ("queues", "NEWS")]
    gateway.admin.remove_job("spread")
    gateway.queues.add_subscriber("NEWS", "ann")
    seen = Seen("queues", "NEWS", read_queue(gateway.queues, "NEWS"))
    gateway.enqueue("NEWS", [Message("late")])
    with ThreadPoolExecutor(1) as other, gateway.hub.session() as session:
        session.dequeue("NEWS", DequeueOptions(consumer_name="ann", wait=NO_WAIT))
        dropped = other.submit(drop_queue, gateway.hub, Document(), action.name, seen)
        eventually(lambda: not gateway.queues.queue("NEWS").dequeue_enabled)  # type: ignore[union-attr]
        session.rollback()
        with pytest.raises(HoldsMessages):
            dropped.result(60)
    queue = gateway.queues.queue("NEWS")
    assert queue is not None
    assert (queue.enqueue_enabled, queue.dequeue_enabled) == (True, True)


def test_an_exception_queue_that_was_stopped_for_its_removal_is_as_it_was_seen(gateway: Gateway) -> None:
    queues = QueueAdmin(gateway.hub)
    queues.create_queue("FAILED", "Q_TAB", queue_type="EXCEPTION_QUEUE")
    queues.start_queue("FAILED", enqueue=False)
    seen = Seen("queues", "FAILED", read_queue(queues, "FAILED"))
    queues.stop_queue("FAILED")
    with gateway.hub.write() as conn:
        seen.require(gateway.hub, conn, enqueue=False, dequeue=False)
        with pytest.raises(Overtaken):
            seen.require(gateway.hub, conn)


# -------------------------------------------------------------------------------------------------- what is said before


def test_a_plan_names_each_job_that_restarts_or_stops(gateway: Gateway) -> None:
    def told(old: str, new: str) -> list[str]:
        wanted = document(BASE.replace(old, new))
        return [str(each).partition(":")[0] for each in impact(gateway.hub, plan_for(gateway.hub, wanted))]

    step = "step: {from_type: BASIC, to_type: BASIC, "
    assert told(
        f"{step}function: mgw.transforms.builtin:uppercase",
        f"{step}where: priority < 4, function: mgw.transforms.builtin:uppercase",
    ) == ["restarts job carry (transformation step)"]
    assert told(step, f"{step}comment: other, ") == []
    assert told("Q: {}", "Q: {enqueue: false}") == ["stops job carry (queue Q)"]
    assert told("Q: {}", "Q: {dequeue: false}") == []
    gateway.admin.create_job("onwards", "LOCAL", "Q", "NEWS")
    assert told("batch_size: 20,", "batch_size: 20, enabled: false,") == [
        "stops job carry (job carry)",
        "job onwards gets nothing more from job carry",
    ]
    assert told("links:", "settings: {transform_modules: [some.module]}\nlinks:") == [
        "restarts job carry (module some.module)"
    ]


def test_a_comment_restarts_no_job(gateway: Gateway) -> None:
    def setup() -> JobSetup:
        with gateway.hub.read() as conn:
            snapshot = catalog.load_snapshot(conn, "DEFAULT_AGENT", gateway.secrets)
        (job,) = [each for each in snapshot.jobs.values() if each.name == "carry"]
        return setup_of(snapshot, job, gateway.hub.hub_id, gateway.hub.clock)

    before = setup()
    gateway.admin.alter_job("carry", comments="new")
    assert setup() == before
    gateway.admin.alter_job("carry", rule="priority < 3")
    assert setup() != before


def test_a_removal_tells_subscribers_and_schedules_that_are_no_jobs(gateway: Gateway) -> None:
    gateway.admin.add_subscriber("sub", "INBOUND", "old@mem", "Q")
    gateway.admin.schedule_propagation("sched", "OUTBOUND", "NEWS", "in@mem")
    assert [(each.section, each.name) for each in users_of(gateway.hub, "foreign_queues", "old@mem")] == [
        ("jobs", "spread"),
        ("old_subscribers", "sub"),
    ]
    users = users_of(gateway.hub, "links", "mem")
    assert {each.name for each in users} == {"carry", "spread", "sub", "sched", "in@mem", "old@mem"}
    assert [each.name for each in users_of(gateway.hub, "foreign_queues", "in@mem")] == ["carry", "sched"]
