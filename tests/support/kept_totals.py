"""Whether the numbers of messages that a hub keeps are those of its messages."""

from __future__ import annotations

import sqlalchemy as sa

__all__ = ["differences"]

_HUNDREDTHS = {
    "sqlite": "CAST((min({0}, 4e9) - 1767225600.0) * 100 AS INTEGER)",
    "postgresql": "CAST(trunc((least({0}, 4e9) - 1767225600.0) * 100) AS bigint)",
}
_COMPARED = """
    SELECT queue_id, consumer_id, state, sum(messages), sum(enqueued), sum(ready) FROM (
        SELECT queue_id, consumer_id, state, messages, enqueued, ready FROM aq_total
        UNION ALL SELECT queue_id, 0, CASE state WHEN 8 THEN 0 ELSE state END, -1, -{enqueued}, -{ready}
          FROM aq_message WHERE state <> 2
        UNION ALL SELECT queue_id, consumer_id, 0, -1, 0, 0 FROM aq_entry WHERE state IN (0, 8)) x
     GROUP BY queue_id, consumer_id, state HAVING sum(messages) <> 0 OR sum(enqueued) <> 0 OR sum(ready) <> 0"""


def differences(conn: sa.Connection) -> list[tuple[int, ...]]:
    """Queue, consumer, state, and by how much the messages and the sums of their times differ, at one moment."""
    hundredths = _HUNDREDTHS[conn.dialect.name]
    sql = _COMPARED.format(enqueued=hundredths.format("enq_time"), ready=hundredths.format("ready_at"))
    return [tuple(map(int, row)) for row in conn.exec_driver_sql(sql)]
