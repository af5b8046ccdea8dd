"""What is known of a running job without asking the hub, in lines for the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mgw.gateway.definitions.objects import Activity, JobDef, JobStatus
from mgw.gateway.observe.moments import at, since
from mgw.links.contract import Backlog, GuaranteeReport

__all__ = ["KEPT_SECONDS", "JobState"]

KEPT_SECONDS = 60.0  # how old the time of a sample gets in the hub where what it says does not change


@dataclass(slots=True)
class JobState:
    """Written by the thread of the job; any thread may read. Times are epoch seconds."""

    job: JobDef
    status: JobStatus = JobStatus.READY
    activity: Activity = Activity.STOPPED
    moved: float | None = None  # the last progress
    next_attempt: float | None = None  # while it waits for it
    reason: str = ""  # why it is BLOCKED or STUCK
    trouble: tuple[float, str, str] | None = None  # since when it fails, the last error, and the word for its state
    guarantee: GuaranteeReport | None = None
    sample: tuple[Backlog, float] | None = None  # what the hub says that waits at the source, and since when

    def is_news(self, backlog: Backlog, now: float) -> bool:
        """Whether a sample says something else than the hub does; three hundred idle jobs have nothing to write."""
        if self.sample is not None and self.sample[0] == backlog and 0 <= now - self.sample[1] < KEPT_SECONDS:
            return False
        self.sample = backlog, now
        return True

    @property
    def waits(self) -> bool:
        """Whether something waited at the source when it was looked at last."""
        return self.sample is not None and self.sample[0].messages > 0

    def failed(self, status: JobStatus, error: str, now: float, limit: str) -> None:
        """An attempt failed, at a limit or (empty) not; what is not tried again has stopped."""
        self.status, self.sample, self.reason = status, None, limit
        word = str(Activity.BLOCKED if limit else JobStatus.RETRY)
        self.trouble = (self.trouble[0] if self.trouble else now, error, word)

    def recovered(self) -> None:
        """It works again."""
        self.status, self.trouble = JobStatus.READY, None

    def lines(self, *, failures: int, silence: float, alive: bool, route: Sequence[str], now: float) -> list[str]:
        """For the log. ``route``: what its two ends have in hand; empty: it is not connected."""
        job, lines = self.job, list[str]()
        word = str(self.activity) if alive else "its thread has ended"
        if alive and self.reason:
            word = f"{word} ({self.reason})"
        way = f"{job.propagation_type} {job.source} to {job.destination}"
        lines.append(f"last progress: {'none' if self.moved is None else at(self.moved, now)}")
        if self.guarantee is not None:
            note = f" ({self.guarantee.note})" if self.guarantee.note else ""
            lines.append(f"guarantee: {self.guarantee.level}{note}")
        if self.trouble is not None:
            lines.append(f"fails{since(self.trouble[0], now)}: {self.trouble[1]}")
        if self.next_attempt is not None:
            lines.append(f"next attempt: {at(self.next_attempt, now)}")
        lines += route or ["not connected"]
        head = f"job {job.name}: {self.status}, {word}, {way}, {failures} failures, silent for {silence:.1f} s"
        return [head, *(f"  {line}" for line in lines)]
