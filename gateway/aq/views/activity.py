"""The views of what happens: V$AQ and the V$PERSISTENT_ views (AQ guide 12.2 §9.25, §9.29-9.32).

V$AQ and the ages are those of the moment: they add up what every transaction stores about the messages that come and go
(:mod:`mgw.gateway.aq.store.totals_sql`), and read no messages. The rest adds up what the living processes have stored,
at most some ten seconds late.
"""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.aq.store.tables import State, states
from mgw.gateway.aq.store.totals_sql import ORIGIN
from mgw.gateway.aq.views.dialect import Dialect, Maker, View, name_of, owner_of

__all__ = ["VIEWS"]

_NOT_MEASURED = "CAST(NULL AS INTEGER)"
_CENTISECONDS = 100

_EXCEPTIONS = "q.queue_type = 'EXCEPTION_QUEUE'"
_SPLIT = "t.multiple_consumers = 1"
# What is kept of each queue, added up; PROCESSED messages are not in it, CLAIMED ones are READY: a message in a
# transaction is in its queue, and in a state, until the commit.
_IN_STATE = "sum(CASE WHEN state = {state:d} THEN {of} ELSE 0 END)"


def _kept(d: Dialect) -> str:
    """What lies in the queues as a table ``n``: the messages that everybody sees in a queue, and those that wait."""
    names = {"ready": State.READY, "expired": State.EXPIRED, "split": State.SPLIT, "waiting": State.WAITING}
    columns = ["queue_id"]
    for name, state in names.items():
        columns.append(f"{d.integer.format(_IN_STATE.format(state=state, of='messages'))} AS {name}")
        columns += [f"{_IN_STATE.format(state=state, of=time)} AS {name}_{time}" for time in ("enqueued", "ready")]
    return f"(SELECT {', '.join(columns)} FROM aq_total WHERE consumer_id = 0 GROUP BY queue_id) n"


def _lying(what: str = "") -> str:
    """Messages that lie in queue ``q``, or the sum of their times."""
    ready, expired, split = (f"coalesce(n.{state}{what}, 0)" for state in ("ready", "expired", "split"))
    return f"({ready} + CASE WHEN {_EXCEPTIONS} THEN {expired} WHEN {_SPLIT} THEN {split} ELSE 0 END)"


_NUMBER = _lying()


def _average(d: Dialect, since: str) -> str:
    """Seconds since the times of these messages, on average; NULL where there are none."""
    return f"({d.now} - {ORIGIN!r} - CAST({_lying(since)} AS double precision) / 100 / nullif({_NUMBER}, 0))"


# Of a multi-consumer message the entries wait: it is READY unless every consumer left has to wait.
_WAITING = f"""(SELECT e.queue_id, count(DISTINCT e.message_id) AS number FROM aq_entry e
        WHERE e.state = {State.WAITING} AND NOT EXISTS
         (SELECT 1 FROM aq_entry x WHERE x.message_id = e.message_id
             AND x.state IN {states(State.READY, State.CLAIMED)}) GROUP BY e.queue_id) w"""
_HAS_TO_WAIT = "(coalesce(n.waiting, 0) + coalesce(w.number, 0))"


def _numbers(d: Dialect) -> View:
    return {
        "QID": "q.id",
        "WAITING": _HAS_TO_WAIT,
        "READY": f"CASE WHEN {_EXCEPTIONS} THEN 0 WHEN {_SPLIT} THEN {_NUMBER} - {_HAS_TO_WAIT} ELSE {_NUMBER} END",
        "EXPIRED": f"CASE WHEN {_EXCEPTIONS} THEN {_NUMBER} ELSE 0 END",
        "TOTAL_WAIT": f"coalesce({_average(d, '_ready')} * {_NUMBER}, 0)",
        "AVERAGE_WAIT": f"coalesce({_average(d, '_ready')}, 0)",
        "CON_ID": "0",
    }, (
        f"aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id LEFT JOIN {_kept(d)} ON n.queue_id = q.id"
        f" LEFT JOIN {_WAITING} ON w.queue_id = q.id"
    )


def _numbers_everywhere(d: Dialect) -> View:
    columns, source = _numbers(d)
    return {"INST_ID": "1", **columns}, source


_SUMS = (
    "enqueued",
    "dequeued",
    "browsed",
    "expired",
    "made_ready",
    "delayed",
    "expiring",
    "enqueue_transactions",
    "dequeue_transactions",
    "managed",
    "logged",
)
_TIMES = (
    "enqueue_seconds",
    "dequeue_seconds",
    "rule_seconds",
    "transform_seconds",
    "managed_seconds",
    "logged_seconds",
)
_LAST = ("last_enqueue", "last_dequeue", "last_expired", "last_ready", "last_managed", "last_logged")


def _summed(d: Dialect, kind: str, by: str = "object_id") -> str:
    """The activity of all processes as a table ``s``."""
    columns = [by, "min(first_time) AS first_time"]
    columns += [f"{d.integer.format(f'sum({name})')} AS {name}" for name in _SUMS]
    columns += [f"sum({name}) AS {name}" for name in _TIMES]
    columns += [f"max({name}) AS {name}" for name in _LAST]
    return f"(SELECT {', '.join(columns)} FROM aq_activity WHERE kind = '{kind}' AND process_id <> 0 GROUP BY {by}) s"


def _elapsed(name: str) -> str:
    return f"s.{name} * {_CENTISECONDS}"


def _latency(kind: str, identity: str) -> str:
    return f"""(SELECT a.latency FROM aq_activity a WHERE a.kind = '{kind}' AND a.object_id = {identity}
      AND a.latency IS NOT NULL ORDER BY a.last_dequeue DESC LIMIT 1)"""


_QUEUE = {
    "QUEUE_ID": "q.id",
    "QUEUE_SCHEMA": owner_of("q"),
    "QUEUE_NAME": name_of("q"),
}


def _queues(d: Dialect) -> View:
    return {
        "QUEUE_ID": "q.id",
        "QUEUE_TABLE_ID": "q.queue_table_id",
        "QUEUE_SCHEMA": owner_of("q"),
        "QUEUE_NAME": name_of("q"),
        "FIRST_ACTIVITY_TIME": d.moment.format("s.first_time"),
        "ENQUEUED_MSGS": "s.enqueued",
        "DEQUEUED_MSGS": "s.dequeued",
        "BROWSED_MSGS": "s.browsed",
        "ELAPSED_ENQUEUE_TIME": _elapsed("enqueue_seconds"),
        "ELAPSED_DEQUEUE_TIME": _elapsed("dequeue_seconds"),
        "ENQUEUE_CPU_TIME": _NOT_MEASURED,
        "DEQUEUE_CPU_TIME": _NOT_MEASURED,
        "AVG_MSG_AGE": f"coalesce({_average(d, '_enqueued')}, 0)",
        "DEQUEUED_MSG_LATENCY": _latency("QUEUE", "q.id"),
        "ELAPSED_TRANSFORMATION_TIME": _elapsed("transform_seconds"),
        "ELAPSED_RULE_EVALUATION_TIME": _elapsed("rule_seconds"),
        "ENQUEUED_EXPIRY_MSGS": "s.expiring",
        "ENQUEUED_DELAY_MSGS": "s.delayed",
        "MSGS_MADE_EXPIRED": "s.expired",
        "MSGS_MADE_READY": "s.made_ready",
        "LAST_ENQUEUE_TIME": d.moment.format("s.last_enqueue"),
        "LAST_DEQUEUE_TIME": d.moment.format("s.last_dequeue"),
        "LAST_TM_EXPIRY_TIME": d.moment.format("s.last_expired"),
        "LAST_TM_READY_TIME": d.moment.format("s.last_ready"),
        "ENQUEUE_TRANSACTIONS": "s.enqueue_transactions",
        "DEQUEUE_TRANSACTIONS": "s.dequeue_transactions",
    }, (
        f"{_summed(d, 'QUEUE')} JOIN aq_queue q ON q.id = s.object_id JOIN aq_queue_table t ON t.id = q.queue_table_id"
        f" LEFT JOIN {_kept(d)} ON n.queue_id = q.id"
    )


def _subscribers(d: Dialect) -> View:
    return {
        **_QUEUE,
        "SUBSCRIBER_ID": "c.id",
        "SUBSCRIBER_NAME": "nullif(c.name_key, '')",
        "SUBSCRIBER_ADDRESS": "nullif(c.address, '')",
        "PROTOCOL": "c.protocol",
        "SUBSCRIBER_TYPE": "CASE WHEN c.address <> '' THEN 'PROXY' WHEN c.is_subscriber = 1 THEN 'SUBSCRIBER'"
        " ELSE 'RECIPIENT' END",
        "FIRST_ACTIVITY_TIME": d.moment.format("s.first_time"),
        "ENQUEUED_MSGS": "s.enqueued",
        "DEQUEUED_MSGS": "s.dequeued",
        "BROWSED_MSGS": "s.browsed",
        "EXPIRED_MSGS": "s.expired",
        "DEQUEUED_MSG_LATENCY": _latency("CONSUMER", "c.id"),
        "LAST_ENQUEUE_TIME": d.moment.format("s.last_enqueue"),
        "LAST_DEQUEUE_TIME": d.moment.format("s.last_dequeue"),
    }, f"{_summed(d, 'CONSUMER')} JOIN aq_consumer c ON c.id = s.object_id JOIN aq_queue q ON q.id = c.queue_id"


def _publishers(d: Dialect) -> View:
    return {
        **_QUEUE,
        "PUBLISHER_NAME": "nullif(s.name, '')",
        "PUBLISHER_ADDRESS": "nullif(s.address, '')",
        "PROTOCOL": "s.protocol",
        "ENQUEUED_MSGS": "s.enqueued",
        "ELAPSED_ENQUEUE_TIME": _elapsed("enqueue_seconds"),
        "ENQUEUE_CPU_TIME": _NOT_MEASURED,
        "LAST_ENQUEUE_TIME": d.moment.format("s.last_enqueue"),
        "ENQUEUE_TRANSACTIONS": "s.enqueue_transactions",
    }, f"{_summed(d, 'PUBLISHER', 'object_id, name, address, protocol')} JOIN aq_queue q ON q.id = s.object_id"


_OF_TABLE = "IN (SELECT q.id FROM aq_queue q WHERE q.queue_table_id = t.id)"
# Each walks an index from its beginning to the first row of the queue table.
_DUE = f"""(SELECT min(x.due) FROM (
      SELECT * FROM (SELECT m.ready_at AS due FROM aq_message m
                      WHERE m.state = {State.WAITING} AND m.queue_id {_OF_TABLE} ORDER BY m.ready_at LIMIT 1) a
      UNION ALL SELECT * FROM (SELECT e.ready_at FROM aq_entry e
                      WHERE e.state = {State.WAITING} AND e.queue_id {_OF_TABLE} ORDER BY e.ready_at LIMIT 1) b
      UNION ALL SELECT * FROM (SELECT m.expires_at FROM aq_message m WHERE m.expires_at IS NOT NULL
                      AND m.queue_id {_OF_TABLE} ORDER BY m.expires_at LIMIT 1) c) x)"""


def _time_manager(d: Dialect) -> View:
    def total(name: str) -> str:
        return f"coalesce(s.{name}, 0)"

    per_table = ["q.queue_table_id"]
    per_table += [f"{d.integer.format(f'sum(a.{name})')} AS {name}" for name in ("managed", "logged")]
    per_table += [f"sum(a.{name}) AS {name}" for name in ("managed_seconds", "logged_seconds")]
    per_table += [f"max(a.{name}) AS {name}" for name in ("last_managed", "last_logged")]
    source = f"""aq_queue_table t LEFT JOIN
       (SELECT {", ".join(per_table)} FROM aq_activity a JOIN aq_queue q ON q.id = a.object_id
         WHERE a.kind = 'QUEUE' GROUP BY q.queue_table_id) s ON s.queue_table_id = t.id"""
    return {
        "QUEUE_TABLE_ID": "t.id",
        "TYPE": "'TIME MANAGER'",
        "STATUS": "CASE WHEN EXISTS (SELECT 1 FROM aq_process p WHERE p.passes > 0) THEN 1 ELSE 0 END",
        "NEXT_SERVICE_TIME": d.moment.format(_DUE),
        "WINDOW_END_TIME": d.moment.format("CAST(NULL AS REAL)"),
        "TOTAL_RUNS": d.integer.format("(SELECT coalesce(sum(p.passes), 0) FROM aq_process p)"),
        "TOTAL_LATENCY": _NOT_MEASURED,
        "TOTAL_ELAPSED_TIME": f"({total('managed_seconds')} + {total('logged_seconds')}) * {_CENTISECONDS}",
        "TOTAL_CPU_TIME": _NOT_MEASURED,
        "TMGR_ROWS_PROCESSED": total("managed"),
        "TMGR_ELAPSED_TIME": f"{total('managed_seconds')} * {_CENTISECONDS}",
        "TMGR_CPU_TIME": _NOT_MEASURED,
        "LAST_TMGR_PROCESSING_TIME": d.moment.format("s.last_managed"),
        "DEQLOG_ROWS_PROCESSED": total("logged"),
        "DEQLOG_PROCESSING_ELAPSED_TIME": f"{total('logged_seconds')} * {_CENTISECONDS}",
        "DEQLOG_PROCESSING_CPU_TIME": _NOT_MEASURED,
        "LAST_DEQLOG_PROCESSING_TIME": d.moment.format("s.last_logged"),
    }, source


VIEWS: Mapping[str, Maker] = {
    "V$AQ": _numbers,
    "GV$AQ": _numbers_everywhere,
    "V$PERSISTENT_QUEUES": _queues,
    "V$PERSISTENT_SUBSCRIBERS": _subscribers,
    "V$PERSISTENT_PUBLISHERS": _publishers,
    "V$PERSISTENT_QMN_CACHE": _time_manager,
}
