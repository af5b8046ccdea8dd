"""The options of a job; link types add their own (:class:`mgw.links.contract.LinkSpec`)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from mgw.gateway.definitions.objects import DEFAULT_BATCH_LIMIT, DEFAULT_BATCH_SIZE, JobDef
from mgw.links.contract import Field
from mgw.transforms.errors import ConfigInvalid

__all__ = [
    "JOB_OPTIONS",
    "MAX_BATCH_SIZE",
    "MAX_MESSAGE_AGE",
    "MAX_PASSES",
    "NO_LOCAL",
    "ON_MISSING",
    "PARK_KEY",
    "UNROUTED",
    "OnMissing",
    "Unrouted",
    "check_batch_limit",
    "max_message_age",
    "max_passes",
    "no_local",
    "on_missing",
    "park_attempts",
    "park_key",
    "park_messages",
    "preserves_id",
    "stuck_after",
    "unrouted",
]


class OnMissing(StrEnum):
    """What a job does when its source no longer holds messages that it has not read."""

    STOP = "stop"
    CONTINUE = "continue"


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

MAX_PASSES = Field(
    "max_passes",
    "How often a message may pass the job; 3 is a good number. One that comes again goes round in a loop: it goes to "
    "the exception queue of the job with LoopFound, which names the loop. The job writes itself into the header "
    "MGW_trail of each message. 0: it does not, and looks at no trail.",
    int,
    0,
    dynamic=True,
    minimum=0,
    maximum=1000,
)

ON_MISSING = Field(
    "on_missing",
    "What the job does when messages that it had not read are gone from a Kafka topic or a RabbitMQ stream: retention "
    "was faster, records were deleted, the topic was created again. stop: it ends as FAILED with 415, and an operator "
    "decides. continue: it goes on behind what is missing. Either way the event MessagesMissing names each range.",
    str,
    str(OnMissing.STOP),
    dynamic=True,
    choices=tuple(map(str, OnMissing)),
)

PARK_KEY = Field(
    "park_key",
    "Outbound jobs: messages with the same value of this expression keep their order behind one that cannot be "
    "delivered. They wait with it (MGW_PARKED, mgw exceptions parked), all other messages pass. It is tried again; "
    "when it is delivered, or is in the exception queue, they follow in order. correlation, partition_key (the key of "
    "a Kafka record, else the correlation) or an expression, such as tab.user_data.account. Messages without a value "
    "are not parked. If it is not set, nothing is.",
    str,
    None,
    dynamic=True,
)

PARK_ATTEMPTS = Field(
    "park_attempts",
    "Attempts to deliver the first message of a parked key, after which it goes to the exception queue of the job. "
    "0: it is tried until it is delivered or somebody gives it up (mgw exceptions give-up).",
    int,
    0,
    dynamic=True,
    minimum=0,
    maximum=1000,
)

PARK_MESSAGES = Field(
    "park_messages",
    "Messages that may be parked at the same time. With more the job waits (RETRY), and nothing passes.",
    int,
    10000,
    dynamic=True,
    minimum=1,
    maximum=1000000,
)

STUCK_AFTER = Field(
    "stuck_after",
    "Seconds after which the job is shown as STUCK when messages are in flight or wait at the source and none of them "
    "has moved. After 60 s, or what the link says, the gateway connects again by itself.",
    float,
    10.0,
    dynamic=True,
    minimum=0.5,
    maximum=3600,
)

NO_LOCAL = Field(
    "JMS_NoLocal",
    "TRUE: skip messages that a job of this hub published. They are told by their id in the hub (RabbitMQ: the "
    "message-id, or MGW_AQ_messageID), or else by the last job of MGW_trail: an outbound job whose messages keep a "
    "message-id of their own on RabbitMQ needs PreserveMessageID or max_passes, one that makes several messages of one "
    "needs max_passes. For jobs that read a link; MQTT 3.1.1 needs MQTT_Envelope. Skipped messages count as filtered.",
    bool,
    False,
    alterable=False,
)

MAX_BATCH_SIZE = Field(
    "max_batch_size",
    "Messages to which a batch grows under load, from MsgBatchSize on. Not below MsgBatchSize; equal to it: batches do "
    "not grow. If it is not set and MsgBatchSize is larger than the default, MsgBatchSize counts.",
    int,
    DEFAULT_BATCH_LIMIT,
    dynamic=True,
    minimum=1,
    maximum=10000,
)

#: Options of every job, in addition to the job options of its link's type.
JOB_OPTIONS = (
    Field(
        "MsgBatchSize",
        "Maximum number of messages in a batch, except under load (max_batch_size).",
        int,
        DEFAULT_BATCH_SIZE,
        dynamic=True,
        minimum=1,
        maximum=10000,
    ),
    MAX_BATCH_SIZE,
    STUCK_AFTER,
    Field(
        "PreserveMessageID",
        "TRUE: the message id of the source travels in a field of the destination; with JMS payload types, in both "
        "directions, in the property OracleMGW_OriginalMessageID.",
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
    MAX_PASSES,
    ON_MISSING,
    PARK_KEY,
    PARK_ATTEMPTS,
    PARK_MESSAGES,
    NO_LOCAL,
)


def stuck_after(options: Mapping[str, str]) -> float:
    """Seconds without progress after which a job with messages is STUCK."""
    text = next((value for name, value in options.items() if name.lower() == STUCK_AFTER.name), None)
    return STUCK_AFTER.default if text is None else float(text)


def max_message_age(options: Mapping[str, str]) -> float | None:
    """Seconds for which a message may wait for a job with these options; None: no limit of its own."""
    text = next((value for name, value in options.items() if name.lower() == MAX_MESSAGE_AGE.name), None)
    return None if text is None else float(text)


def check_batch_limit(job_name: str, options: Mapping[str, str]) -> None:
    """Refuse a max_batch_size below the MsgBatchSize that the job has itself; an agent's counts when it runs.

    Raises:
        ConfigInvalid: it is below.
    """
    given = {name.lower(): value for name, value in options.items()}
    limit, size = given.get(MAX_BATCH_SIZE.name), given.get("msgbatchsize")
    if limit is not None and size is not None and int(limit) < int(size):
        raise ConfigInvalid(
            f"job {job_name}: {MAX_BATCH_SIZE.name} cannot be {limit}",
            cause=f"MsgBatchSize is {size}, and batches grow from there to {MAX_BATCH_SIZE.name}",
            cure=f"set {MAX_BATCH_SIZE.name} to at least {size}, or lower MsgBatchSize",
        )


def max_passes(job: JobDef) -> int:
    """How often a message may pass the job; 0: as often as it comes."""
    return int(job.options.get(MAX_PASSES.name, MAX_PASSES.default))


def on_missing(job: JobDef) -> OnMissing:
    """What the job does when messages are gone at its source."""
    return OnMissing(job.options.get(ON_MISSING.name, ON_MISSING.default))


def park_key(options: Mapping[str, str]) -> str | None:
    """The expression whose value messages share that are parked together; None: the job parks nothing."""
    return next((value for name, value in options.items() if name.lower() == PARK_KEY.name), None) or None


def park_attempts(job: JobDef) -> int:
    """Attempts after which the first message of a parked key is given up; 0: never."""
    return int(job.options.get(PARK_ATTEMPTS.name, PARK_ATTEMPTS.default))


def park_messages(job: JobDef) -> int:
    """Messages that may be parked at the same time."""
    return int(job.options.get(PARK_MESSAGES.name, PARK_MESSAGES.default))


def no_local(job: JobDef) -> bool:
    """Whether the job skips what jobs of its own hub published."""
    return job.options.get(NO_LOCAL.name.lower()) == "TRUE"


def preserves_id(job: JobDef) -> bool:
    """Whether the id of a message goes with it."""
    return job.options.get("preservemessageid") == "TRUE"


def unrouted(job: JobDef) -> Unrouted:
    """What the job does with messages that no subscriber wants."""
    return Unrouted(job.options.get(UNROUTED.name, UNROUTED.default))
