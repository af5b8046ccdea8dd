"""The options of a job; link types add their own (:class:`mgw.links.contract.LinkSpec`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mgw.gateway.definitions.objects import JobDef
from mgw.links.contract import Field

__all__ = ["JOB_OPTIONS", "MAX_MESSAGE_AGE", "UNROUTED", "Unrouted", "max_message_age", "unrouted"]


class Unrouted(StrEnum):
    """What becomes of a message that no subscriber of the destination wants."""

    DISCARD = "discard"
    EXCEPTION_QUEUE = "exception_queue"
    ERROR = "error"


UNROUTED = Field(
    "unrouted",
    "What happens to a message that no subscriber of the destination (a hub queue) wants, because no rule is true. "
    "discard: it is dropped and counted, with an event. exception_queue: it goes to the exception queue of the job. "
    "error: the job waits with ORA-24033. A destination without any subscriber is an error in every case.",
    str,
    str(Unrouted.DISCARD),
    dynamic=True,
    choices=tuple(map(str, Unrouted)),
)

MAX_MESSAGE_AGE = Field(
    "max_message_age",
    "Seconds; the job is unhealthy while its oldest message has waited longer. If it is not set and the source is a "
    "hub queue, the age_warning of the queue counts. For a link, its broker must report the age of messages.",
    float,
    None,
    dynamic=True,
    minimum=1,
)

#: Options of every job, in addition to the job options of its link's type.
JOB_OPTIONS = (
    Field(
        "MsgBatchSize",
        "Maximum number of messages in a batch.",
        int,
        30,
        dynamic=True,
        minimum=1,
        maximum=10000,
    ),
    Field(
        "PreserveMessageID",
        "TRUE: the message id of the source travels in a field of the destination.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "AQ_MsgProperties",
        "TRUE: AQ message properties without a field of their own travel as headers MGW_AQ_*.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_forever",
        "TRUE: failures never make the job FAILED; after the 15th failure that counts it retries every 30 minutes.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_policy",
        "What makes a job FAILED. standard: 16 failures in a row that a message or the configuration causes; a broker "
        "or hub that cannot be reached never does. documented: 16 failures of any kind.",
        str,
        "standard",
        dynamic=True,
        choices=("standard", "documented"),
    ),
    UNROUTED,
    Field(
        "retry_max_delay",
        "Longest delay between two attempts to reach a broker or hub that is unavailable, seconds.",
        float,
        60.0,
        dynamic=True,
        minimum=2,
        maximum=1800,
    ),
    MAX_MESSAGE_AGE,
)


def max_message_age(options: Mapping[str, str]) -> float | None:
    """Seconds for which a message may wait for a job with these options; None: no limit of its own."""
    text = next((value for name, value in options.items() if name.lower() == MAX_MESSAGE_AGE.name), None)
    return None if text is None else float(text)


def unrouted(job: JobDef) -> Unrouted:
    """What the job does with messages that no subscriber wants."""
    return Unrouted(job.options.get(UNROUTED.name, UNROUTED.default))
