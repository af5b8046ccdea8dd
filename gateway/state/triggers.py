"""Triggers that tell running jobs of changed definitions, on both databases; made again by every upgrade."""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import channel_sql
from mgw.gateway.state.tables import CHANGE_CHANNEL

__all__ = ["create_triggers", "drop_triggers"]

# Part of the definitions are kept by the hub: transformations, what a queue table takes, and which functions may be
# called. Whoever changes them, running jobs have to hear of it.
_TOLD = {
    "aq_transformation": ("INSERT", "UPDATE", "DELETE"),
    "aq_queue_table": ("UPDATE",),
    "aq_module": ("INSERT", "DELETE"),
    "aq_rule_function": ("INSERT", "UPDATE", "DELETE"),
}
_TELL_SQLITE = """
CREATE TRIGGER gw_{name}_{event} AFTER {event} ON {table} BEGIN
    UPDATE gw_change SET version = version + 1;
END"""
_TELL = f"""
CREATE OR REPLACE FUNCTION gw_tell_change() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    told bigint;
BEGIN
    UPDATE gw_change SET version = version + 1 RETURNING version INTO told;
    PERFORM pg_notify({channel_sql(CHANGE_CHANNEL)}, told::text);
    RETURN NULL;
END $$"""
# At the end of the transaction: an application's own must not keep the administration waiting for its commit.
_TELL_POSTGRESQL = """
CREATE CONSTRAINT TRIGGER gw_changed AFTER {events} ON {table} DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION gw_tell_change()"""


def create_triggers(conn: sa.Connection) -> None:
    """Make the triggers in the transaction of ``conn``; the tables must be there."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(_TELL)
    for table, events in _TOLD.items():
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql(_TELL_POSTGRESQL.format(events=" OR ".join(events), table=table))
            continue
        for each in events:
            conn.exec_driver_sql(_TELL_SQLITE.format(name=table.removeprefix("aq_"), event=each, table=table))


def drop_triggers(conn: sa.Connection) -> None:
    """Drop the triggers; the function of PostgreSQL stays, until it is replaced."""
    for table, events in _TOLD.items():
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql(f"DROP TRIGGER IF EXISTS gw_changed ON {table}")
            continue
        for each in events:
            conn.exec_driver_sql(f"DROP TRIGGER IF EXISTS gw_{table.removeprefix('aq_')}_{each}")
