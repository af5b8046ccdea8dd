"""The views of background work: who does what time demands (AQ guide 12.2 §2.16, §9.36, §9.41-9.43).

The documented three tiers are one here: the time manager of a process coordinates itself and serves itself. A process
that has the hub open and runs no time manager is idle.
"""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.aq.views.dialect import Dialect, Maker, View

__all__ = ["VIEWS"]

_CENTISECONDS = 100
_TIME_MANAGER = "'TIME MANAGER'"
_RUNS = "aq_process p WHERE p.passes > 0"
_STORED_EVERY = 1000  # hundredths of a second: what a process has counted is stored that often


def _coordinators(_: Dialect) -> View:
    return {
        "PROCESS_ID": "p.pid",
        "PROCESS_NAME": "p.host",
        "NUM_JOBS": "1",
        "JOB_LATENCY": f"p.pass_seconds * {_CENTISECONDS} / p.passes",
        "NUM_COORDINATORS": "1",
        "CON_ID": "0",
    }, _RUNS


def _jobs(_: Dialect) -> View:
    return {
        "COORDINATOR_ID": "p.id",
        "PROCESS_ID": "p.pid",
        "PROCESS_NAME": "p.host",
        "JOB_NAME": _TIME_MANAGER,
        "JOB_TYPE": _TIME_MANAGER,
        "SERVER_COUNT": "1",
        "MAX_SERVER_COUNT": "1",
        "CON_ID": "0",
    }, _RUNS


def _servers(_: Dialect) -> View:
    def working(then: str) -> str:
        return f"CASE WHEN p.passes > 0 THEN {then} END"

    return {
        "COORDINATOR_ID": working("p.id"),
        "COORDINATOR_INSTANCE_ID": working("1"),
        "PROCESS_ID": "p.pid",
        "PROCESS_NAME": "p.host",
        "JOB_NAME": working(_TIME_MANAGER),
        "POOL_STATE": "CASE WHEN p.passes > 0 THEN 'ACTIVE' ELSE 'IDLE' END",
        "CON_ID": "0",
    }, "aq_process p"


def _metric_groups(_: Dialect) -> View:
    return {
        "GROUP_ID": "g.id",
        "NAME": "'Queue'",
        "INTERVAL_SIZE": str(_STORED_EVERY),
        "MAX_INTERVAL": "1",
        "CON_ID": "0",
    }, "(SELECT 1 AS id) g"


def _of_all_instances(view: Maker) -> Maker:
    def made(d: Dialect) -> View:
        columns, source = view(d)
        return {"INST_ID": "1", **columns}, source

    return made


_VIEWS: Mapping[str, Maker] = {
    "AQ_BACKGROUND_COORDINATOR": _coordinators,
    "AQ_JOB_COORDINATOR": _jobs,
    "AQ_SERVER_POOL": _servers,
}

VIEWS: Mapping[str, Maker] = {
    **{f"V${name}": view for name, view in _VIEWS.items()},
    **{f"GV${name}": _of_all_instances(view) for name, view in _VIEWS.items()},
    "V$METRICGROUP": _metric_groups,
}
