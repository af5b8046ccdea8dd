"""The column map: the places of values in the rows of messages, entries and statements with many columns.

A list of columns is written once, as :class:`Columns`. The SELECT or INSERT is put together from it, and so is every
place where a value of such a row is read or replaced. A new column is a new line here.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from operator import itemgetter
from typing import Any

__all__ = [
    "ATTEMPTS",
    "ENQ_TIME",
    "GROUP",
    "GROUPED",
    "ID",
    "NEW_ENTRY",
    "NEW_MESSAGE",
    "NEW_TYPED_MESSAGE",
    "STATE",
    "STORED",
    "Columns",
]


_namedtuple: Any = namedtuple  # of names that a type checker cannot know


class Columns:
    """Columns of one kind of row, in their order.

    Each has a name and a text that belongs to it: what a SELECT writes for it, or its type where rows are inserted.

    Attributes:
        names: the names, in order.
        texts: the texts, in order.
        sql: the texts as the list of a SELECT.
        whole: the slice of these columns in a row that goes on with others.
        rest: the slice of those others.
    """

    __slots__ = ("_make", "_places", "names", "rest", "sql", "texts", "whole")

    def __init__(self, **columns: str) -> None:
        self.names = tuple(columns)
        self.texts = tuple(columns.values())
        self.sql = ", ".join(self.texts)
        self.whole, self.rest = slice(len(columns)), slice(len(columns), None)
        self._places = {name: place for place, name in enumerate(columns)}
        self._make = _namedtuple("Values", self.names)._make

    def __len__(self) -> int:
        return len(self.names)

    def extended(self, **columns: str) -> Columns:
        """These columns, and more behind them."""
        return Columns(**dict(zip(self.names, self.texts, strict=True)), **columns)

    def altered(self, **columns: str) -> Columns:
        """The same columns with other texts for some. Raises KeyError for a column that is not among them."""
        for name in columns:
            self.at(name)
        return Columns(**{**dict(zip(self.names, self.texts, strict=True)), **columns})

    def of(self, alias: str) -> str:
        """:attr:`sql` with an alias for ``{a}`` in it."""
        return self.sql.replace("{a}", alias)

    def at(self, name: str) -> int:
        """The place of a column in a row. Raises KeyError for a column that is not among them."""
        return self._places[name]

    def getter(self, *names: str) -> Callable[[Any], Any]:
        """A function from a row to the values of these columns: a tuple, or the one value."""
        return itemgetter(*map(self.at, names))

    def between(self, *names: str) -> slice:
        """The slice of columns that stand next to each other in this order; ValueError where they do not."""
        first = self.at(names[0])
        if self.names[first : first + len(names)] != names:
            raise ValueError(f"columns {', '.join(names)} are not adjacent in {', '.join(self.names)}")
        return slice(first, first + len(names))

    def around(self, *names: str) -> tuple[slice, slice]:
        """The slices before and behind columns as in :meth:`between`: what stays of a row where these are replaced."""
        replaced = self.between(*names)
        return slice(replaced.start), slice(replaced.stop, None)

    def named(self, row: Any) -> Any:
        """A row of exactly these columns, its values as attributes; TypeError for a row of another length."""
        return self._make(row)


#: What a new row of ``aq_message`` holds, with PostgreSQL's types; :func:`mgw.gateway.aq.queues.codec.encode` makes it.
NEW_MESSAGE = Columns(
    id="int8",
    queue_id="int8",
    state="int2",
    k1="float8",
    k2="float8",
    k3="float8",
    priority="int8",
    ready_at="float8",
    expires_at="float8",
    expiration="float8",
    correlation="text",
    enq_time="float8",
    enq_user="text",
    enq_txn="text",
    attempts="int4",
    exception_queue="text",
    sender_name="text",
    sender_address="text",
    sender_protocol="int4",
    original_msgid="bytea",
    user_property="text",
    kind="text",
    headers="text",
    body_type="int2",
    body="bytea",
)

#: The same for queues of objects and ANYDATA: their rows are longer.
NEW_TYPED_MESSAGE = NEW_MESSAGE.extended(type_id="int8", type_name="text")

#: What a new row of ``aq_entry`` holds, with PostgreSQL's types.
NEW_ENTRY = Columns(
    message_id="int8",
    consumer_id="int8",
    queue_id="int8",
    state="int2",
    k1="float8",
    k2="float8",
    k3="float8",
    ready_at="float8",
    expires_at="float8",
    attempts="int4",
)

#: What is read of a stored message ``m``; ``{a}`` is ``m`` or ``e``, whichever has the state.
STORED = Columns(
    id="m.id",
    body="m.body",
    headers="m.headers",
    kind="m.kind",
    priority="m.priority",
    correlation="m.correlation",
    expiration="m.expiration",
    expires_at="m.expires_at",
    enq_time="m.enq_time",
    attempts="{a}.attempts",
    exception_queue="m.exception_queue",
    sender_name="m.sender_name",
    sender_address="m.sender_address",
    original_msgid="m.original_msgid",
    body_type="m.body_type",
    state="{a}.state",
    k1="{a}.k1",
    k2="{a}.k2",
    k3="{a}.k3",
    type_id="m.type_id",
    user_property="m.user_property",
    sender_protocol="m.sender_protocol",
)

#: The same in a queue with transaction groups.
GROUPED = STORED.extended(group_id="{a}.group_id")

#: Places of single values in rows of :data:`STORED` and :data:`GROUPED`.
ID, STATE, ATTEMPTS, ENQ_TIME = (STORED.at(name) for name in ("id", "state", "attempts", "enq_time"))
GROUP = GROUPED.at("group_id")
