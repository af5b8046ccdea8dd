"""Refusals of a dequeue and of LISTEN (AQ guide 12.2 §10.4 to §10.6)."""

from __future__ import annotations

from mgw.transforms.errors import AqError

__all__ = [
    "ConsumerChanged",
    "ConsumerForExceptionQueue",
    "ConsumerMissing",
    "ConsumerNotAllowed",
    "CorrelationChanged",
    "DequeueModeInvalid",
    "EndOfGroup",
    "ImmediateRequired",
    "ListenDuplicate",
    "ListenNameGiven",
    "ListenNameMissing",
    "ListenNotEnabled",
    "ListenTimeout",
    "MessageIdMissing",
    "MessageIdNotAlone",
    "MessageMissing",
    "NavigationInvalid",
    "NavigationOutOfSequence",
    "NoMessage",
    "NoTransactionGroups",
    "NotEnabledForDequeue",
    "TransformationFailed",
    "WaitInvalid",
]


class DequeueModeInvalid(AqError):
    """The dequeue mode is unknown (AQ guide 12.2 §10.5).

    Action: Use REMOVE, BROWSE, LOCKED or REMOVE_NODATA.
    """

    ora = 25225


class NotEnabledForDequeue(AqError):
    """The queue is not started for dequeue (AQ guide 12.2 §8.2.3).

    Action: Start it.
    """

    ora = 25226


class NoMessage(AqError):
    """No message was there within the wait, or the end of the queue was reached (AQ guide 12.2 §1.4, §10.5).

    Action: Try again later, or begin with FIRST_MESSAGE.
    """

    ora = 25228


class TransformationFailed(AqError):
    """The transformation of a message failed (AQ guide 12.2 §21.4).

    Action: Correct the transformation; the message stays.
    """

    ora = 25229


class WaitInvalid(AqError):
    """The wait is out of range (AQ guide 12.2 §10.5).

    Action: Give 0 or more seconds, or FOREVER.
    """

    ora = 25230


class ConsumerMissing(AqError):
    """A multi-consumer queue is dequeued by a named consumer (AQ guide 12.2 §10.5).

    Action: Give consumer_name.
    """

    ora = 25231


class NavigationInvalid(AqError):
    """The navigation is unknown, or cannot be used here (AQ guide 12.2 §10.5, §10.6).

    Action: Use FIRST_MESSAGE or NEXT_MESSAGE.
    """

    ora = 25233


class NoTransactionGroups(AqError):
    """The queue has no transaction groups (AQ guide 12.2 §10.5).

    Action: Use NEXT_MESSAGE, or a queue table with transactional grouping.
    """

    ora = 25234


class EndOfGroup(AqError):
    """The transaction group has no more messages (AQ guide 12.2 §10.5).

    Action: Continue with NEXT_TRANSACTION.
    """

    ora = 25235


class NavigationOutOfSequence(AqError):
    """There is no position to continue from (AQ guide 12.2 §4.5, §7.2).

    Action: Begin with FIRST_MESSAGE.
    """

    ora = 25237


class MessageIdMissing(AqError):
    """Messages of a single-consumer exception queue are dequeued by message id (AQ guide 12.2 §1.7).

    Action: Browse it, then dequeue by msgid.
    """

    ora = 25239


class MessageIdNotAlone(AqError):
    """A message id was given together with a correlation or a condition (AQ guide 12.2 §10.5).

    Action: Leave the others out.
    """

    ora = 25240


class CorrelationChanged(AqError):
    """The correlation or the condition changed between two calls (AQ guide 12.2 §10.5).

    Action: Use FIRST_MESSAGE for the first call with another one.
    """

    ora = 25241


class ConsumerChanged(AqError):
    """The consumer changed between two calls (AQ guide 12.2 §10.5).

    Action: Use FIRST_MESSAGE for the first call of another consumer.
    """

    ora = 25242


class ConsumerForExceptionQueue(AqError):
    """Messages of an exception queue are dequeued without a consumer name (AQ guide 12.2 §1.7).

    Action: Leave consumer_name out.
    """

    ora = 25243


class ConsumerNotAllowed(AqError):
    """The queue is dequeued without a consumer name (AQ guide 12.2 §10.5).

    Action: Leave consumer_name out.
    """

    ora = 25256


class ImmediateRequired(AqError):
    """Messages that may be buffered are not part of a transaction (AQ guide 12.2 §10.5).

    Action: Use visibility IMMEDIATE, or delivery mode PERSISTENT.
    """

    ora = 25298


class MessageMissing(AqError):
    """No message with that id can be dequeued from the queue (AQ guide 12.2 §1.7, §10.5).

    Action: Browse the queue for the messages that are there.
    """

    ora = 25263


class ListenNameGiven(AqError):
    """The agent of a single-consumer or exception queue has no name (AQ guide 12.2 §10.4).

    Action: Leave the name out.
    """

    ora = 25245


class ListenDuplicate(AqError):
    """An agent is listed twice (AQ guide 12.2 §10.4).

    Action: List every agent once.
    """

    ora = 25248


class ListenNotEnabled(AqError):
    """A queue to listen to is not started for dequeue (AQ guide 12.2 §10.4).

    Action: Start it.
    """

    ora = 25253


class ListenTimeout(AqError):
    """No message for any of the agents was there within the wait (AQ guide 12.2 §10.4).

    Action: Listen again.
    """

    ora = 25254


class ListenNameMissing(AqError):
    """The agent of a multi-consumer queue needs its consumer name (AQ guide 12.2 §10.4).

    Action: Give the name.
    """

    ora = 25262
