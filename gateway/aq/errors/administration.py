"""Refusals of administrative operations (AQ guide 12.2 §8)."""

from __future__ import annotations

from transforms.errors import AqError

__all__ = [
    "AgentAddressInvalid",
    "AgentExists",
    "AgentMissing",
    "AgentNameInvalid",
    "AgentNameReserved",
    "AgentNotMapped",
    "AgentWithoutProtocol",
    "CannotMigrate",
    "CompatibleInvalid",
    "DefaultExceptionQueue",
    "EnqueueOnExceptionQueue",
    "InstanceInvalid",
    "NameReserved",
    "NameTooLong",
    "NotOnSingleConsumerQueue",
    "NotTheOwner",
    "PayloadTypeForbidden",
    "PayloadTypeUnknown",
    "PrivilegeInvalid",
    "PrivilegeMissing",
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
    "TransformationInvalid",
    "TransformationMissing",
    "TypeExists",
    "TypeInUse",
    "TypeMissing",
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

    Action: Give 0 or more seconds, or -1 for ever.
    """

    ora = 24014


class PayloadTypeUnknown(AqError):
    """The payload type of a queue table does not exist (AQ guide 12.2 §4.6.6, §8.1.1).

    Action: Name a payload type, or create the object type first.
    """

    ora = 24015


class PayloadTypeForbidden(AqError):
    """The payload type cannot be used by this user (AQ guide 12.2 §8.1.1).

    Action: Have the owner of the type allow it.
    """

    ora = 24016


class EnqueueOnExceptionQueue(AqError):
    """Enqueue cannot be enabled on an exception queue (AQ guide 12.2 §8.2.3).

    Action: Start it for dequeue only.
    """

    ora = 24017


class QueueInUse(AqError):
    """A queue cannot be stopped while transactions work on it (AQ guide 12.2 §8.2.4).

    Action: Wait for them to end, or end them.
    """

    ora = 24018


class NameTooLong(AqError):
    """The name of an object is too long (AQ guide 12.2 §2.1, §8.1.1).

    Action: Shorten it; queues and queue tables take 122 bytes.
    """

    ora = 24019


class DefaultExceptionQueue(AqError):
    """The default exception queue of a queue table cannot be dropped or replaced (AQ guide 12.2 §8.1.1, §8.2.5).

    Action: Drop the queue table.
    """

    ora = 24026


class NotOnSingleConsumerQueue(AqError):
    """The operation needs a multi-consumer queue (AQ guide 12.2 §8.6).

    Action: Make the queue table with multiple_consumers.
    """

    ora = 24029


class SubscriberExists(AqError):
    """The agent is a subscriber of the queue already (AQ guide 12.2 §8.6.1).

    Action: Alter the subscriber.
    """

    ora = 24034


class SubscriberMissing(AqError):
    """The agent is no subscriber of the queue (AQ guide 12.2 §8.6.2).

    Action: Add the subscriber, or correct its name.
    """

    ora = 24035


class SortListInvalid(AqError):
    """The sort list of a queue table is unknown, or does not go with its other attributes (AQ guide 12.2 §8.1.1).

    Action: Use one of the six sort lists; commit time needs multiple consumers, transactional grouping and compatible
    8.1.
    """

    ora = 24036


class SchemaDiffers(AqError):
    """A queue lies in another schema than its queue table (AQ guide 12.2 §8.2.1).

    Action: Name both in one schema.
    """

    ora = 24037


class SingleConsumerQueue(AqError):
    """A single-consumer queue has no subscribers and propagates nothing (AQ guide 12.2 §8.6.1, §8.7.1).

    Action: Make the queue table with multiple_consumers.
    """

    ora = 24039


class AgentAddressInvalid(AqError):
    """The address of an agent cannot be used (AQ guide 12.2 §2.3, §8.6.1).

    Action: Correct the address, or leave it out for a local agent.
    """

    ora = 24045


class AgentNameInvalid(AqError):
    """The name of an agent is not valid (AQ guide 12.2 §2.3).

    Action: Use at most 128 characters that make an identifier.
    """

    ora = 24047


class NameReserved(AqError):
    """Names that begin with AQ$_ belong to the hub (AQ guide 12.2 §1.3.2).

    Action: Choose another name.
    """

    ora = 24049


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


class PrivilegeInvalid(AqError):
    """The privilege does not exist, or was not granted by this user (AQ guide 12.2 §8.5).

    Action: Name ENQUEUE, DEQUEUE or ALL; ENQUEUE_ANY, DEQUEUE_ANY or MANAGE_ANY.
    """

    ora = 24066


class TooManySubscribers(AqError):
    """The queue has as many subscribers as it may have (AQ guide 12.2 §4.6.1, §8.6.1).

    Action: Remove subscribers: 1000 local ones, 1024 in all.
    """

    ora = 24067


class NotTheOwner(AqError):
    """Only the owner of a queue table may do that (AQ guide 12.2 §8.1.5).

    Action: Connect as the owner.
    """

    ora = 24072


class RetentionOnExceptionQueue(AqError):
    """An exception queue keeps nothing after the dequeue (AQ guide 12.2 §8.2.1).

    Action: Leave retention_time out.
    """

    ora = 24073


class RetryOnExceptionQueue(AqError):
    """An exception queue knows no retries (AQ guide 12.2 §8.2.1).

    Action: Leave max_retries and retry_delay out.
    """

    ora = 24074


class InstanceInvalid(AqError):
    """A secondary instance was given without a primary one, or with a compatible setting below 8.1.

    AQ guide 12.2 §8.1.2. Action: Give the primary instance too.
    """

    ora = 24078


class AgentNameReserved(AqError):
    """The name of an agent begins with AQ$_ (AQ guide 12.2 §2.3).

    Action: Choose another name.
    """

    ora = 24079


class AgentMissing(AqError):
    """The AQ agent does not exist (AQ guide 12.2 §8.8).

    Action: Create it, or correct its name.
    """

    ora = 24088


class AgentExists(AqError):
    """An AQ agent of that name exists (AQ guide 12.2 §8.8).

    Action: Alter it, or choose another name.
    """

    ora = 24089


class AgentWithoutProtocol(AqError):
    """The AQ agent may use no protocol (AQ guide 12.2 §8.8).

    Action: Enable one.
    """

    ora = 24090


class AgentNotMapped(AqError):
    """The AQ agent does not have the privileges of that user (AQ guide 12.2 §8.8, §10.1).

    Action: Map it: enable_db_access.
    """

    ora = 24093


class TransformationMissing(AqError):
    """The transformation does not exist, exists already, or its types do not match (AQ guide 12.2 §8.4, §1.9).

    Action: Correct its name; its result must be of the type that is asked for.
    """

    ora = 24094


class TransformationInvalid(AqError):
    """The transformation cannot be used: its definition is wrong (AQ guide 12.2 §8.4).

    Action: Correct the expression or the function.
    """

    ora = 24095


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


class TypeExists(AqError):
    """An object type of that name exists (AQ guide 12.2 §2.2).

    Action: Choose another name, or drop the type first.
    """

    ora = 955


class TypeMissing(AqError):
    """The object type does not exist (AQ guide 12.2 §2.2).

    Action: Create it, or correct its name.
    """

    ora = 4043


class TypeInUse(AqError):
    """An object type cannot be dropped or changed while queue tables hold it (AQ guide 12.2 §2.2).

    Action: Drop those queue tables first.
    """

    ora = 2303


class PrivilegeMissing(AqError):
    """The user lacks the privilege for the operation (AQ guide 12.2 §4.2, §8.5).

    Action: Have the owner grant it.
    """

    ora = 1031


class PurgeConflict(AqError):
    """A purge that may not wait met messages in other transactions' hands (AQ guide 12.2 §8.1.4).

    Action: Repeat it, or use block.
    """

    ora = 54
