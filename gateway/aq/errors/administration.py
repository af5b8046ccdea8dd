"""Refusals of operations on queue tables, queues and subscribers (AQ guide 12.2 §8.1, §8.2, §8.6)."""

from __future__ import annotations

from mgw.transforms.errors import AqError

__all__ = [
    "AgentAddressInvalid",
    "AgentNameInvalid",
    "CannotMigrate",
    "CompatibleInvalid",
    "DefaultExceptionQueue",
    "EnqueueOnExceptionQueue",
    "HoldsMessages",
    "InstanceInvalid",
    "NameReserved",
    "NameTooLong",
    "NotOnSingleConsumerQueue",
    "PurgeConflict",
    "QueueExists",
    "QueueInUse",
    "QueueMissing",
    "QueueNotStopped",
    "QueueTableExists",
    "QueueTableMissing",
    "QueueTableNotEmpty",
    "QueueTypeInvalid",
    "RetentionInvalid",
    "RetentionOnExceptionQueue",
    "RetryInvalid",
    "RetryOnExceptionQueue",
    "RuleInvalid",
    "SchemaDiffers",
    "SingleConsumerQueue",
    "SortListInvalid",
    "SubscriberExists",
    "SubscriberMissing",
    "SubscriberOfExceptionQueue",
    "SubscribesToItself",
    "TooManySubscribers",
]


class QueueTableExists(AqError):
    """A queue table of that name exists (AQ guide 12.2 §8.1.1).

    Action: Choose another name, or drop the queue table first.
    """

    ora = 24001


class QueueTableMissing(AqError):
    """The queue table does not exist (AQ guide 12.2 §8.1.2).

    Action: Correct the name, or create the queue table.
    """

    ora = 24002


class QueueTypeInvalid(AqError):
    """The type of a queue is neither NORMAL_QUEUE nor EXCEPTION_QUEUE, or does not fit its queue table.

    AQ guide 12.2 §2.14, §8.2.1. Action: Name one of the two types.
    """

    ora = 24003


class QueueExists(AqError):
    """A queue of that name exists in the schema (AQ guide 12.2 §8.2.1).

    Action: Choose another name, or drop the queue first.
    """

    ora = 24006


class QueueMissing(AqError):
    """The queue to administer does not exist (AQ guide 12.2 §8.2.2).

    Action: Correct the name, or create the queue.
    """

    ora = 24010


class QueueNotStopped(AqError):
    """A queue cannot be dropped while it is started (AQ guide 12.2 §8.2.5).

    Action: Stop it in both directions first.
    """

    ora = 24011


class QueueTableNotEmpty(AqError):
    """A queue table cannot be dropped while it has queues (AQ guide 12.2 §8.1.3).

    Action: Stop and drop its queues first, or use force.
    """

    ora = 24012


class RetryInvalid(AqError):
    """The retry delay or the number of retries is out of range (AQ guide 12.2 §8.2.1).

    Action: Give 0 or more seconds, and 0 to 2147483647 retries.
    """

    ora = 24013


class RetentionInvalid(AqError):
    """The retention time is out of range (AQ guide 12.2 §8.2.1).

    Action: Give 0 or more seconds, or -1 forever.
    """

    ora = 24014


class EnqueueOnExceptionQueue(AqError):
    """Enqueue cannot be enabled on an exception queue (AQ guide 12.2 §8.2.3).

    Action: Start it for dequeue only.
    """

    ora = 24017


class HoldsMessages(AqError):
    """What is to be removed holds messages that nobody has consumed.

    Action: Let them be consumed, move them to another queue, or use force.
    """


class QueueInUse(AqError):
    """A queue cannot be stopped while transactions work on it (AQ guide 12.2 §8.2.4).

    Action: Wait for them to end, or end them.
    """

    ora = 24018


class NameTooLong(AqError):
    """The name of an object, agent or user is too long (AQ guide 12.2 §2.1, §8.1.1).

    Action: Shorten it; queues and queue tables take 122 bytes, other names 128.
    """

    ora = 24019


class DefaultExceptionQueue(AqError):
    """The default exception queue of a queue table cannot be dropped or replaced (AQ guide 12.2 §8.1.1, §8.2.5).

    Action: Drop the queue table.
    """

    ora = 24026


class NotOnSingleConsumerQueue(AqError):
    """A single-consumer queue has no subscribers to alter or remove (AQ guide 12.2 §8.6.2, §8.6.3).

    Action: Name a multi-consumer queue.
    """

    ora = 24029


class SubscriberExists(AqError):
    """The agent is a subscriber of the queue already (AQ guide 12.2 §8.6.1).

    Action: Alter the subscriber.
    """

    ora = 24034


class SubscriberMissing(AqError):
    """The agent is not a subscriber of the queue (AQ guide 12.2 §8.6.2).

    Action: Add the subscriber, or correct its name.
    """

    ora = 24035


class SortListInvalid(AqError):
    """The sort list of a queue table is unknown, or does not fit its other attributes (AQ guide 12.2 §8.1.1).

    Action: Use one of the six sort lists; commit time needs multiple consumers, transactional grouping and compatible
    8.1.
    """

    ora = 24036


class SchemaDiffers(AqError):
    """A queue is in another schema than its queue table (AQ guide 12.2 §8.2.1).

    Action: Name both in one schema.
    """

    ora = 24037


class SingleConsumerQueue(AqError):
    """A single-consumer queue takes no subscribers and propagates nothing (AQ guide 12.2 §8.6.1, §8.7.1).

    Action: Make the queue table with multiple_consumers.
    """

    ora = 24039


class AgentAddressInvalid(AqError):
    """The address of an agent cannot be used (AQ guide 12.2 §2.3, §8.6.1).

    Action: Correct the address, or leave it out for a local agent.
    """

    ora = 24045


class AgentNameInvalid(AqError):
    """The name of an agent is missing or not valid (AQ guide 12.2 §2.3).

    Action: Use 1 to 128 printable characters.
    """

    ora = 24047


class NameReserved(AqError):
    """Names of queues, queue tables and types that begin with AQ$_ belong to the hub (AQ guide 12.2 §1.3.2).

    Action: Choose another name.
    """

    ora = 24079


class SubscriberOfExceptionQueue(AqError):
    """An exception queue has no subscribers (AQ guide 12.2 §8.6.1).

    Action: Subscribe to a normal queue.
    """

    ora = 24050


class CompatibleInvalid(AqError):
    """The compatible setting of a queue table is unknown, or too low for what is asked (AQ guide 12.2 §8.1.1).

    Action: Use 8.1, 10.0 or 12.2.
    """

    ora = 24059


class CannotMigrate(AqError):
    """The queue table cannot be converted to that compatible setting (AQ guide 12.2 §8.1.5).

    Action: Undo what needs the present setting first.
    """

    ora = 24060


class TooManySubscribers(AqError):
    """The queue has as many subscribers as it may have (AQ guide 12.2 §4.6.1, §8.6.1).

    Action: Remove subscribers: 1000 local ones, 1024 in all.
    """

    ora = 24067


class RetentionOnExceptionQueue(AqError):
    """An exception queue keeps nothing after the dequeue (AQ guide 12.2 §8.2.1).

    Action: Leave retention_time out.
    """

    ora = 24073


class RetryOnExceptionQueue(AqError):
    """An exception queue has no retries (AQ guide 12.2 §8.2.1).

    Action: Leave max_retries and retry_delay out.
    """

    ora = 24074


class InstanceInvalid(AqError):
    """A secondary instance was given without a primary one, or with a compatible setting below 8.1.

    AQ guide 12.2 §8.1.2. Action: Give the primary instance too.
    """

    ora = 24078


class SubscribesToItself(AqError):
    """A queue cannot subscribe to itself (AQ guide 12.2 §8.6.1).

    Action: Name another queue, or a local agent.
    """

    ora = 25313


class RuleInvalid(AqError):
    """A rule or condition cannot be compiled; line, column and offending text are in the message.

    AQ guide 12.2 §8.6.1, §10.5. Action: Correct it at that place.
    """

    ora = 25448


class PurgeConflict(AqError):
    """A purge that may not wait found messages that other transactions hold (AQ guide 12.2 §8.1.4).

    Action: Repeat it, or use block.
    """

    ora = 54
