"""A message that no subscriber of the destination wants: what the job's option ``unrouted`` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mgw.gateway.aq import MessageRefused, NoRecipients
from mgw.gateway.definitions.job_options import UNROUTED, Unrouted, unrouted
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.runtime.ends.contract import RefusedByHub
from mgw.gateway.runtime.ends.held_up import held_up

__all__ = ["set_aside"]


def set_aside(job: JobDef, refusal: RefusedByHub, place: Callable[[int], str], *, exceptions: bool) -> Sequence[int]:
    """The messages of a batch that go to the exception queue for this refusal, by their indexes.

    Args:
        place: what names the message with an index at its source.
        exceptions: whether the job has an exception queue.

    Raises:
        MessageRefused: the job waits.
    """
    error = refusal.error
    if not isinstance(error, NoRecipients):
        if not exceptions:
            raise held_up(job, error, place(refusal.index)) from None
        return [refusal.index]
    if exceptions and error.subscribed and unrouted(job) is Unrouted.EXCEPTION_QUEUE:
        return error.unrouted
    raise _explained(job, error, place(refusal.index)) from None


def _explained(job: JobDef, error: NoRecipients, place: str) -> MessageRefused:
    others = len(error.unrouted) - 1
    more = f", and {others} more of its batch" if others else ""
    choices = " or ".join(f"{UNROUTED.name}={choice}" for choice in (Unrouted.DISCARD, Unrouted.EXCEPTION_QUEUE))
    cause, cure = f"queue {job.destination} has no subscriber at all", "add a subscriber, or a job that reads the queue"
    if error.subscribed:
        cause = f"no rule of a subscriber of queue {job.destination} is true for it, and the job has the option "
        cause += f"{UNROUTED.name}={unrouted(job)}"
        cure = f"add a subscriber that wants it, or: mgw jobs alter {job.name} --option {choices}"
    return NoRecipients(
        f"job {job.name}: message {place}{more} has no recipient", index=error.index, cause=cause, cure=cure
    )
