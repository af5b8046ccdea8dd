"""How many messages are in each queue and state, and when they came: kept in ``aq_total``, so that nobody counts rows.

A row says how many messages (``consumer_id`` 0), or entries that a consumer can take, came into a state or left it: the
sum of the rows of a queue and state is the number there. READY includes CLAIMED, so that a claim changes nothing;
PROCESSED is not counted. ``enqueued`` and ``ready`` add up the times of the messages, in hundredths of a second since
:data:`ORIGIN`: integers, because sums of floats drift.

On PostgreSQL triggers add a row per statement, so writers do not wait for each other; now and then one of them merges
the rows that there are. On SQLite, which has one writer and triggers per row only, there is one row per queue and
state, and :func:`came` and :func:`leave` change it per batch; triggers do it for the changes that are rare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq.store.columns import NEW_ENTRY, NEW_MESSAGE
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import State

__all__ = ["COLUMNS", "ORIGIN", "UPSERT", "came", "counted_as", "delete_messages", "hundredths", "leave"]

ORIGIN = 1767225600.0  # 2026-01-01
_LATEST = 4e9  # a delay may end in any year: what is later counts as 2096, so that no sum overflows

COLUMNS = "queue_id, consumer_id, state, messages, enqueued, ready"
#: End of an INSERT (SQLite).
UPSERT = """ON CONFLICT (queue_id, consumer_id, state) DO UPDATE SET messages = messages + excluded.messages,
        enqueued = enqueued + excluded.enqueued, ready = ready + excluded.ready"""

_OF_MESSAGE = NEW_MESSAGE.getter("queue_id", "state", "enq_time", "ready_at")
_OF_ENTRY = NEW_ENTRY.getter("queue_id", "consumer_id", "state")
_ADD = f"INSERT INTO aq_total ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) {UPSERT}"


def hundredths(time: str, *, postgresql: bool) -> str:
    """A time as it is added up, in SQL; the same as :func:`_hundredths`."""
    if postgresql:
        return f"CAST(trunc((least({time}, {_LATEST!r}) - {ORIGIN!r}) * 100) AS bigint)"
    return f"CAST((min({time}, {_LATEST!r}) - {ORIGIN!r}) * 100 AS INTEGER)"


def _hundredths(time: float) -> int:
    return int((min(time, _LATEST) - ORIGIN) * 100)


def counted_as(state: str) -> str:
    """The state under which a message is counted, in SQL."""
    return f"CASE {state} WHEN {State.CLAIMED} THEN {State.READY} ELSE {state} END"


def came(db: Db, messages: Sequence[Row], entries: Sequence[Row]) -> None:
    """Count new messages and entries (on PostgreSQL triggers do)."""
    if db.postgresql:
        return
    totals: dict[tuple[int, int, int], list[int]] = {}
    for (queue_id, state, enq_time, ready_at), number in Counter(map(_OF_MESSAGE, messages)).items():
        total = totals.setdefault((queue_id, 0, state), [0, 0, 0])
        total[0] += number
        total[1] += number * _hundredths(enq_time)
        total[2] += number * _hundredths(ready_at)
    for (queue_id, consumer_id, state), number in Counter(map(_OF_ENTRY, entries)).items():
        if state == State.READY:
            totals[queue_id, consumer_id, state] = [number, 0, 0]
    for key, total in totals.items():
        db.run(_ADD, (*key, *total))


def delete_messages(db: Db, where: str, params: Sequence[Any], *, claimed: bool = False) -> int:
    """Delete the messages for which a condition is true, and count them; returns how many.

    ``claimed``: the condition is true for CLAIMED messages of one queue only.
    """
    leave(db, where, params, claimed=claimed)
    return db.run(f"DELETE FROM aq_message WHERE {where}", params)


def leave(db: Db, where: str, params: Sequence[Any], *, claimed: bool = False) -> None:
    """Count what :func:`delete_messages` would delete, and the caller is going to (on PostgreSQL a trigger does)."""
    if not db.postgresql:
        db.run((_LEAVE_CLAIMED if claimed else _LEAVE).replace("WHERE", f"WHERE {where}", 1), params)


def _leave(state: str, others: str, end: str) -> str:
    sums = ", ".join(f"-sum({hundredths(each, postgresql=False)})" for each in ("enq_time", "ready_at"))
    return f"""INSERT INTO aq_total ({COLUMNS}) SELECT queue_id, 0, {state}, -count(*), {sums}
                 FROM aq_message WHERE {others} GROUP BY {end} {UPSERT}"""


_LEAVE = _leave(counted_as("state"), f" AND state <> {State.PROCESSED}", "1, 3")
_LEAVE_CLAIMED = _leave(f"{State.READY:d}", "", "queue_id")
