"""How long the views take with many messages waiting: part ``views`` of ``benchmarks.hub``."""

from __future__ import annotations

import statistics
import time

import sqlalchemy as sa

from benchmarks.hub_growth import Stand, filled
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub

__all__ = ["views"]

FIRST_ROWS = 100  # read of a view that has a row for every message
ROUNDS = 3
SHOWN = 5.0  # milliseconds; what takes less is not printed


def views(stand: Stand, database: str) -> None:
    """``SELECT *`` of every view, of the queue table's own its first rows; the slowest is what the goal is about."""
    for sort_list in stand.sorts:
        with filled(stand, database, sort_list) as (hub, number):
            _add_job(hub)
            engine = sa.create_engine(hub.engine.url)
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
                if hub.postgresql:
                    conn.exec_driver_sql("VACUUM ANALYZE")
                found = {name: _milliseconds(conn, name) for name in sorted(sa.inspect(conn).get_view_names())}
            engine.dispose()
        route = f"{database}, {sort_list}, {number:,} messages waiting"
        stand.recorder.add(route, "views", "slowest", max(found.values()))
        shown = [f"{name} {took:,.0f}" for name, took in found.items() if took >= SHOWN]
        told = f"{', '.join(shown)} ms; the others" if shown else "all"
        print(f"{route}: {told} of {len(found)} views less than {SHOWN:.0f} ms", flush=True)


def _add_job(hub: Hub) -> None:
    """A job that the backlog of the queue belongs to, once."""
    url = hub.engine.url.render_as_string(hide_password=False)
    with open_hub(url, create=True) as gateway:
        queues = QueueAdmin(gateway)
        if not any(queue.name == "bench_out" for queue in queues.queues()):
            queues.create_queue_table("bench_out_table", "RAW")
            queues.create_queue("bench_out", "bench_out_table")
            GatewayAdmin(gateway).create_job("bench", "LOCAL", "bench", "bench_out", enabled=False)


def _milliseconds(conn: sa.Connection, view: str) -> float:
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        conn.exec_driver_sql(f'SELECT * FROM "{view}" LIMIT {FIRST_ROWS}').fetchall()
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1000
