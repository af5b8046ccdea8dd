"""What an agent does at this moment, in lines for the log. The hub is not asked: it may be what everybody waits for."""

from __future__ import annotations

from collections.abc import Iterable

from mgw.gateway.definitions.objects import Snapshot
from mgw.gateway.runtime.engine import Engine
from mgw.gateway.runtime.job_runner import JobRunner

__all__ = ["agent_lines"]


def agent_lines(
    snapshot: Snapshot | None, engine: Engine | None, runners: Iterable[JobRunner], *, of_runners: bool = False
) -> list[str]:
    """Its links, then its jobs; ``of_runners``: only those of the runners, for the others run in other processes."""
    if snapshot is None or engine is None:
        return ["the definitions are being loaded"]
    now, running, lines = engine.clock.now(), {runner.name: runner for runner in runners}, list[str]()
    for link in snapshot.links.values():
        users = [name for name, runner in running.items() if link.name in runner.setup.held]
        if of_runners and not users:
            continue
        lines += engine.link_states.lines(link.config(), users, now)
    for job in snapshot.jobs.values():
        runner = running.get(job.name)
        if runner is None and of_runners:
            continue
        if runner is None:
            lines.append(f"job {job.name}: {job.status if job.enabled else 'disabled'}, no thread")
        else:
            lines += _lines_of(runner)
    return lines


def _lines_of(runner: JobRunner) -> list[str]:
    try:
        return runner.state()
    except Exception as error:  # its thread works on; what was read may not fit together
        return [f"job {runner.name}: not known, {type(error).__name__}: {error}"]
