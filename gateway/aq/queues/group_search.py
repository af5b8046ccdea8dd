"""Dequeue from queues with transaction groups: who takes one message of a group has the whole group (§1.6, §10.5)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from mgw.gateway.aq.errors import EndOfGroup
from mgw.gateway.aq.model import Navigation, QueueRef
from mgw.gateway.aq.queues import groups_sql, messages_sql
from mgw.gateway.aq.queues.groups_sql import Member
from mgw.gateway.aq.queues.messages_sql import Search, keys_of
from mgw.gateway.aq.queues.search import Found, Place, Request, at_the_end, browse
from mgw.gateway.aq.store.columns import GROUP
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State

__all__ = ["Hand", "beyond", "claim_groups", "find", "lock_groups"]

_LAST = 2**62  # above every message id
_MULTI = (Navigation.NEXT_MESSAGE_MULTI_GROUP, Navigation.FIRST_MESSAGE_MULTI_GROUP)


class Hand(NamedTuple):
    """What the session holds: its claim (SQLite), the messages it took, and the number of its transaction."""

    claim: int | None
    taken: Sequence[int]
    turn: int


def beyond(after: tuple[float, ...]) -> tuple[float, ...]:
    """The place after the whole group of a message."""
    return (*after[:3], _LAST)


def find(db: Db, request: Request, place: Place, hand: Hand) -> Found:
    """The next messages of the group, or of the next free groups, as the navigation says.

    Raises:
        EndOfGroup: NEXT_MESSAGE, and nothing of the group is left.
    """
    navigation, limit = request.options.navigation, request.limit
    rows: list[Row] = []
    held: list[int] = []
    if place.group is not None and navigation is not Navigation.NEXT_TRANSACTION:
        rows, held = _rest(db, request, place, hand)
        if not rows and navigation is Navigation.NEXT_MESSAGE:
            raise EndOfGroup(
                f"the transaction group is exhausted in queue {request.queue.full_name}",
                cause="all of its messages were returned",
                cure="continue with NEXT_TRANSACTION",
            )
        if rows and (navigation not in _MULTI or len(rows) == limit):
            return _found(request, place, rows, held, hand)
    start = place if place.after is None else place._replace(after=beyond(place.after))
    more = _groups(db, request, start, hand, limit - len(rows))
    rows += more.rows
    held += more.held
    if not rows:
        return Found([], at_the_end(request, place), [])
    return _found(request, place, rows, held, hand)


def _found(request: Request, place: Place, rows: list[Row], held: list[int], hand: Hand) -> Found:
    last = rows[-1]
    turn = -1 if request.browse else hand.turn
    return Found(rows, place._replace(after=keys_of(last, request.queue), group=last[GROUP], turn=turn), held)


def _rest(db: Db, request: Request, place: Place, hand: Hand) -> tuple[list[Row], list[int]]:
    """What follows in the group of the last message; after a commit the group must be locked again."""
    queue, consumer, limit = request.queue, request.consumer, request.limit
    if request.browse:
        return browse(db, _looked_at(request, place)._replace(group=place.group), limit), []
    if place.turn != hand.turn or hand.turn < 0:
        members = lock_groups(db, queue, consumer, limit=1, groups=1, only=place.group)
        last = place.after[-1] if place.after else 0
        numbers = [member.number for member in members]
        following = [number for number in numbers if number > last]
        return groups_sql.load(db, queue, consumer, following[:limit]), numbers
    rows = groups_sql.rest_of_group(
        db,
        queue,
        consumer,
        group=place.group or 0,
        after=int(place.after[-1]) if place.after else 0,
        claim=hand.claim,
        taken=hand.taken,
        limit=limit,
    )
    return rows, []


def _looked_at(request: Request, place: Place) -> Search:
    ready = (int(State.READY),)
    return Search(request.queue, request.consumer, ready, after=place.after, upto=place.upto, without=request.removed)


def _groups(db: Db, request: Request, place: Place, hand: Hand, limit: int) -> Found:
    """Messages of the next free groups: of one, or of as many as are needed."""
    queue, consumer = request.queue, request.consumer
    many = request.options.navigation in _MULTI
    if request.browse:
        rows = browse(db, _looked_at(request, place), limit)
        if rows and not many:
            group = rows[0][GROUP]
            rows = list(takewhile(lambda row: row[GROUP] == group, rows))
        return Found(rows, None, [])
    members = lock_groups(
        db, queue, consumer, limit=limit, groups=limit if many else 1, after=place.after, upto=place.upto
    )
    if hand.claim is not None:
        own = groups_sql.own_members(db, queue, consumer, hand.claim, hand.taken, after=place.after)
        members = sorted([*members, *own], key=lambda member: member.keys)
        if members and not many:
            members = [member for member in members if member.group == members[0].group]
    rows = groups_sql.load(db, queue, consumer, [member.number for member in members[:limit]])
    groups = {row[GROUP] for row in rows}
    return Found(rows, None, [member.number for member in members if member.group in groups])


def lock_groups(
    db: Db,
    queue: QueueRef,
    consumer: int,
    *,
    limit: int,
    groups: int,
    after: tuple[float, ...] | None = None,
    upto: int | None = None,
    only: int | None = None,
    alive: float | None = None,
) -> list[Member]:
    """The messages of the first free groups, whole groups, in order: until there are ``limit`` messages or ``groups``.

    A group is free when none of its messages is delayed or held. On PostgreSQL the messages returned are
    locked and no others; on SQLite the transaction keeps others out until the caller has marked them.

    Args:
        only: look at this group alone.
        alive: leave out what has expired at this time.
    """
    busy: set[int] = set()
    while True:
        with groups_sql.attempt(db) as attempt:
            heads = groups_sql.free_heads(
                db, queue, consumer, groups, after=after, upto=upto, only=only, without=sorted(busy), alive=alive
            )
            if not heads:
                return []
            chosen, broken = _whole(*groups_sql.members(db, queue, consumer, heads), limit)
            if not broken and (not db.postgresql or {member.group for member in chosen} == set(heads)):
                return chosen
            attempt.undo()
        if broken:  # somebody has a message of it, taken by its id or by a search
            busy |= broken
            continue
        wanted = list(dict.fromkeys(member.group for member in chosen))
        with groups_sql.attempt(db) as attempt:  # the locks of groups that are not needed are given back
            chosen, broken = _whole(*groups_sql.members(db, queue, consumer, wanted), limit)
            if chosen and not broken:
                return chosen
            attempt.undo()
            busy |= broken or set(heads)


def claim_groups(db: Db, queue: QueueRef, consumer: int, limit: int, now: float) -> list[Row]:
    """Take the first free groups for a plan, whole groups until there are ``limit`` messages: READY -> CLAIMED.

    What has expired is left to the time manager.
    """
    ids = [member.number for member in lock_groups(db, queue, consumer, limit=limit, groups=limit, alive=now)]
    rows = groups_sql.load(db, queue, consumer, ids)
    if ids:
        messages_sql.mark_claimed(db, consumer, ids, None)
    return rows


def _whole(members: Sequence[Member], broken: set[int], limit: int) -> tuple[list[Member], set[int]]:
    """Whole groups until there are ``limit`` messages, and the groups of which something is in other hands."""
    chosen: list[Member] = []
    for member in members:
        if member.group in broken:
            continue
        if len(chosen) >= limit and member.group != chosen[-1].group:
            break
        chosen.append(member)
    return chosen, broken
