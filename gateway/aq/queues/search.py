"""What a dequeue looks for, and the search itself: by message id, by correlation, by condition, or simply the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq.errors import MessageMissing
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, QueueRef, QueueType, SortList
from mgw.gateway.aq.queues import messages_sql
from mgw.gateway.aq.queues.condition_search import find_matching
from mgw.gateway.aq.queues.messages_sql import Search, keys_of
from mgw.gateway.aq.queues.search_bounds import heads_of
from mgw.gateway.aq.store.columns import GROUP, STORED
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State
from mgw.transforms.errors import AqError

__all__ = [
    "Found",
    "Place",
    "Request",
    "at_the_end",
    "browse",
    "find_next",
    "find_one",
    "head",
    "no_such_message",
    "upto",
]

_LAST_KEY = STORED.at("k3")


class Request(NamedTuple):
    """A dequeue, resolved."""

    queue: QueueRef
    consumer: int
    options: DequeueOptions
    number: int | None
    limit: int
    transformation: str | None = None  # of the subscriber
    removed: Sequence[int] = ()  # what a browser has removed itself although it still lies there (SQLite)
    reopened: float | None = None  # see Heads.after
    retention: float | None = None  # of the queue, in seconds
    last_id: int | None = None  # of the hub's messages when the call began
    at_once: bool = False  # what is found is removed by the statement that finds it (PostgreSQL)

    @property
    def browse(self) -> bool:
        """Whether it only looks."""
        return self.options.dequeue_mode is DequeueMode.BROWSE

    @property
    def takes(self) -> bool:
        """Whether what it finds is consumed, so that a second look does not find it again."""
        return self.options.dequeue_mode in (DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA)

    @property
    def exceptions(self) -> bool:
        """Whether it looks into an exception queue."""
        return self.queue.queue_type is QueueType.EXCEPTION

    @property
    def criteria(self) -> tuple[str | None, str | None]:
        """What may not change between two calls without FIRST_MESSAGE."""
        return (self.options.correlation, self.options.deq_condition)


class Place(NamedTuple):
    """Where NEXT_MESSAGE continues: after these sort keys, among the messages of a snapshot (those up to an id or,
    in commit-time queues, up to the number of a commit).

    Attributes:
        consumer: whose position it is.
        criteria: what was searched for.
        after: sort keys of the last message, None at the head.
        upto: highest message id, or number of a commit, of the snapshot.
        group: transaction group of the last message.
        turn: in which of the session's transactions the group was locked.
        ended: the end of the snapshot was reported, and nobody took what is before it.
    """

    consumer: int
    criteria: tuple[str | None, str | None]
    after: tuple[float, ...] | None
    upto: int
    group: int | None = None
    turn: int = -1
    ended: bool = False

    def used_up(self, queue: QueueRef) -> bool:
        """Whether nothing of the snapshot can be after the place: in the order of arrival the last key is the id.

        What goes ahead of a message that came later came later itself.
        """
        if self.after is None or queue.grouped or queue.sort_list is not SortList.ENQ_TIME:
            return False
        return self.after[-1] >= self.upto


class Found(NamedTuple):
    """Rows to hand out, the place to continue from, and the messages to keep from others in addition to the rows."""

    rows: list[Row]
    place: Place | None
    held: list[int]


def head(db: Db, request: Request) -> Place:
    """The head of the queue, and a snapshot of what is there now.

    In a commit-time queue a message may have a lower id than one that was committed before it: only the number of the
    commit tells which messages are there now.
    """
    if request.queue.by_commit:
        last = db.last_commit_number()
    else:
        last = db.last_message_id() if request.last_id is None else request.last_id
    return Place(request.consumer, request.criteria, None, last)


def at_the_end(request: Request, place: Place) -> Place | None:
    """The place after a call that found nothing: who only looks must begin again himself."""
    return place._replace(ended=True) if place.after is not None and not request.takes else None


def upto(request: Request, found: Found, count: int) -> Found:
    """The first rows of what was found, and the place behind them."""
    rows, place = found.rows[:count], found.place
    if place is not None and request.number is None:
        group = rows[-1][GROUP] if place.group is not None else None
        place = place._replace(after=keys_of(rows[-1], request.queue), group=group)
    return Found(rows, place, found.held)


def find_one(db: Db, request: Request, number: int, claim: int | None) -> list[Row]:
    """The one message with this number, locked unless it is only browsed.

    Raises:
        MessageMissing: it is not there, or in other hands.
    """
    states: tuple[int, ...] = (int(State.EXPIRED),) if request.exceptions else (int(State.READY), int(State.WAITING))
    if request.consumer:
        states = (*states, int(State.UNDELIVERABLE))  # blocked by too many failures, but not from its id
    if request.browse:
        states = (*states, int(State.PROCESSED), int(State.CLAIMED))
    what = Search(request.queue, request.consumer, states, number=number, claim=None if request.browse else claim)
    rows = messages_sql.search(db, what, 1, lock=not request.browse)
    if not rows:
        raise no_such_message(request.queue, request.options.msgid)
    return rows


def find_next(
    db: Db, request: Request, place: Place, claim: int | None = None, locked: Sequence[int] = ()
) -> list[Row]:
    """Up to ``limit`` messages that match, after a place, locked unless they are only browsed.

    ``locked``: messages that were READY and are locked under this session's ``claim``; for the session they still are.
    """
    rows = _find(db, request, place)
    if locked and not request.browse:
        rows += _find(db, request, place, claim, locked)
        rows.sort(key=lambda row: keys_of(row, request.queue))
    return rows[: request.limit]


def _find(db: Db, request: Request, place: Place, claim: int | None = None, numbers: Sequence[int] = ()) -> list[Row]:
    state = State.EXPIRED if request.exceptions else State.READY
    after = place.after
    heads = None if numbers or request.browse else heads_of(db, request.queue)
    if heads is not None:
        head = heads.after(request.queue, request.reopened)
        after = head if after is None else after if head is None else max(head, after)
    what = Search(
        request.queue,
        request.consumer,
        (int(State.CLAIMED if numbers else state),),
        held_by=claim,
        correlation=request.options.correlation,
        after=after,
        upto=place.upto,
        numbers=tuple(numbers),
        without=request.removed,
        remove=request.at_once,
    )
    if request.options.deq_condition is not None:
        return find_matching(
            db, what, request.options.deq_condition, request.limit, browse=browse if request.browse else None
        )
    if not request.browse:
        rows = messages_sql.search(db, what, request.limit, lock=True)
        if heads is not None:
            heads.found(db.connection.engine, request.queue, rows[0][_LAST_KEY] if rows else None)
        return rows
    return browse(db, what, request.limit)


def browse(db: Db, what: Search, limit: int) -> list[Row]:
    """A browser also sees what sessions hold (AQ guide 12.2 §11.3), but for what it has removed itself."""
    rows = messages_sql.search(db, what, limit, lock=False)
    if not db.postgresql:
        rows += messages_sql.search(db, what._replace(states=(int(State.CLAIMED),), claimed=True), limit, lock=False)
        rows.sort(key=lambda row: keys_of(row, what.queue))
    return rows[:limit]


def no_such_message(queue: QueueRef, identity: object) -> AqError:
    """The refusal of a message id."""
    shown = identity.hex().upper() if isinstance(identity, bytes) else repr(identity)
    return MessageMissing(
        f"message {shown:.64} is not in queue {queue.full_name}",
        cause="it was dequeued, is held by another session, or never was in this queue",
        cure="browse the queue for the messages that are there",
    )
