"""The enqueue call of a session: its options, and the order in which they are checked (AQ guide 12.2 §10.2, §10.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from time import perf_counter
from typing import NamedTuple, TypeVar

from mgw.gateway.aq.errors import (
    ArraysDiffer,
    ArraySizeInvalid,
    DeliveryModeInvalid,
    MessageRefused,
    SequenceDeviationInvalid,
    VisibilityInvalid,
)
from mgw.gateway.aq.model import Agent, DeliveryMode, EnqueueOptions, QueueRef, SequenceDeviation, Visibility
from mgw.gateway.aq.queues.codec import check_times
from mgw.gateway.aq.queues.deviation import deviate
from mgw.gateway.aq.queues.intake import Enrol, address, check_enqueue, numbered
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.sessions.unit_of_work.base import Work
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, ConversionFailure
from mgw.transforms.message import Message, check_headers

__all__ = ["DEFAULT_OPTIONS", "EnqueueCall", "prepare_enqueue", "read_call"]

DEFAULT_OPTIONS = EnqueueOptions()  # of calls that give none: there is nothing to read
Transform = Callable[[Sequence[Message], str], Sequence[Message]]
Senders = Callable[[Sequence[Message]], None]
Member = TypeVar("Member", bound=StrEnum)


class EnqueueCall(NamedTuple):
    """What an application asked for; ``recipients`` has the list of each message, or is empty."""

    messages: Sequence[Message]
    options: EnqueueOptions
    recipients: Sequence[Sequence[Agent]]

    @property
    def immediate(self) -> bool:
        """Whether the call is a transaction of its own."""
        visibility = self.options.visibility
        return visibility is Visibility.IMMEDIATE or str(visibility).strip().upper() == Visibility.IMMEDIATE


def read_call(
    messages: Sequence[Message],
    options: EnqueueOptions,
    recipients: Sequence[Agent | str],
    recipient_lists: Sequence[Sequence[Agent | str]] | None,
    array_size: int | None,
) -> EnqueueCall:
    """The call for an array.

    Raises:
        AqError: 25286 bad array size, 25287 not one recipient list for each message.
    """
    if array_size is not None:
        if not isinstance(array_size, int) or not 1 <= array_size <= len(messages):
            raise ArraySizeInvalid(
                f"array size is {array_size!r}",
                cause=f"{len(messages)} messages are given",
                cure="give a size from 1 to the number of messages",
            )
        messages = messages[:array_size]
    if recipient_lists is None:
        named = _agents(recipients)
        return EnqueueCall(messages, options, [named] * len(messages) if named else ())
    if len(recipient_lists) < len(messages) or (array_size is None and len(recipient_lists) != len(messages)):
        raise ArraysDiffer(
            f"{len(recipient_lists)} recipient lists are given for {len(messages)} messages",
            cause="each message needs its own list",
            cure="give one list for every message; an empty one means the subscribers",
        )
    lists = [_agents(each) or _agents(recipients) for each in recipient_lists[: len(messages)]]
    return EnqueueCall(messages, options, lists)


def _agents(recipients: Sequence[Agent | str]) -> list[Agent]:
    if isinstance(recipients, str | Agent):  # a text is a sequence, too: of one-letter names
        recipients = [recipients]
    return [agent if isinstance(agent, Agent) else Agent(agent) for agent in recipients]


def prepare_enqueue(
    db: Db,
    queue: QueueRef,
    call: EnqueueCall,
    work: Work | None,
    *,
    now: float,
    user: str | None,
    txn: str,
    transform: Transform,
    senders: Senders | None = None,
    enrol: Enrol | None = None,
) -> Prepared:
    """Check a call, number its messages and find who gets them.

    Args:
        work: the session's transaction, None for a call that is none of its work.
        transform: applies a transformation to messages.
        senders: refuses messages whose senders are not the user's (25224, 24093); a transformation may change them.
        enrol: stores a consumer who was never named before; default: in the transaction of the call.

    Raises:
        AqError: the first that applies of 25205, 25206, 25207; 25201, 25204; 25203, 25209; headers; 25224, 24093;
            25299; 24094, 24095, 25229; 25215; 25208, 25210, 25213, 25211, 25212; 25251, 25216, 25232, 24033.
    """
    started = perf_counter()
    check_enqueue(db, queue)
    messages, options = call.messages, call.options
    if options is not DEFAULT_OPTIONS:
        options = _checked(options)
    if options is not DEFAULT_OPTIONS or senders is not None:  # else they are looked at when the rows are made
        for index, message in enumerate(messages):
            check_times(message, index)
    _check_headers(messages)
    if senders is not None:
        senders(messages)
    if options.delivery_mode is not DeliveryMode.PERSISTENT:
        _check_delivery_mode(options)
    if options.transformation is not None:
        messages = transform(messages, options.transformation)
        _check_headers(messages)
        if senders is not None:
            senders(messages)
    alone = db.postgresql and len(messages) == 1 and not (queue.multiple_consumers or queue.grouped)
    later = alone and options.sequence_deviation is None
    deviates = options.sequence_deviation is not None
    messages, rows = numbered(
        db, queue, messages, now, user=user, txn=txn, system=False, later=later, deviates=deviates
    )
    deviation = None
    if deviates:
        deviation, rows = deviate(db, queue, options, messages, rows, work)
    prepared = address(db, queue, messages, rows, now, recipients=call.recipients, enrol=enrol)
    return prepared._replace(deviation=deviation, seconds=perf_counter() - started, numbered=not later)


def _checked(options: EnqueueOptions) -> EnqueueOptions:
    """Options with members for texts; the delivery mode has its turn later."""
    visibility = _member(Visibility, options.visibility, "visibility", VisibilityInvalid)
    deviation = options.sequence_deviation
    if deviation is not None:
        deviation = _member(SequenceDeviation, deviation, "sequence_deviation", SequenceDeviationInvalid)
    return replace(options, visibility=visibility, sequence_deviation=deviation)


def _check_delivery_mode(options: EnqueueOptions) -> None:
    mode = _member(DeliveryMode, options.delivery_mode, "delivery_mode", DeliveryModeInvalid)
    if mode is not DeliveryMode.PERSISTENT:
        raise DeliveryModeInvalid(
            f"delivery_mode {mode.value} cannot be used for an enqueue",
            cause="the hub stores every message"
            if mode is DeliveryMode.BUFFERED
            else "a message has one delivery mode, PERSISTENT or BUFFERED",
            cure="use PERSISTENT",
        )


def _member(kind: type[Member], value: object, name: str, error: type[AqError]) -> Member:
    if type(value) is kind:
        return value
    try:
        return kind(str(value).strip().upper())
    except ValueError:
        raise error(
            f"{name} {value!r} is not known",
            cause=f"allowed are {', '.join(member.value for member in kind)}",
            cure="use one of them",
        ) from None


def _check_headers(messages: Sequence[Message]) -> None:
    """What comes over a link was checked by its map; what an application made is checked here."""
    for index, message in enumerate(messages):
        if message.headers:
            try:
                check_headers(message.headers)
            except ConversionFailure as error:
                raise MessageRefused(error.what, index=index, cause=error.cause, cure=error.cure) from None
