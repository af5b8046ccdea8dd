"""Tables of the streams (prefix ``pl_``): how far each is, and which message has which place in it.

A stream's messages are CLAIMED in the hub, as those in a job's plan; ``pl_plan`` is that plan. A row of it counts up to
the place of the next row, or the last place that the stream has given: the messages at the places between have the ids
that follow. A queue that is dropped
takes its streams along. Times are epoch seconds.
"""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import SchemaPart, State, plans_view
from mgw.pipelines.migrations import STREAM_STEPS

__all__ = ["STREAM_PART", "metadata", "plan", "stream"]


metadata = sa.MetaData()

_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

stream = sa.Table(
    "pl_stream",
    metadata,
    sa.Column("id", _id, primary_key=True, autoincrement=True),
    sa.Column("name_key", sa.Text, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("token", sa.Text, nullable=False),  # in every offset: tells it from a later stream of this name
    sa.Column("queue_id", _id, nullable=False, index=True),
    sa.Column("consumer", sa.Text),
    sa.Column("epoch", _id, nullable=False),  # raised by every reader that begins; the one before may not go on
    sa.Column("allocated", _id, nullable=False),  # last place that was given to a message
    sa.Column("settled", _id, nullable=False),  # last place whose message is consumed
    sa.Column("changed", sa.Double, nullable=False),
    sa.CheckConstraint("settled BETWEEN 0 AND allocated", name="pl_stream_settled"),
    sqlite_autoincrement=True,
)

plan = sa.Table(
    "pl_plan",
    metadata,
    sa.Column("stream_id", _id, primary_key=True, autoincrement=False),
    sa.Column("seq", _id, primary_key=True, autoincrement=False),
    sa.Column("message_id", _id, nullable=False),
    sqlite_with_rowid=False,
)

_DROPPED_SQLITE = """
CREATE TRIGGER pl_queue_dropped AFTER DELETE ON aq_queue BEGIN
    DELETE FROM pl_plan WHERE stream_id IN (SELECT id FROM pl_stream WHERE queue_id = OLD.id);
    DELETE FROM pl_stream WHERE queue_id = OLD.id;
END"""
_DROPPED_FUNCTION = """
CREATE OR REPLACE FUNCTION pl_queue_dropped() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM pl_plan WHERE stream_id IN (SELECT id FROM pl_stream WHERE queue_id = OLD.id);
    DELETE FROM pl_stream WHERE queue_id = OLD.id;
    RETURN NULL;
END $$"""
_DROPPED_POSTGRESQL = """
CREATE TRIGGER pl_queue_dropped AFTER DELETE ON aq_queue FOR EACH ROW EXECUTE FUNCTION pl_queue_dropped()"""

_MOMENT_SQLITE = "strftime('%Y-%m-%d %H:%M:%S', s.changed, 'unixepoch')"
_MOMENT_POSTGRESQL = "to_char(to_timestamp(s.changed) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"
#: WAITING: messages that the stream could take now, in addition to those it has (ALLOCATED - SETTLED).
_VIEW = f"""
CREATE VIEW MGW_PIPELINE_STREAMS AS
SELECT
    s.name_key AS STREAM_NAME,
    q.name_key AS QUEUE_NAME,
    upper(s.consumer) AS CONSUMER_NAME,
    s.allocated AS ALLOCATED,
    s.settled AS SETTLED,
    (CASE WHEN s.consumer IS NULL
        THEN (SELECT count(*) FROM aq_message m WHERE m.queue_id = s.queue_id AND m.state = {State.READY})
        ELSE (SELECT count(*) FROM aq_consumer c JOIN aq_entry e ON e.consumer_id = c.id AND e.state = {State.READY}
               WHERE c.queue_id = s.queue_id AND c.name_key = upper(s.consumer) AND c.address = '' AND c.protocol = 0)
        END) AS WAITING,
    s.epoch AS EPOCH,
    {{moment}} AS LAST_TIME
FROM pl_stream s LEFT JOIN aq_queue q ON q.id = s.queue_id"""

# What the streams have set aside, for those who know nothing of streams.
_NAME = "pipelines.stream"
_PLANS = f"""
CREATE VIEW {plans_view(_NAME)} AS
WITH RECURSIVE planned (queue_id, message_id, more) AS (
    SELECT s.queue_id, p.message_id, coalesce(p.following, s.allocated + 1) - p.seq - 1
      FROM (SELECT stream_id, seq, message_id, lead(seq) OVER (PARTITION BY stream_id ORDER BY seq) AS following
              FROM pl_plan) p JOIN pl_stream s ON s.id = p.stream_id
    UNION ALL
    SELECT queue_id, message_id + 1, more - 1 FROM planned WHERE more > 0)
SELECT queue_id, message_id FROM planned"""


def _create(conn: sa.Connection) -> None:
    metadata.create_all(conn, checkfirst=False)


def _make_derived(conn: sa.Connection) -> None:
    conn.exec_driver_sql(_PLANS)
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(_DROPPED_FUNCTION)
        conn.exec_driver_sql(_DROPPED_POSTGRESQL)
        conn.exec_driver_sql(_VIEW.format(moment=_MOMENT_POSTGRESQL))
    else:
        conn.exec_driver_sql(_DROPPED_SQLITE)
        conn.exec_driver_sql(_VIEW.format(moment=_MOMENT_SQLITE))


def _drop_derived(conn: sa.Connection) -> None:
    for view in (plans_view(_NAME), "MGW_PIPELINE_STREAMS"):
        conn.exec_driver_sql(f"DROP VIEW IF EXISTS {view}")
    on = " ON aq_queue" if conn.dialect.name == "postgresql" else ""
    conn.exec_driver_sql(f"DROP TRIGGER IF EXISTS pl_queue_dropped{on}")


STREAM_PART = SchemaPart(
    _NAME,
    _create,
    steps=STREAM_STEPS,
    make_derived=_make_derived,
    drop_derived=_drop_derived,
)
