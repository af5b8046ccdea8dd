"""The hub's SQL views (AQ guide 12.2 §9): real views, so that ``sqlite3`` and ``psql`` read them without the hub.

Fixed views are made with the hub, those of a queue table or queue with it. Names of objects are in upper case, as
documented; moments are timestamps on PostgreSQL and ISO text in UTC on SQLite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.model import QueueInfo, QueueTableInfo
from mgw.gateway.aq.names import QualifiedName
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.views import activity, background, catalogue, messages, security, subscribers
from mgw.gateway.aq.views.dialect import SQLITE, Dialect, Maker, View, dialect_of, quoted, run

__all__ = [
    "COLUMNS",
    "VIEWS_OF_THE_USER",
    "create_queue_views",
    "create_table_views",
    "create_views",
    "drop_queue_views",
    "drop_table_views",
    "drop_views",
    "make_object_views",
    "view_name",
]

_MAX_POSTGRESQL_NAME = 63  # bytes; PostgreSQL would cut a longer one off
_FIXED: Mapping[str, Maker] = {**catalogue.VIEWS, **security.VIEWS, **activity.VIEWS, **background.VIEWS}
_RESERVED = {name.removeprefix("AQ$") for name in _FIXED if name.startswith("AQ$")}
_MESSAGES = "MESSAGES"
_FORMER: tuple[str, ...] = ()  # views that an earlier release had and this one does not
_SUBSCRIBER_VIEWS = {"_S": subscribers.subscriber_view, "_R": subscribers.rule_view}

#: Columns of every view, in order; those of queue tables and queues under ``AQ$<queue table>`` and so on.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "AQ$<queue table>": messages.COLUMNS,
    "AQ$<queue table>_S": subscribers.COLUMNS,
    "AQ$<queue table>_R": subscribers.RULE_COLUMNS,
    "AQ$<queue>_S": subscribers.COLUMNS,
    "AQ$<queue>_R": subscribers.RULE_COLUMNS,
    **{name: tuple(view(SQLITE)[0]) for name, view in _FIXED.items()},
}

#: The views that show each user what is the user's.
VIEWS_OF_THE_USER = tuple(name for name in _FIXED if name.startswith(("ALL_", "USER_", "QUEUE_PRIVILEGES")))


def create_views(conn: sa.Connection) -> None:
    """Make the fixed views in the transaction of ``conn``; the tables must be there."""
    dialect = dialect_of(conn)
    # Names are not quoted: PostgreSQL folds them, so that they can be written in either case without quotes.
    run(conn, *(_statement(_with_barrier(name, dialect), view(dialect), str) for name, view in _FIXED.items()))


def drop_views(conn: sa.Connection) -> None:
    """Drop the fixed views and those of all objects; :func:`make_object_views` knows which those were."""
    names = [quoted(name) for (name,) in Db(conn).rows("SELECT name FROM aq_view")]
    run(conn, *(f"DROP VIEW IF EXISTS {name}" for name in [*names, *reversed(list(_FIXED)), *_FORMER]))


def make_object_views(conn: sa.Connection, queue_tables: Iterable[QueueTableInfo]) -> None:
    """Make the views of all queue tables and queues again, under the names that they had."""
    db = Db(conn)
    dialect = dialect_of(conn)
    tables = {table.id: table for table in queue_tables}
    for name, kind, table_id, queue_id in db.rows("SELECT name, kind, queue_table_id, queue_id FROM aq_view"):
        if kind == _MESSAGES:
            view = messages.message_view(dialect, tables[table_id])
        else:
            view = _SUBSCRIBER_VIEWS[kind](_Holder(kind, table_id, queue_id).where)
        run(conn, _statement(quoted(name), view, quoted))


def _with_barrier(name: str, dialect: Dialect) -> str:
    """Where users see different rows, a function of the reader's must not be shown any before they are left out."""
    return f"{name} WITH (security_barrier)" if dialect.postgresql and name in VIEWS_OF_THE_USER else name


def _statement(name: str, view: View, as_name: Callable[[str], str]) -> str:
    columns, source = view
    selected = ",\n       ".join(f"{expression} AS {as_name(column)}" for column, expression in columns.items())
    return f"CREATE VIEW {name} AS\nSELECT {selected}\n  FROM {source}"


# -- views of one object ---------------------------------------------------------------------------------------------


def view_name(table: QueueTableInfo, *, postgresql: bool) -> str:
    """``AQ$NAME`` (``AQ$SCHEMA.NAME`` outside the default schema), in upper case.

    PostgreSQL cuts names at 63 bytes; a longer one becomes ``AQ$#<id of the queue table>`` there. So does a name that
    a view of the hub has.
    """
    name = f"AQ${QualifiedName(table.schema, table.name).label.upper()}"
    if (postgresql and len(name.encode()) > _MAX_POSTGRESQL_NAME) or name.removeprefix("AQ$") in _RESERVED:
        return f"AQ$#{table.id}"
    return name


def create_table_views(conn: sa.Connection, table: QueueTableInfo) -> None:
    """Make the views of a queue table: ``AQ$<queue table>``, and ``_S`` and ``_R`` where it has subscribers."""
    dialect = dialect_of(conn)
    name, other = view_name(table, postgresql=dialect.postgresql), f"AQ$#{table.id}"
    holder = _holder(Db(conn), name)
    if holder is not None and holder.kind in _SUBSCRIBER_VIEWS:
        _make_room(conn, name, holder)  # messages go before subscribers
    elif holder is not None:  # a name with a dot in it looks like one of another schema
        name = other
    _create(conn, name, messages.message_view(dialect, table), _Holder(_MESSAGES, table.id, None))
    if table.multiple_consumers:
        _create_subscriber_views(conn, name, _Holder("", table.id, None))


def drop_table_views(conn: sa.Connection, table: QueueTableInfo) -> None:
    """Drop the views of a queue table."""
    _drop(conn, "queue_table_id", table.id)


def create_queue_views(conn: sa.Connection, queue: QueueInfo) -> None:
    """Make ``AQ$<queue>_S`` and ``_R`` of a multi-consumer queue; nothing for others.

    Where another view has that name, or it is too long for PostgreSQL, they are ``AQ$#Q<id of the queue>_S`` and
    ``_R``. The queue of the same name as its queue table has none of its own: the table's show it.
    """
    if not queue.multiple_consumers or queue.queue_type != "NORMAL_QUEUE":
        return
    if queue.full_name.upper() == queue.queue_table.upper():
        return
    name = f"AQ${QualifiedName(queue.schema, queue.name).label.upper()}"
    _create_subscriber_views(conn, name, _Holder("", None, queue.id))


def drop_queue_views(conn: sa.Connection, queue_id: int) -> None:
    """Drop the views of a queue, if it has any."""
    _drop(conn, "queue_id", queue_id)


class _Holder(NamedTuple):
    """What a view shows, of which object."""

    kind: str
    table_id: int | None
    queue_id: int | None

    @property
    def where(self) -> str:
        """The subscribers of the object."""
        return f"c.queue_id = {self.queue_id}" if self.table_id is None else f"q.queue_table_id = {self.table_id}"

    @property
    def other_name(self) -> str:
        """What its subscriber views are called when their name is taken."""
        return f"AQ$#Q{self.queue_id}" if self.table_id is None else f"AQ$#{self.table_id}"


def _create_subscriber_views(conn: sa.Connection, base: str, holder: _Holder) -> None:
    db = Db(conn)
    for kind, view in _SUBSCRIBER_VIEWS.items():
        name = base + kind
        too_long = db.postgresql and len(name.encode()) > _MAX_POSTGRESQL_NAME
        if too_long or name.removeprefix("AQ$") in _RESERVED or _holder(db, name) is not None:
            name = holder.other_name + kind
        _create(conn, name, view(holder.where), holder._replace(kind=kind))


def _create(conn: sa.Connection, name: str, view: View, holder: _Holder) -> None:
    run(conn, _statement(quoted(name), view, quoted))
    Db(conn).run("INSERT INTO aq_view (name, kind, queue_table_id, queue_id) VALUES (?, ?, ?, ?)", (name, *holder))


def _drop(conn: sa.Connection, column: str, number: int) -> None:
    db = Db(conn)
    for (name,) in db.rows(f"SELECT name FROM aq_view WHERE {column} = ?", (number,)):
        run(conn, f"DROP VIEW IF EXISTS {quoted(name)}")
    db.run(f"DELETE FROM aq_view WHERE {column} = ?", (number,))


def _holder(db: Db, name: str) -> _Holder | None:
    row = db.row("SELECT kind, queue_table_id, queue_id FROM aq_view WHERE name = ?", (name,))
    return None if row is None else _Holder(*row)


def _make_room(conn: sa.Connection, name: str, holder: _Holder) -> None:
    """Give a subscriber view its other name."""
    run(conn, f"DROP VIEW {quoted(name)}")
    Db(conn).run("DELETE FROM aq_view WHERE name = ?", (name,))
    _create(conn, holder.other_name + holder.kind, _SUBSCRIBER_VIEWS[holder.kind](holder.where), holder)
