"""The options of a job; link types add their own (:class:`mgw.links.contract.LinkSpec`)."""

from __future__ import annotations

from mgw.links.contract import Field

__all__ = ["JOB_OPTIONS"]

#: Options of every job, in addition to the job options of its link's type.
JOB_OPTIONS = (
    Field(
        "MsgBatchSize",
        "Messages moved together at most.",
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
        "TRUE: failures never make the job FAILED; after the 15th that counts it is tried again every 30 minutes.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_policy",
        "What makes a job FAILED. standard: 16 failures in a row that a message or the configuration makes, while a "
        "broker or hub that cannot be reached never does. documented: 16 failures of any kind.",
        str,
        "standard",
        dynamic=True,
        choices=("standard", "documented"),
    ),
    Field(
        "discard_unrouted",
        "TRUE: an inbound message that no subscriber wants is dropped and counted; FALSE: it is a failure.",
        bool,
        False,
        dynamic=True,
    ),
    Field(
        "retry_max_delay",
        "Longest delay between two attempts to reach a broker or hub that is away, seconds.",
        float,
        60.0,
        dynamic=True,
        minimum=2,
        maximum=1800,
    ),
)
