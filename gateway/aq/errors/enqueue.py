"""Refusals of an enqueue, and of both operations (AQ guide 12.2 §10.2, §10.3)."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq.errors.base import MessageRefused
from mgw.transforms.errors import AqError

__all__ = [
    "AnyDataMismatch",
    "ArraySizeInvalid",
    "ArraysDiffer",
    "DelayBeyondReference",
    "DelayInvalid",
    "DeliveryModeInvalid",
    "DuplicateRecipient",
    "ExceptionQueueEnqueue",
    "ExpirationInvalid",
    "NameInvalid",
    "NoRecipients",
    "NotEnabledForEnqueue",
    "PayloadRefused",
    "PriorityBelowReference",
    "RecipientInvalid",
    "ReferenceConsumed",
    "ReferenceMissing",
    "RelativeMessageMissing",
    "RuleFailed",
    "SavepointMissing",
    "SenderMissing",
    "SequenceDeviationInvalid",
    "TooManyRecipients",
    "UnknownQueue",
    "VisibilityInvalid",
]


class SavepointMissing(AqError):
    """There is no savepoint of that name in the transaction (AQ guide 12.2 §11.7.5).

    Action: Set it before you roll back to it.
    """

    ora = 1086


class NoRecipients(MessageRefused):
    """A message for a multi-consumer queue has no recipient; it is not stored (AQ guide 12.2 §7.2, §10.2).

    Action: Add a subscriber whose rule is true for it, or name recipients.
    """

    ora = 24033
    unrouted: Sequence[int] = ()  # indexes of all messages of the batch without a recipient
    subscribed: bool = True  # the queue has subscribers, whose rules were all not true


class NameInvalid(AqError):
    """The name of a queue is not valid (AQ guide 12.2 §2.1).

    Action: Use [schema.]name, with double quotes around a name that keeps its case.
    """

    ora = 25200


class VisibilityInvalid(AqError):
    """The visibility cannot be used here (AQ guide 12.2 §10.2).

    Action: Use ON_COMMIT.
    """

    ora = 25201


class DelayInvalid(MessageRefused):
    """The delay of a message is out of range (AQ guide 12.2 §10.2).

    Action: Give 0 or more seconds.
    """

    ora = 25203


class SequenceDeviationInvalid(AqError):
    """The sequence deviation is neither BEFORE nor TOP (AQ guide 12.2 §10.2).

    Action: Use BEFORE, TOP or none.
    """

    ora = 25204


class UnknownQueue(AqError):
    """The queue does not exist (AQ guide 12.2 §10.2, §10.5).

    Action: Create it, or correct the name.
    """

    ora = 25205


class ExceptionQueueEnqueue(AqError):
    """Only the hub moves messages into an exception queue (AQ guide 12.2 §1.7).

    Action: Enqueue to a normal queue.
    """

    ora = 25206


class NotEnabledForEnqueue(AqError):
    """The queue is not started for enqueue (AQ guide 12.2 §8.2.3).

    Action: Start it.
    """

    ora = 25207


class RelativeMessageMissing(AqError):
    """The sequence deviation BEFORE needs relative_msgid (AQ guide 12.2 §10.2).

    Action: Give the id of the message to go before.
    """

    ora = 25208


class ExpirationInvalid(MessageRefused):
    """The expiration of a message is out of range (AQ guide 12.2 §10.2).

    Action: Give 0 or more seconds, or none.
    """

    ora = 25209


class ReferenceMissing(AqError):
    """The message given by relative_msgid is not in the queue (AQ guide 12.2 §10.2).

    Action: Give the id of a message that is there.
    """

    ora = 25210


class DelayBeyondReference(MessageRefused):
    """A message that goes before another cannot become ready after it (AQ guide 12.2 §10.2).

    Action: Give a delay that is not longer.
    """

    ora = 25211


class PriorityBelowReference(MessageRefused):
    """A message that goes before another cannot be less important (AQ guide 12.2 §10.2).

    Action: Give a priority that is not below.
    """

    ora = 25212


class ReferenceConsumed(AqError):
    """The message given by relative_msgid was dequeued (AQ guide 12.2 §10.2).

    Action: Give the id of a message that is still there.
    """

    ora = 25213


class PayloadRefused(MessageRefused):
    """The payload does not have the type or the size that the queue takes (AQ guide 12.2 §2.2, §10.2).

    Action: Convert or shorten it, or use another queue table.
    """

    ora = 25215


class RecipientInvalid(AqError):
    """The recipient list cannot be used (AQ guide 12.2 §10.2).

    Action: Name each recipient; leave the list out on a single-consumer queue.
    """

    ora = 25216


class SenderMissing(MessageRefused):
    """A message for a secure queue needs a sender that is an AQ agent of the user (AQ guide 12.2 §8.1.1, §10.2).

    Action: Give sender_name, the name of such an agent.
    """

    ora = 25224


class DuplicateRecipient(AqError):
    """A recipient is listed twice (AQ guide 12.2 §10.2).

    Action: List every recipient once.
    """

    ora = 25232


class TooManyRecipients(AqError):
    """The recipient list is too long (AQ guide 12.2 §1.3.2).

    Action: Name at most 1024.
    """

    ora = 25251


class ArraySizeInvalid(AqError):
    """The array size is below 1, or above the number of messages given (AQ guide 12.2 §10.3, §10.6).

    Action: Correct the array size.
    """

    ora = 25286


class ArraysDiffer(AqError):
    """Message properties and payloads differ in number (AQ guide 12.2 §10.3).

    Action: Give one of each for every message.
    """

    ora = 25287


class DeliveryModeInvalid(AqError):
    """The delivery mode cannot be used (AQ guide 12.2 §10.2, §10.5).

    Action: Use PERSISTENT.
    """

    ora = 25299


class AnyDataMismatch(AqError):
    """A value cannot be wrapped as, or unwrapped to, a type (AQ guide 12.2 §22.1.1).

    Action: Look at the type name first; name a type that the value has.
    """

    ora = 22626


class RuleFailed(AqError):
    """A rule has no value for a message (AQ guide 12.2 §8.6.1).

    Action: Correct the message, or alter the rule.
    """

    ora = 25449
