"""The view ``AQ$<queue table>``: one row per message, or per message and consumer (AQ guide 12.2 §9.10)."""

from __future__ import annotations

import sqlalchemy as sa

from gateway.aq.model import QueueTableInfo

__all__ = ["create_message_view", "drop_message_view", "view_name"]

_MAX_POSTGRESQL_NAME = 63  # bytes; PostgreSQL would cut a longer one off

_STATE = """CASE {a}.state WHEN 0 THEN 'READY' WHEN 1 THEN 'WAIT' WHEN 2 THEN 'PROCESSED' WHEN 3 THEN 'EXPIRED'
                 WHEN 4 THEN 'UNDELIVERABLE' WHEN 8 THEN 'READY' WHEN 9 THEN 'READY' END"""

_VIEW = """
CREATE VIEW {view} AS
SELECT q.name AS "QUEUE", {msgid} AS "MSG_ID", m.correlation AS "CORR_ID", m.priority AS "MSG_PRIORITY",
       {state} AS "MSG_STATE", {state_row}.state = 8 AS "IN_TRANSACTION",
       {ready} AS "DELAY_TIMESTAMP", m.expiration AS "EXPIRATION",
       CASE WHEN q.retention_time >= 0 AND {a}.deq_time IS NOT NULL THEN {retention} END AS "RETENTION_TIMESTAMP",
       {enqueued} AS "ENQ_TIMESTAMP", m.enq_user AS "ENQ_USER_ID", m.enq_txn AS "ENQ_TXN_ID",
       {dequeued} AS "DEQ_TIMESTAMP", {a}.deq_user AS "DEQ_USER_ID", {a}.deq_txn AS "DEQ_TXN_ID",
       {a}.attempts AS "RETRY_COUNT", m.exception_queue AS "EXCEPTION_QUEUE", m.headers AS "HEADERS",
       {payload} AS "USER_DATA", m.sender_name AS "SENDER_NAME", m.sender_address AS "SENDER_ADDRESS",
       m.sender_protocol AS "SENDER_PROTOCOL", {original} AS "ORIGINAL_MSGID", {consumer} AS "CONSUMER_NAME",
       {address} AS "ADDRESS", {protocol} AS "PROTOCOL", {propagated} AS "PROPAGATED_MSGID",
       o.name AS "ORIGINAL_QUEUE_NAME", o.schema AS "ORIGINAL_QUEUE_OWNER",
       m.expiration_reason AS "EXPIRATION_REASON"
  FROM aq_hub h CROSS JOIN aq_queue q JOIN aq_message m ON m.queue_id = q.id
       {join} LEFT JOIN aq_queue o ON o.id = m.original_queue_id
 WHERE q.queue_table_id = {table}
"""


def view_name(table: QueueTableInfo, *, postgresql: bool) -> str:
    """``AQ$NAME`` (``AQ$SCHEMA.NAME`` outside the default schema), in upper case.

    PostgreSQL cuts names at 63 bytes; a longer one becomes ``AQ$#<id of the queue table>`` there.
    """
    name = f"AQ${table.full_name.upper()}"
    if postgresql and len(name.encode()) > _MAX_POSTGRESQL_NAME:
        return f"AQ$#{table.id}"
    return name


def _quoted(conn: sa.Connection, table: QueueTableInfo) -> str:
    name = view_name(table, postgresql=conn.dialect.name == "postgresql")
    return '"' + name.replace('"', '""') + '"'


def create_message_view(conn: sa.Connection, table: QueueTableInfo) -> None:
    """Make the view of a queue table. Times are ISO texts in UTC on SQLite, timestamps on PostgreSQL."""
    if conn.dialect.name == "postgresql":
        moment = "to_timestamp({})"
        identity = "upper(encode(h.hub_id || int8send(m.id), 'hex'))"
        hexadecimal = "upper(encode({}, 'hex'))"
        payload = "m.body"
    else:
        moment = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, 'unixepoch')"
        identity = "hex(h.hub_id) || printf('%016X', m.id)"
        hexadecimal = "CASE WHEN {0} IS NOT NULL THEN hex({0}) END"
        payload = "CASE WHEN m.body_type IN (2, 3) THEN CAST(m.body AS TEXT) ELSE m.body END"
    split = table.multiple_consumers
    a = "e" if split else "m"
    state = _STATE.format(a=a)
    if split:  # a message without entries is in its own state
        state = f"CASE WHEN e.message_id IS NULL OR m.state = 3 THEN {_STATE.format(a='m')} ELSE {state} END"
    sql = _VIEW.format(
        view=_quoted(conn, table),
        a=a,
        state=state,
        state_row=a,
        msgid=identity,
        ready=moment.format(f"{a}.ready_at"),
        retention=moment.format(f"{a}.deq_time + q.retention_time"),
        enqueued=moment.format("m.enq_time"),
        dequeued=moment.format(f"{a}.deq_time"),
        payload=payload,
        original=hexadecimal.format("m.original_msgid"),
        propagated=hexadecimal.format("e.propagated_msgid") if split else "NULL",
        consumer="c.name" if split else "NULL",
        address="CASE WHEN c.address <> '' THEN c.address END" if split else "NULL",
        protocol="c.protocol" if split else "NULL",
        join="LEFT JOIN aq_entry e ON e.message_id = m.id LEFT JOIN aq_consumer c ON c.id = e.consumer_id"
        if split
        else "",
        table=int(table.id),
    )
    conn.exec_driver_sql(sql.replace("%", "%%") if conn.dialect.name == "postgresql" else sql)


def drop_message_view(conn: sa.Connection, table: QueueTableInfo) -> None:
    """Drop the view of a queue table."""
    conn.exec_driver_sql(f"DROP VIEW IF EXISTS {_quoted(conn, table)}".replace("%", "%%"))
