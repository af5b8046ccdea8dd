"""Upgrades of the pipelines' tables: the steps of each part (see :mod:`mgw.gateway.aq.store.migrations`)."""

from __future__ import annotations

from mgw.gateway.aq import Changes, Step

__all__ = ["FLOW_STEPS", "SINK_STEPS", "STREAM_STEPS"]


def _flow_2(changes: Changes) -> None:
    changes.add_checks("gw_flow_window", {"direction": "direction IN ('INBOUND', 'OUTBOUND')"})


def _sink_2(changes: Changes) -> None:
    changes.add_checks("gw_sink_query", {"unnamed": "unnamed IN (0, 1)"})


def _stream_2(changes: Changes) -> None:
    changes.add_checks("pl_stream", {"settled": "settled BETWEEN 0 AND allocated"})


FLOW_STEPS = (Step(2, "the database refuses windows without a known direction", _flow_2),)
SINK_STEPS = (Step(2, "the database refuses writes whose flags have no meaning", _sink_2),)
STREAM_STEPS = (
    Step(2, "the database refuses streams that have settled more than they were given", _stream_2),
    Step(3, "messages of a stream whose ids follow each other have one row of its plan"),  # earlier rows are good
)
