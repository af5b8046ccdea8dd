"""What an exception queue on a link takes off the guarantee of its job."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.links.contract import Direction, Guarantee, GuaranteeReport, JobUse, Link
from mgw.transforms.errors import LinkError

__all__ = ["with_exceptions"]


@dataclass(slots=True)
class _Answer:
    """What was last found out in an attempt of the job."""

    lost: str = ""  # why the queue loses messages; empty: it keeps them


def with_exceptions(report: GuaranteeReport, link: Link, use: JobUse) -> GuaranteeReport:
    """What the ends of a job promise together with its exception queue, asked now.

    A message that is refused is acknowledged at its source once it is in the exception queue. Where that may lose it,
    the job loses it. That it may be there twice says nothing of what the job carries.

    A job can work without its exception queue as long as it refuses nothing. So a queue that cannot be asked now stops
    nobody, and what was found out before in the same attempt still counts.

    Args:
        link: of the exception queue, without logs.
        use: of the exception queue.
    """
    if report.level is Guarantee.AT_MOST_ONCE:
        return report
    answer = use.attempt.of(link, _Answer)
    try:
        found = link.verify(use, Direction.OUTBOUND)
    except LinkError:
        pass
    else:
        answer.lost = found.note if found.level is Guarantee.AT_MOST_ONCE else ""
    if not answer.lost:
        return report
    return GuaranteeReport(
        Guarantee.AT_MOST_ONCE,
        f"exception queue {use.endpoint.full_name} may lose refused messages: {answer.lost} "
        "(change that, or give the job another exception queue)",
    )
