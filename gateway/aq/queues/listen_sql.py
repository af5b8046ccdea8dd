"""Which of many agents has a message (LISTEN), and which queues have none at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import Enabled, State

__all__ = ["Watched", "first_with_a_message", "queues_at_rest"]


class Watched(NamedTuple):
    """An agent to look for: its queue and consumer (0: the queue has no consumers)."""

    queue: int
    consumer: int
    exceptions: bool


_OF_CONSUMER = "EXISTS (SELECT 1 FROM aq_entry e WHERE e.consumer_id = w.consumer AND e.state = {})"
_OF_QUEUE = "EXISTS (SELECT 1 FROM aq_message m WHERE m.queue_id = w.queue AND m.state = {})"
_HAS = f"""
    CASE WHEN w.consumer > 0 THEN {_OF_CONSUMER.format(State.READY)}
         WHEN w.exceptions = 1 THEN {_OF_QUEUE.format(State.EXPIRED)}
         ELSE {_OF_QUEUE.format(State.READY)} END"""
_ENABLED = f"EXISTS (SELECT 1 FROM aq_queue q WHERE q.id = w.queue AND q.dequeue_enabled = {Enabled.STARTED})"

# The first that has a message; if none has, the first whose queue cannot be dequeued from any more.
_FIRST = f"""
    SELECT w.place, w.has AND w.enabled FROM (SELECT w.place, {_ENABLED} AS enabled, {_HAS} AS has FROM {{watched}}) w
     WHERE w.has OR NOT w.enabled ORDER BY CASE WHEN w.has AND w.enabled THEN 0 ELSE 1 END, w.place LIMIT 1"""
_SQLITE = _FIRST.replace(
    "{watched}",
    """(SELECT key AS place, json_extract(value, '$[0]') AS queue, json_extract(value, '$[1]') AS consumer,
               json_extract(value, '$[2]') AS exceptions FROM json_each(?)) w""",
)
_POSTGRESQL = _FIRST.replace(
    "{watched}",
    """(SELECT place - 1 AS place, queue, consumer, exceptions FROM
        unnest(?::bigint[], ?::bigint[], ?::int[]) WITH ORDINALITY AS t(queue, consumer, exceptions, place)) w""",
)


def first_with_a_message(db: Db, watched: Sequence[Watched]) -> tuple[int, bool] | None:
    """Place in the list of the first agent with a message, and True; or of one whose queue was stopped, and False.

    None: there is no message. Only what is committed counts, and nothing is locked.
    """
    if db.postgresql:
        queues, consumers, exceptions = zip(*watched, strict=True)
        row = db.row(_POSTGRESQL, (list(queues), list(consumers), [int(each) for each in exceptions]))
    else:
        row = db.row(_SQLITE, (json.dumps([(each.queue, each.consumer, int(each.exceptions)) for each in watched]),))
    if row is None:
        return None
    place, has_message = row
    return int(place), bool(has_message)


_AT_REST = f"""
    SELECT q.id FROM aq_queue q WHERE q.dequeue_enabled = {Enabled.STARTED}
       AND NOT EXISTS (SELECT 1 FROM aq_message m WHERE m.queue_id = q.id AND m.state = {State.READY})
       AND NOT EXISTS (SELECT 1 FROM aq_message m WHERE m.queue_id = q.id AND m.state = {State.EXPIRED})
       AND NOT EXISTS (SELECT 1 FROM aq_consumer c WHERE c.queue_id = q.id AND EXISTS
                       (SELECT 1 FROM aq_entry e
                         WHERE e.consumer_id = c.id AND e.state = {State.READY} AND e.queue_id = q.id))"""


def queues_at_rest(db: Db) -> frozenset[int]:
    """Queues of the hub that are enabled for dequeue and have nothing to take, for anybody."""
    return frozenset(int(number) for (number,) in db.rows(_AT_REST))
