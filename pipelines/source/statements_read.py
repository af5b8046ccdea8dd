"""What is read of a queue, as SQL with everything in it: drivers that return Arrow stream only what has no parameters.

Literals of text go into a statement as hexadecimal digits, so that nothing a user wrote is ever read as SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mgw.gateway.aq import Db, QualifiedName, QueueRef, QueueType, State
from mgw.gateway.aq import queue_consumers as consumers_sql
from mgw.pipelines.source.columns import READ
from mgw.pipelines.source.options import What

__all__ = [
    "BY_INDEX",
    "Selection",
    "binary",
    "bounds",
    "exception_queue_ids",
    "histogram",
    "probing",
    "queue_names",
    "real",
    "selection",
    "text",
]

_STATES = {What.READY: (State.READY,), What.HISTORY: (State.PROCESSED,), What.EXCEPTIONS: (State.EXPIRED,)}
_BUCKETS = 65_536
_STRETCHES, _PROBE = 1_024, 64  # where there are many ids: how many stretches, and ids of each that are looked at
_ENOUGH = 1_000  # messages found in that way that say where all are

#: A value of each type of the database, for the row that tells SQLite's driver what is in a column.
_TYPED = {
    **dict.fromkeys(("id", "queue_id", "state", "priority", "attempts", "original_queue_id", "seq"), "0"),
    **dict.fromkeys(("sender_protocol", "group_id", "body_type"), "0"),
    **dict.fromkeys(("enq_time", "deq_time", "ready_at", "expires_at", "expiration"), "0.5"),
    **dict.fromkeys(("original_msgid", "body"), "x'00'"),
}


#: Before a PostgreSQL connection reads what a stream has planned: the plan is so new that nothing is known of its size,
#: and a whole table read for each of its rows would look cheap.
BY_INDEX = """
    SELECT set_config(name, 'off', false)
      FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) name"""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of the hub to read, as SQL without the columns and without the range.

    Attributes:
        postgresql: whether it is written for PostgreSQL; else for SQLite.
        source: what follows FROM.
        where: conditions that all hold.
        key: the number that ranges are made of; unique in the selection.
        a: ``m`` or ``e``, whichever has the state.
        extra: what is read in addition to :data:`mgw.pipelines.source.columns.READ`, by name.
        planned: a stream's: ``source`` says itself what ``{lower} < key <= {upper}`` is, in the order of the keys,
            which are numbers without gaps.
    """

    postgresql: bool
    source: str
    where: tuple[str, ...]
    key: str = "m.id"
    a: str = "m"
    extra: tuple[tuple[str, str], ...] = ()
    planned: bool = False

    @property
    def table(self) -> str:
        """The table that has the state, as FROM wants it."""
        return f"{'aq_entry' if self.a == 'e' else 'aq_message'} {self.a}"

    def having(self, conditions: Iterable[str]) -> Selection:
        """The same with more conditions."""
        return replace(self, where=(*self.where, *conditions))

    def rows(self, reads: Sequence[str], lower: int, upper: int) -> str:
        """The statement that reads the rows with ``lower < key <= upper``.

        On SQLite a row of invented values goes before: its driver takes the types of columns from the first rows.
        """
        known = {**READ, **dict(self.extra)}
        columns = ", ".join(f"{known[name].format(a=self.a)} AS {name}" for name in reads)
        chosen = f"SELECT {columns} {self._found(lower, upper)}"
        if self.postgresql:
            return chosen
        types = ", ".join(f"{_TYPED.get(name, repr('x'))} AS {name}" for name in reads)
        return f"SELECT {types} UNION ALL {chosen}"

    def window(self, lower: int, upper: int, limit: int) -> str:
        """The statement that says how far the first ``limit`` rows reach, how many there are, and the longest body."""
        if self.planned:
            last = min(upper, lower + limit)
            return f"SELECT {last:d}, count(*), max(length(m.body)) {self._found(lower, last)}"
        return (
            f"SELECT max(number), count(*), max(size) FROM (SELECT {self.key} AS number, length(m.body) AS size "
            f"{self._found(lower, upper)} ORDER BY {self.key} LIMIT {limit:d})"
        )

    def _found(self, lower: int, upper: int) -> str:
        """FROM and WHERE of the rows with ``lower < key <= upper``."""
        if self.planned:
            source, conditions = self.source.format(lower=f"{lower:d}", upper=f"{upper:d}"), self.where
        else:
            source, conditions = self.source, (*self.where, f"{self.key} > {lower:d}", f"{self.key} <= {upper:d}")
        return f"FROM {source}{' WHERE ' if conditions else ''}{' AND '.join(conditions)}"


def selection(db: Db, queue: QueueRef, consumer: str | None, what: What, exceptions: Sequence[int] = ()) -> Selection:
    """What a batch reads.

    Args:
        consumer: its entries carry the states; None: the message rows.
        exceptions: queues that hold the queue's exceptions, if it is not an exception queue itself.

    Raises:
        AqError: 25256 consumer not allowed, 24035 unknown.
    """
    states = _STATES.get(what, ())
    if what is What.EXCEPTIONS and queue.queue_type is QueueType.NORMAL:
        where = [f"m.queue_id IN ({', '.join(map(str, exceptions)) or 'NULL'})", f"m.original_queue_id = {queue.id}"]
        return Selection(db.postgresql, _messages(db), (*where, f"m.state = {State.EXPIRED:d}"))
    if consumer is not None:
        number = consumers_sql.require_consumer(db, queue, consumer)
        where = [f"e.consumer_id = {number}", *(f"e.state = {state:d}" for state in states)]
        return Selection(db.postgresql, _entries(db), tuple(where), "e.message_id", "e")
    if what is What.READY and queue.multiple_consumers:
        states = (State.SPLIT,)
    where = [f"m.queue_id = {queue.id}", *(f"m.state = {state:d}" for state in states)]
    return Selection(db.postgresql, _messages(db), tuple(where))


def _messages(db: Db) -> str:
    return "aq_message m" if db.postgresql else "aq_message m NOT INDEXED"  # by id: else it would sort every window


def _entries(db: Db) -> str:
    join = "JOIN" if db.postgresql else "CROSS JOIN"  # in this order
    return f"aq_entry e {join} aq_message m ON m.id = e.message_id"


def bounds(db: Db) -> tuple[int, int]:
    """The lowest message id in the hub and the highest that was handed out."""
    first, last = db.scalar("SELECT min(id) FROM aq_message"), db.last_message_id()
    return (last if first is None else first), last


def histogram(db: Db, chosen: Selection, lower: int, upper: int) -> list[tuple[int, int]]:
    """Where messages are between two ids: (lowest id of a stretch, messages in it), in order.

    Where there are many ids, only some of every stretch are looked at: counting all would take as long as reading them.
    """
    if upper - lower >= _STRETCHES * _PROBE:
        found = [(start, count) for start, count in db.rows(probing(db, chosen, lower, upper)) if count]
        if sum(count for _, count in found) >= _ENOUGH:
            return found
    return _counted(db, chosen, lower, upper)


def probing(db: Db, chosen: Selection, lower: int, upper: int) -> str:
    """The statement that counts messages among the first ids of every stretch."""
    width = -(-(upper - lower + 1) // _STRETCHES)
    last = lower + (_STRETCHES - 1) * width
    where = " AND ".join(each.replace(" ", " + 0 ", 1) for each in chosen.where)  # by id, whatever index would serve
    number = f"SELECT count(*) FROM {chosen.table} WHERE {chosen.key} >= n AND {chosen.key} < n + {_PROBE} AND {where}"
    stretches = (
        f"generate_series({lower}, {last}, {width}) s(n)"
        if db.postgresql
        else f"(WITH RECURSIVE t(n) AS (SELECT {lower} UNION ALL SELECT n + {width} FROM t WHERE n < {last}) "
        "SELECT n FROM t) s"
    )
    return f"SELECT n, ({number}) FROM {stretches} ORDER BY n"


def _counted(db: Db, chosen: Selection, lower: int, upper: int) -> list[tuple[int, int]]:
    """The same, every message counted."""
    width = max(1, -(-(upper - lower + 1) // _BUCKETS))
    template = (
        f"SELECT ({chosen.key} - {lower}) / {width} AS bucket, count(*) FROM {chosen.table} WHERE {{where}} "
        f"AND {chosen.key} >= {lower} AND {chosen.key} <= {upper} GROUP BY 1"
    )
    where = " AND ".join(chosen.where)
    found: dict[int, int] = {}
    if db.postgresql:
        db.rows("SELECT set_config(name, 'on', true) FROM unnest(ARRAY['enable_seqscan', 'enable_sort']) name")
        found = dict(db.rows(template.format(where=where)))
    else:
        states = [f" AND {chosen.a}.state = {state:d}" for state in State]  # each has an index
        for each in [where + state for state in states] if chosen.a == "m" else [where]:
            for bucket, count in db.rows(template.format(where=each)):
                found[bucket] = found.get(bucket, 0) + count
    return [(lower + bucket * width, count) for bucket, count in sorted(found.items())]


def queue_names(db: Db) -> dict[int, str]:
    """The name of every queue as the hub shows it, by id."""
    rows = db.rows("SELECT id, schema, name FROM aq_queue")
    return {number: QualifiedName(schema, name).shown for number, schema, name in rows}


def exception_queue_ids(db: Db) -> list[int]:
    """Ids of the hub's exception queues."""
    rows = db.rows("SELECT id FROM aq_queue WHERE queue_type = ?", (QueueType.EXCEPTION.value,))
    return [number for (number,) in rows]


# -- literals --------------------------------------------------------------------------------------------------------


def text(value: str, *, postgresql: bool) -> str:
    """A text; it holds no NUL character."""
    digits = value.encode().hex()
    return f"convert_from(decode('{digits}', 'hex'), 'UTF8')" if postgresql else f"CAST(x'{digits}' AS TEXT)"


def binary(value: bytes, *, postgresql: bool) -> str:
    """Bytes."""
    return f"decode('{value.hex()}', 'hex')" if postgresql else f"x'{value.hex()}'"


def real(value: float, *, postgresql: bool) -> str:
    """A finite floating point number, exactly."""
    return f"'{value!r}'::float8" if postgresql else repr(float(value))
