"""What an agent tells in its log of definitions that it takes over: objects that are new, what has no effect."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.definitions.agent_options import AgentSettings, option_refusal, without_effect
from mgw.gateway.definitions.objects import Snapshot
from mgw.gateway.observe.events import Journalist, LinkAdded, QueueRegistered
from mgw.gateway.observe.start_events import FilesCounted, FilesShort, JobAdded, NoEffect, ScheduleAdded
from mgw.gateway.runtime.connection_quota import files_needed
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.transforms import open_files

__all__ = ["Announcements"]


class Announcements:
    """Of one agent."""

    def __init__(self, name: str, journalist: Journalist) -> None:
        self._name = name
        self._tell = journalist.tell
        self._files_told = 0  # the most files that were said to be needed

    def tell_new(self, old: Snapshot | None, snapshot: Snapshot, settings: AgentSettings) -> None:
        """Tell what is in the definitions and was not in ``old``, those in force so far."""
        tell = self._tell
        if old is None or (old.agent, old.agent_options) != (snapshot.agent, snapshot.agent_options):
            options = [f"option {name}" for name in snapshot.agent_options if option_refusal(name)]
            if idle := [*without_effect(snapshot.agent), *options]:
                tell(NoEffect(self._name, ", ".join(idle)))
        for name, link in snapshot.links.items():
            if old is None or name not in old.links:
                tell(LinkAdded(link.name, link.type))
        for names, queue in snapshot.queues.items():
            if old is None or names not in old.queues:
                tell(QueueRegistered(f"{queue.name}@{queue.link}", queue.provider_queue))
        for job in snapshot.jobs.values():
            before = None if old is None else old.jobs.get(job.id)
            if job.schedule is not None and (before is None or before.schedule is None):
                seconds = settings.applied(job).poll_seconds
                tell(ScheduleAdded(job.schedule, job.source, job.destination, seconds))
                tell(JobAdded(job.name, job.propagation_type, job.link, job.enabled, job.status))

    def count_files(self, wanted: Mapping[int, JobSetup], connections: int) -> None:
        """Tell how many files these jobs need, with so many connections in one process, if that is more than ever."""
        needed, allowed = files_needed(connections), open_files.limit()
        if needed <= self._files_told:
            return
        self._files_told = needed
        kind = FilesShort if needed > allowed else FilesCounted
        self._tell(kind(self._name, len(wanted), needed, allowed))
