"""Tables of the job ``flow`` in the hub (prefix ``gw_flow_``) and its view ``MGW_PIPELINE_FLOW``.

Times are epoch seconds, latencies seconds.
"""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import SchemaPart, add_checks
from mgw.gateway.aq import one_of_check as one_of
from mgw.pipelines.migrations import FLOW_STEPS

__all__ = ["PART", "VIEW_COLUMNS", "metadata"]


metadata = sa.MetaData()

_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

window = sa.Table(
    "gw_flow_window",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("job", sa.Text, primary_key=True),
    sa.Column("window_start", sa.Double, primary_key=True),
    sa.Column("window_end", sa.Double, nullable=False),
    sa.Column("link", sa.Text),
    sa.Column("direction", sa.Text, nullable=False),
    sa.Column("messages", _id, nullable=False),
    sa.Column("set_aside", _id, nullable=False),
    sa.Column("late", _id, nullable=False),
    sa.Column("latency_p50", sa.Double),
    sa.Column("latency_p95", sa.Double),
    sa.Column("latency_p99", sa.Double),
    sa.Column("latency_max", sa.Double),
    sa.Column("backlog", _id),
)

#: The last batch that is in the table: a batch is written with its number, or not at all.
progress = sa.Table(
    "gw_flow_progress",
    metadata,
    sa.Column("pipeline", sa.Text, primary_key=True),
    sa.Column("query", sa.Text, nullable=False),
    sa.Column("batch", _id, nullable=False),
)

_SQLITE_MOMENT = "strftime('%Y-%m-%d %H:%M:%S', {0}, 'unixepoch')"
_POSTGRESQL_MOMENT = "to_char(to_timestamp({0}) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')"

#: Column -> what it says.
VIEW_COLUMNS = {
    "PIPELINE": "name of the pipeline",
    "JOB_NAME": "the job",
    "LINK_NAME": "its link; null for a job that was removed",
    "DIRECTION": "INBOUND: into the hub; OUTBOUND: out of it; THROUGH: from link to link",
    "WINDOW_START": "first moment of the window, UTC",
    "WINDOW_END": "first moment after it",
    "MESSAGES": "messages that arrived: stored in the hub, or confirmed by the destination",
    "RATE": "messages per second",
    "LATENCY_P50": "seconds within which half of them arrived",
    "LATENCY_P95": "seconds within which 95 of 100 arrived",
    "LATENCY_P99": "seconds within which 99 of 100 arrived",
    "LATENCY_MAX": "seconds of the slowest message",
    "LATE": "messages that took longer than the pipeline's late_after",
    "SET_ASIDE": "messages that were filtered, discarded or moved to an exception queue",
    "BACKLOG": "messages that waited for the job when the window was last computed; null: not known",
}


add_checks(metadata, {"gw_flow_window": {"direction": one_of(("INBOUND", "OUTBOUND"))}})


def _create(conn: sa.Connection) -> None:
    metadata.create_all(conn, checkfirst=False)


def _make_view(conn: sa.Connection) -> None:
    moment = _POSTGRESQL_MOMENT if conn.dialect.name == "postgresql" else _SQLITE_MOMENT
    special = {
        "JOB_NAME": "w.job",
        "LINK_NAME": "w.link",
        "WINDOW_START": moment.format("w.window_start"),
        "WINDOW_END": moment.format("w.window_end"),
        "RATE": "w.messages / (w.window_end - w.window_start)",
    }
    columns = ", ".join(f"{special.get(name, f'w.{name.lower()}')} AS {name}" for name in VIEW_COLUMNS)
    conn.exec_driver_sql(f"CREATE VIEW MGW_PIPELINE_FLOW AS SELECT {columns} FROM gw_flow_window w")


def _drop_view(conn: sa.Connection) -> None:
    conn.exec_driver_sql("DROP VIEW IF EXISTS MGW_PIPELINE_FLOW")


PART = SchemaPart(
    "pipelines_flow",
    _create,
    steps=FLOW_STEPS,
    make_derived=_make_view,
    drop_derived=_drop_view,
)
