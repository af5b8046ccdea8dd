"""The sink's tables in the hub (prefix ``gw_sink_``) and its view ``MGW_PIPELINE_WRITES``.

Rows wait in *stagings*, one for each attempt of a task, cut into chunks (Arrow, see :mod:`mgw.pipelines.sink.chunks`).
The commit of a batch *seals* it: which stagings it consists of, and in which order. What is sealed becomes messages
chunk by chunk; a chunk goes away in the transaction that stores its messages, so what is left shows where to continue.
Times are epoch seconds.
"""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import FLAG_CHECK as FLAG
from mgw.gateway.aq import SchemaPart, add_checks
from mgw.pipelines.migrations import SINK_STEPS

__all__ = ["PART", "VIEW_COLUMNS", "metadata"]


metadata = sa.MetaData()

_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_time = sa.Double

#: A name under which batches are written, and the queue they go to.
query = sa.Table(
    "gw_sink_query",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("queue_id", _id, nullable=False),
    sa.Column("queue_name", sa.Text, nullable=False),
    sa.Column("origin", sa.Text),  # id that Spark's checkpoint gives a streaming query; NULL: no stream
    sa.Column("unnamed", sa.Integer, nullable=False),  # 1: the name was made up, nobody writes under it again
    sa.Column("pruned", _id, nullable=False),  # batches up to this one are done and no longer listed; -1: none
    sa.Column("created", _time, nullable=False),
)

batch = sa.Table(
    "gw_sink_batch",
    metadata,
    sa.Column("query", sa.Text, primary_key=True),
    sa.Column("batch", _id, primary_key=True, autoincrement=False),
    sa.Column("state", sa.Text, nullable=False),  # SEALED, DONE
    sa.Column("row_count", _id, nullable=False),
    sa.Column("published", _id, nullable=False),
    sa.Column("skipped", _id, nullable=False),  # gone from the exception queue they were to be removed from
    sa.Column("digest", _id, nullable=False),  # sum over the rows: does not depend on their order
    sa.Column("sealed", _time, nullable=False),
    sa.Column("finished", _time),
    sa.CheckConstraint("state IN ('SEALED','DONE')", name="gw_sink_batch_state"),
)

#: The rows of one attempt of one task. Sealed ones belong to a batch and have their place in it.
staging = sa.Table(
    "gw_sink_staging",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("query", sa.Text, nullable=False, index=True),
    sa.Column("wanted", _id),  # the batch it was made for, as far as the task could tell
    sa.Column("batch", _id),  # NULL: not sealed
    sa.Column("place", _id),
    sa.Column("chunks", _id, nullable=False),
    sa.Column("row_count", _id, nullable=False),
    sa.Column("digest", _id, nullable=False),
    sa.Column("touched", _time, nullable=False),
)

chunk = sa.Table(
    "gw_sink_chunk",
    metadata,
    sa.Column("staging", sa.Text, primary_key=True),
    sa.Column("number", _id, primary_key=True, autoincrement=False),
    sa.Column("row_count", _id, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

_SQLITE_MOMENT = "strftime('%Y-%m-%d %H:%M:%S', {0}, 'unixepoch')"
_POSTGRESQL_MOMENT = "to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"

#: Column -> what it says.
VIEW_COLUMNS = {
    "QUERY": "name of the write",
    "QUEUE": "queue its rows become messages of",
    "BATCH": "number of the batch",
    "STATE": "SEALED: its rows are fixed, but not all of them are messages yet; DONE",
    "ROW_COUNT": "rows of the batch",
    "PUBLISHED": "rows that have become messages",
    "SKIPPED": "rows that did not become messages, because their exception message had been removed",
    "SEALED_TIME": "when its rows were fixed",
    "TIME": "when the last one became a message",
}


add_checks(metadata, {"gw_sink_query": {"unnamed": FLAG}})


def _create(conn: sa.Connection) -> None:
    metadata.create_all(conn, checkfirst=False)


def _make_view(conn: sa.Connection) -> None:
    moment = _POSTGRESQL_MOMENT if conn.dialect.name == "postgresql" else _SQLITE_MOMENT
    values = (
        "b.query",
        "q.queue_name",
        "b.batch",
        "b.state",
        "b.row_count",
        "b.published",
        "b.skipped",
        moment.format("b.sealed"),
        moment.format("b.finished"),
    )
    columns = ", ".join(f"{value} AS {name}" for value, name in zip(values, VIEW_COLUMNS, strict=True))
    conn.exec_driver_sql(
        f"CREATE VIEW MGW_PIPELINE_WRITES AS SELECT {columns} "
        "FROM gw_sink_batch b JOIN gw_sink_query q ON q.name = b.query"
    )


def _drop_view(conn: sa.Connection) -> None:
    conn.exec_driver_sql("DROP VIEW IF EXISTS MGW_PIPELINE_WRITES")


PART = SchemaPart(
    "pipelines_sink",
    _create,
    steps=SINK_STEPS,
    make_derived=_make_view,
    drop_derived=_drop_view,
)
