"""Changes of rows as logical change records: enqueue one, apply those that came.

``python apply.py table``, ``python apply.py change INSERT 1 open``, ``python apply.py apply``
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from mgw import DequeueOptions, Hub, Message, NoMessage
from mgw.gateway.aq import unwrap, wrap
from mgw.transforms.lcr import ROW

HUB = os.environ.get("MGW_HUB", "sqlite:///shop.db")
TABLES = sa.MetaData()
ORDERS = sa.Table("order_copy", TABLES, sa.Column("id", sa.Integer, primary_key=True), sa.Column("state", sa.Text))
#: Which table a record is about; what is not here is not ours to change.
COPIES = {("SHOP", "ORDERS"): ORDERS}


class Conflict(Exception):
    """The row is not as the record says it was."""


def database() -> sa.Engine:
    """The database of the copy, which is the hub's; a hub on SQLite needs WAL."""
    url = sa.make_url(HUB).difference_update_query(["schema"])
    if url.get_backend_name() == "postgresql":
        return sa.create_engine(url.set(drivername="postgresql+psycopg"))
    engine = sa.create_engine(url, connect_args={"timeout": 30})
    sa.event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA journal_mode=WAL"))
    return engine


def change(hub: Hub, command: str, number: int, state: str) -> None:
    """Enqueue the record of a change."""
    old = [{"column_name": "ID", "data": wrap(number)}]
    new = [{"column_name": "STATE", "data": wrap(state)}]
    record: dict[str, Any] = {
        "source_database_name": "SHOP",
        "command_type": command,
        "object_owner": "SHOP",
        "object_name": "ORDERS",
        "old_values": None if command == "INSERT" else old,
        "new_values": old + new if command == "INSERT" else new if command == "UPDATE" else None,
    }
    with hub.session() as session:
        session.enqueue("CHANGES", Message(wrap(record, ROW)))
        session.commit()


def values(table: sa.Table, units: Any) -> dict[str, Any]:
    """Values by column of the table."""
    return {table.c[unit["column_name"].lower()].name: unit["data"].value for unit in units or ()}


def make(connection: sa.Connection, record: Mapping[str, Any]) -> None:
    """Make the change that a record says.

    Raises:
        Conflict: there is no such table, or not exactly one such row.
    """
    table = COPIES.get((record["object_owner"], record["object_name"]))
    if table is None:
        raise Conflict(f"no copy of {record['object_owner']}.{record['object_name']} is kept here")
    old, new = values(table, record["old_values"]), values(table, record["new_values"])
    same = [table.c[name].is_not_distinct_from(value) for name, value in old.items()]
    statement: sa.Insert | sa.Update | sa.Delete = table.delete().where(*same)
    if record["command_type"] == "INSERT":
        statement = table.insert().values(new)
    elif record["command_type"] == "UPDATE":
        statement = table.update().where(*same).values(new)
    count = connection.execute(statement).rowcount
    if count != 1:
        raise Conflict(f"{record['command_type']} of {old or new} met {count} rows")


def apply(hub: Hub, engine: sa.Engine, wait: float) -> int:
    """Make the changes that are in the queue; returns how many.

    Raises:
        Conflict: as :func:`make`; that change stays in the queue, those before it are made.
    """
    made = 0
    while True:
        with engine.begin() as connection:
            try:
                found = hub.session(connection).dequeue("COPIES", DequeueOptions(wait=wait))
            except NoMessage:
                return made
            make(connection, unwrap(found.message.body, ROW))
        made += 1


def main(engine: sa.Engine, words: list[str]) -> None:
    """Make the table, enqueue a change, or apply what has come."""
    if words == ["table"]:
        TABLES.create_all(engine)
    elif words[:1] == ["change"] and len(words) == 4:
        with Hub.open(HUB) as hub:
            change(hub, words[1], int(words[2]), words[3])
    elif words == ["apply"]:
        with Hub.open(HUB) as hub:
            try:
                sys.stdout.write(f"{apply(hub, engine, wait=10)} changes\n")
            except Conflict as conflict:
                sys.exit(f"{conflict}; the change is still in the queue COPIES")
    else:
        sys.exit("usage: apply.py table | change INSERT|UPDATE|DELETE NUMBER STATE | apply")


if __name__ == "__main__":
    shop = database()
    try:
        main(shop, sys.argv[1:])
    finally:
        shop.dispose()
