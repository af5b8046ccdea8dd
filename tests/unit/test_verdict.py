"""What makes agents, links and jobs unhealthy, decided by rows of the hub."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgw.gateway.services.verdict import BY_WORD, Health, Look, Observation, judge
from mgw.gateway.state.status import AgentSigns, JobSigns, LinkSigns, Signs
from mgw.transforms.errors import GatewayError

NOW = 1_000_000.0
AGENT = AgentSigns("A", "RUNNING", NOW + 10, NOW - 5, NOW - 500, None, None)
JOB = JobSigns(
    "J", "A", "L", "INBOUND", "Q@L", "MGW.H", "{}", True, "READY", "IDLE", None, 0, None, None, None,
    NOW - 3, "exact", 0, None, 0, 0, 0, 0, 0, 0,
)  # fmt: skip
AWAY = "broker 127.0.0.1:1 cannot be reached; cause: refused; cure: start the broker"


def verdict(
    *jobs: JobSigns,
    agents: tuple[AgentSigns, ...] = (AGENT,),
    agent: str | None = None,
    max_age: float = 60,
    **more: object,
) -> Health:
    waits: dict[str, tuple[float, float]] = more.pop("late", {})  # type: ignore[assignment]
    ages, limits = ({name: pair[place] for name, pair in waits.items()} for place in (0, 1))
    signs = Signs(agents, [LinkSigns("L", "A")], jobs)
    return judge(Look("hub.db", NOW, signs, ages, limits), agent=agent, max_age=max_age, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("activity", ["RUNNING", "IDLE", "STOPPED"])
def test_a_job_that_works_is_healthy(activity: str) -> None:
    health = verdict(replace(JOB, activity=activity))
    assert (health.healthy, health.reasons) == (True, [])


@pytest.mark.parametrize(
    ("status", "activity", "state"),
    [
        ("RETRY", "BACKOFF", "RETRY"),
        ("RETRY", "CONNECTING", "RETRY"),
        ("RETRY", "IDLE", "RETRY"),
        ("FAILED", "STOPPED", "FAILED"),
        ("READY", "STUCK", "STUCK"),
        ("READY", "BLOCKED", "BLOCKED"),
        ("RETRY", "BLOCKED", "BLOCKED"),
        ("READY", "CONNECTING", "CONNECTING"),
    ],
)
def test_a_job_that_does_not_work_is_unhealthy_after_a_while(status: str, activity: str, state: str) -> None:
    job = replace(JOB, status=status, activity=activity, not_working_since=NOW - 60, last_error_msg=AWAY)
    assert verdict(job).healthy
    health = verdict(job, max_age=59)
    assert not health.healthy
    (entry,) = health.jobs
    assert (entry.state, entry.since, entry.healthy) == (state, NOW - 60, False)
    assert entry.reason.startswith(f"job J is {state} for 60 s (since 1970-01-12T13:45:40Z): ")
    assert entry.cure
    assert health.reasons == [f"{entry.reason}; cure: {entry.cure}"]


def test_reason_and_cure_are_those_of_the_last_error() -> None:
    job = replace(JOB, status="RETRY", activity="BACKOFF", not_working_since=NOW - 61, last_error_msg=AWAY)
    (entry,) = verdict(job).jobs
    assert entry.reason.endswith(": broker 127.0.0.1:1 cannot be reached; cause: refused")
    assert entry.cure == "start the broker"


@pytest.mark.parametrize("activity", ["STUCK", "BLOCKED"])
def test_what_keeps_messages_back_is_the_reason(activity: str) -> None:
    job = replace(
        JOB, activity=activity, activity_reason="alarm: memory", not_working_since=NOW - 5, last_error_msg=AWAY
    )
    (entry,) = verdict(job).jobs
    assert entry.reason.endswith(": alarm: memory")
    assert entry.cure == BY_WORD[activity].cure


def test_a_job_that_is_kept_back_is_healthy_and_says_why() -> None:
    waits = replace(JOB, activity="STOPPED", activity_reason="it waits")
    (entry,) = verdict(waits).jobs
    assert (entry.state, entry.healthy, entry.reason) == ("STOPPED", True, "job J is STOPPED: it waits")
    assert [each.reason for each in verdict(replace(waits, enabled=False)).jobs] == [""]
    gone = replace(AGENT, lease_expires=NOW - 1)
    assert "it waits" not in verdict(waits, agents=(gone,)).jobs[0].reason


def test_a_job_that_drains_says_so_while_its_agent_is_there() -> None:
    job = replace(JOB, activity="DRAINING", enabled=False)
    assert [entry.state for entry in verdict(job).jobs] == ["DRAINING"]
    leaving = replace(AGENT, status="SHUTTING_DOWN")
    running = replace(job, enabled=True)
    assert [entry.state for entry in verdict(running, agents=(leaving,)).jobs] == ["DRAINING"]
    gone = replace(AGENT, lease_expires=NOW - 1)
    assert [entry.state for entry in verdict(running, agents=(gone,)).jobs] == ["STOPPED"]
    assert [entry.state for entry in verdict(job, agents=(gone,)).jobs] == ["DISABLED"]


def test_a_job_of_an_upgraded_hub_is_judged_by_its_last_error() -> None:
    job = replace(JOB, status="RETRY", activity="BACKOFF", last_error_msg=AWAY, last_error_time=NOW - 61)
    assert not verdict(job).healthy
    assert verdict(replace(job, last_error_time=NOW - 59)).healthy


@pytest.mark.parametrize("change", [{"enabled": False}, {"status": "DELETE_PENDING"}])
def test_a_job_that_is_not_to_run_is_healthy(change: dict[str, object]) -> None:
    job = replace(JOB, status="RETRY", not_working_since=NOW - 900)
    assert verdict(replace(job, **change)).healthy  # type: ignore[arg-type]


def test_an_agent_with_work_must_run_and_keep_its_lease() -> None:
    stopped = replace(AGENT, status="NOT_STARTED", lease_expires=None, start_time=None, stopped=NOW - 7)
    silent = replace(AGENT, lease_expires=NOW - 1, heartbeat=NOW - 16)
    broken = replace(AGENT, status="BROKEN", last_error_msg="two processes")
    for agent, state, since, said in (
        (stopped, "NOT_STARTED", NOW - 7, "agent A is NOT_STARTED for 7 s"),
        (silent, "UNREACHABLE", NOW - 16, "agent A does not answer for 16 s"),
        (broken, "BROKEN", None, "agent A is BROKEN: two processes"),
    ):
        health = verdict(JOB, agents=(agent,))
        assert not health.healthy
        assert (health.agents[0].state, health.agents[0].since) == (state, since)
        assert [said in reason and "cure: " in reason for reason in health.reasons] == [True]
        assert verdict(replace(JOB, enabled=False), agents=(agent,)).healthy == (state != "BROKEN")


def test_a_stopped_agent_says_nothing_about_another() -> None:
    stopped = replace(AGENT, name_key="B", status="NOT_STARTED", lease_expires=None)
    other = replace(JOB, name_key="K", agent_key="B")
    both = (AGENT, stopped)
    assert not verdict(JOB, other, agents=both).healthy
    assert verdict(JOB, other, agents=both, agent="a").healthy
    health = verdict(JOB, other, agents=both, agent="B")
    assert (health.healthy, [entry.name for entry in health.jobs], health.links) == (False, ["K"], [])
    with pytest.raises(GatewayError, match="agent 'C' does not exist"):
        verdict(JOB, agents=both, agent="C")


def test_a_message_that_waits_too_long_is_a_reason() -> None:
    health = verdict(JOB, late={"J": (90.0, 60.0)})
    assert not health.healthy
    assert health.reasons[0].startswith("the oldest message of job J has waited for 90 s (limit 60 s); cure: ")
    assert health.jobs[0].since == NOW - 90


def test_a_link_is_up_while_one_of_its_jobs_works() -> None:
    down = replace(JOB, status="RETRY", activity="BACKOFF", not_working_since=NOW - 100, last_error_msg=AWAY)
    later = replace(down, name_key="K", not_working_since=NOW - 70)
    for jobs, state, since in (
        ((replace(JOB, name_key="I"), down), "UP", None),
        ((down, later), "DOWN", NOW - 70),
        ((replace(down, enabled=False),), "UNUSED", None),
        ((), "UNUSED", None),
    ):
        (link,) = verdict(*jobs).links
        assert (link.name, link.agent, link.state, link.since) == ("L", "A", state, since)
    through = replace(down, link_key="M", destination_key="T@L")
    assert verdict(through).links[0].state == "DOWN"


def test_what_the_process_sees_counts_where_the_hub_could_not_be_told() -> None:
    seen = {"J": Observation("RETRY", NOW - 61, "hub.db is full; cure: free space")}
    health = verdict(JOB, seen=seen)
    assert (health.healthy, health.jobs[0].state, health.jobs[0].cure) == (False, "RETRY", "free space")
    assert verdict(replace(JOB, enabled=False), seen=seen).healthy


def test_json_has_every_entry_with_its_parts() -> None:
    job = replace(JOB, status="RETRY", activity="BACKOFF", not_working_since=NOW - 61, last_error_msg=AWAY)
    found = verdict(job).as_json()
    assert (found["healthy"], found["max_age"], len(found["reasons"])) == (False, 60, 1)
    assert found["jobs"] == [
        {
            "name": "J",
            "agent": "A",
            "state": "RETRY",
            "since": "1970-01-12T13:45:39Z",
            "healthy": False,
            "reason": "job J is RETRY for 61 s (since 1970-01-12T13:45:39Z): broker 127.0.0.1:1 cannot be reached; "
            "cause: refused",
            "cure": "start the broker",
        }
    ]
