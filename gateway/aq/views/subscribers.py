"""The subscriber views ``AQ$<queue table>_S``, ``_R``, ``AQ$<queue>_S`` and ``_R`` (AQ guide 12.2 §9.11-9.14)."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.aq.views.dialect import name_of, truth

__all__ = ["COLUMNS", "RULE_COLUMNS", "rule_view", "subscriber_view"]

_SOURCE = "aq_consumer c JOIN aq_queue q ON q.id = c.queue_id WHERE c.is_subscriber = 1"
_SUBSCRIBER = {
    "QUEUE": name_of("q"),
    "NAME": "nullif(c.name_key, '')",
    "ADDRESS": "nullif(c.address, '')",
    "PROTOCOL": "c.protocol",
}
_S = _SUBSCRIBER | {
    "TRANSFORMATION": "upper(c.transformation)",
    "QUEUE_TO_QUEUE": truth("c.queue_to_queue = 1"),
}
_R = _SUBSCRIBER | {
    "RULE": "c.rule",
    "RULE_SET": "CAST(NULL AS TEXT)",
    "TRANSFORMATION": "upper(c.transformation)",
}

COLUMNS: tuple[str, ...] = tuple(_S)
RULE_COLUMNS: tuple[str, ...] = tuple(_R)


def subscriber_view(where: str) -> tuple[Mapping[str, str], str]:
    """Columns and source of an ``_S`` view: every subscriber of the queues that meet ``where``."""
    return _S, f"{_SOURCE} AND {where}"


def rule_view(where: str) -> tuple[Mapping[str, str], str]:
    """Columns and source of an ``_R`` view: the subscribers with a rule."""
    return _R, f"{_SOURCE} AND c.rule IS NOT NULL AND {where}"
