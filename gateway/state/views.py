"""The ``MGW_*`` views (AQ guide 12.2 §21), real SQL views: ``sqlite3`` and ``psql`` read them without the gateway.

Every documented column is there under its name; ours follow. Names of objects are upper-case, as documented. Moments
are text in UTC, ``YYYY-MM-DD HH:MM:SS``; ages and intervals are seconds; options are JSON. No view shows a password or
a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa

from mgw.gateway.aq import DEFAULT_SCHEMA, State
from mgw.gateway.aq import one_of_check as one_of
from mgw.gateway.definitions.job_words import LEAVING
from mgw.gateway.definitions.link_views import link_views, shown_attributes
from mgw.gateway.definitions.objects import DEFAULT_POLL_INTERVAL
from mgw.gateway.state.outbound_view import outbound_columns
from mgw.gateway.state.view_dialects import POSTGRESQL, SQLITE, Dialect
from mgw.links.contract import LinkSpec

__all__ = ["COLUMNS", "create_views", "drop_views", "refused_by_rule"]


def _gateway(d: Dialect) -> tuple[dict[str, str], str]:
    started = "a.status NOT IN ('NOT_STARTED', 'START_SCHEDULED')"
    return {
        "AGENT_DATABASE": "a.database",
        "AGENT_INSTANCE": "CASE WHEN a.start_time IS NOT NULL THEN 1 END",
        "AGENT_JOB": "CAST(NULL AS integer)",
        "AGENT_NAME": "a.name_key",
        "AGENT_PING": f"CASE WHEN {started} THEN CASE WHEN a.lease_expires > {d.now} THEN 'REACHABLE' "
        "ELSE 'UNREACHABLE' END END",
        "AGENT_START_TIME": d.moment.format("a.start_time"),
        "AGENT_STOP_TIME": d.moment.format("a.stopped"),
        "AGENT_STATUS": "a.status",
        "AGENT_USER": "a.username",
        "COMMENTS": "a.comments",
        "CONNTYPE": "a.conntype",
        "INITFILE": "a.initfile",
        "LAST_ERROR_DATE": d.day.format("a.last_error_time"),
        "LAST_ERROR_MSG": "a.last_error_msg",
        "LAST_ERROR_TIME": d.time.format("a.last_error_time"),
        "MAX_CONNECTIONS": "CAST(NULL AS integer)",
        "MAX_MEMORY": "a.max_memory",
        "MAX_THREADS": "a.max_threads",
        "SERVICE": "a.service",
        "AGENT_HOST": "a.host",
        "AGENT_PID": "a.pid",
        "LOG_LEVEL": "a.log_level",
    }, "gw_agent a"


def _agent_options(_: Dialect) -> tuple[dict[str, str], str]:
    return {
        "AGENT_NAME": "o.agent_key",
        "ENCRYPTED": "CASE WHEN o.encrypted THEN 'TRUE' ELSE 'FALSE' END",
        "NAME": "o.name",
        "TYPE": "'JAVA_SYSTEM_PROP'",
        "VALUE": "CASE WHEN o.encrypted THEN '<<ENCRYPTED>>' ELSE o.value END",
    }, "gw_agent_option o"


def _links(_: Dialect) -> tuple[dict[str, str], str]:
    return {
        "AGENT_NAME": "l.agent_key",
        "LINK_COMMENT": "l.comments",
        "LINK_NAME": "l.name_key",
        "LINK_TYPE": "l.type",
    }, "gw_link l"


def _links_of(spec: LinkSpec) -> Callable[[Dialect], tuple[dict[str, str], str]]:
    """The view of the links of a type: its columns are the attributes that its description shows."""

    def view(d: Dialect) -> tuple[dict[str, str], str]:
        columns = {
            "AGENT_NAME": "l.agent_key",
            "INBOUND_LOG_QUEUE": "l.inbound_log_queue",
            "LINK_COMMENT": "l.comments",
            "LINK_NAME": "l.name_key",
            "MAX_CONNECTIONS": "l.max_connections",
            "OPTIONS": "l.options",
            "OUTBOUND_LOG_QUEUE": "l.outbound_log_queue",
        }
        for field in shown_attributes(spec):
            columns[field.name.upper()] = d.shown(field)
        return dict(sorted(columns.items())), f"gw_link l WHERE l.type = '{spec.type}'"

    return view


def _foreign_queues(_: Dialect) -> tuple[dict[str, str], str]:
    return {
        "DOMAIN": "f.domain",
        "LINK_NAME": "f.link_key",
        "NAME": "f.name_key",
        "OPTIONS": "f.options",
        "PROVIDER_QUEUE": "f.provider_queue",
        "QUEUE_COMMENT": "f.comments",
    }, "gw_foreign_queue f"


_OUTBOUND = "j.propagation_type IN ('OUTBOUND', 'LOCAL')"
_PLANNED = "(SELECT coalesce(sum(length(p.message_ids)), 0) / 8 FROM gw_plan p WHERE p.job_id = j.id)"
# The hub keeps how many messages can be taken or are in hand; those in hand are few, and are counted.
_TOTALS = f"""(SELECT a.queue_id, a.consumer_id, CAST(sum(a.messages) AS bigint) AS messages FROM aq_total a
        WHERE a.state = {State.READY} GROUP BY a.queue_id, a.consumer_id) n"""
_READY = f"""(coalesce(n.messages, 0) - CASE WHEN t.multiple_consumers = 1
        THEN (SELECT count(*) FROM aq_entry e WHERE e.consumer_id = c.id AND e.state = {State.CLAIMED})
        ELSE (SELECT count(*) FROM aq_message m WHERE m.queue_id = q.id AND m.state = {State.CLAIMED}) END)"""
# In a queue sorted by enqueue time the next message is the oldest. In one sorted by priority it is among the next ones
# of each priority, which are found by going from one priority to the next; otherwise all ready ones must be looked at.
_NEXT_READY = f"""CASE WHEN t.multiple_consumers = 1
        THEN (SELECT e.message_id FROM aq_entry e WHERE e.consumer_id = c.id AND e.state = {State.READY}
              ORDER BY e.k1, e.k2, e.k3 LIMIT 1)
        ELSE (SELECT m.id FROM aq_message m WHERE m.queue_id = q.id AND m.state = {State.READY}
              ORDER BY m.k1, m.k2, m.k3 LIMIT 1) END"""
_FIRST_READY = f"""CASE WHEN t.multiple_consumers = 1
        THEN (SELECT min(e.message_id) FROM aq_entry e WHERE e.consumer_id = c.id AND e.state = {State.READY})
        ELSE (SELECT min(m.id) FROM aq_message m WHERE m.queue_id = q.id AND m.state = {State.READY}) END"""


def _first_of_priorities(source: str, number: str) -> str:
    return f"""(WITH RECURSIVE p(k) AS (SELECT min(x.k1) FROM {source}
          UNION ALL SELECT (SELECT min(x.k1) FROM {source} AND x.k1 > p.k) FROM p WHERE p.k IS NOT NULL)
        SELECT min((SELECT x.{number} FROM {source} AND x.k1 = p.k ORDER BY x.k1, x.k2, x.k3 LIMIT 1))
          FROM p WHERE p.k IS NOT NULL)"""


_FIRST_BY_PRIORITY = f"""CASE WHEN t.multiple_consumers = 1
        THEN {_first_of_priorities(f"aq_entry x WHERE x.consumer_id = c.id AND x.state = {State.READY}", "message_id")}
        ELSE {_first_of_priorities(f"aq_message x WHERE x.queue_id = q.id AND x.state = {State.READY}", "id")} END"""
_OLDEST_READY = f"""(SELECT m.enq_time FROM aq_message m
        WHERE m.id = (CASE WHEN t.sort_list IN ('ENQ_TIME', 'ENQ_TIME,PRIORITY') THEN {_NEXT_READY}
                           WHEN t.sort_list IN ('PRIORITY', 'PRIORITY,ENQ_TIME') THEN {_FIRST_BY_PRIORITY}
                           ELSE {_FIRST_READY} END))"""
_AGENT_POLL_INTERVAL = """(SELECT CASE WHEN o.encrypted THEN NULL ELSE CAST(o.value AS double precision) / 1000 END
        FROM gw_agent_option o WHERE o.agent_key = j.agent_key AND lower(o.name) = 'oracle.mgw.polling_interval')"""
_POLL_INTERVAL = f"coalesce(j.poll_interval, {_AGENT_POLL_INTERVAL}, {DEFAULT_POLL_INTERVAL})"
_OLD_STYLE = "CASE WHEN j.old_style = 1 THEN 'TRUE' ELSE 'FALSE' END"
_BACKLOG = f"CASE WHEN {_OUTBOUND} THEN {_READY} + {_PLANNED} ELSE s.backlog END"
_JOBS_AND_QUEUES = (
    "gw_job j JOIN gw_job_state s ON s.job_id = j.id"
    f" LEFT JOIN aq_queue q ON {_OUTBOUND} AND q.name_key = j.source_key"
    " LEFT JOIN aq_queue_table t ON t.id = q.queue_table_id"
    " LEFT JOIN aq_consumer c ON t.multiple_consumers = 1 AND c.queue_id = q.id AND c.address = ''"
    " AND c.is_subscriber = 1 AND c.name_key = 'MGW_' || j.name_key"
    f" LEFT JOIN {_TOTALS} ON n.queue_id = q.id"
    " AND n.consumer_id = CASE WHEN t.multiple_consumers = 1 THEN c.id ELSE 0 END"
)
_OLDEST_PLAN = "(SELECT min(p.created) FROM gw_plan p WHERE p.job_id = j.id)"


def refused_by_rule(consumer: str) -> str:
    """How many messages the rule of a consumer refused."""
    return f"""(SELECT coalesce(CAST(sum(a.left_out) AS bigint), 0) FROM aq_activity a
        WHERE a.kind = 'CONSUMER' AND a.object_id = {consumer}.id)"""


def _jobs(d: Dialect) -> tuple[dict[str, str], str]:
    # A message in a plan was enqueued before the plan was made: the plan's age is what is known at least.
    since = f"(SELECT min(x.since) FROM (SELECT {_OLDEST_READY} AS since UNION ALL SELECT {_OLDEST_PLAN}) x)"
    return {
        "AGENT_NAME": "j.agent_key",
        "COMMENTS": "j.comments",
        "DESTINATION": "j.destination_key",
        "ENABLED": "CASE WHEN j.enabled THEN 'TRUE' ELSE 'FALSE' END",
        "EXCEPTION_QUEUE": "upper(j.exception_queue)",
        "EXCEPTIONQ_MSGS": "s.exceptioned",
        "FAILURES": "s.failures",
        "JOB_NAME": "j.name_key",
        "LAST_ERROR_MSG": "s.last_error_msg",
        "LAST_ERROR_DATE": d.day.format("s.last_error_time"),
        "LAST_ERROR_TIME": d.time.format("s.last_error_time"),
        "LINK_NAME": "j.link_key",
        "OPTIONS": "j.options",
        "POLL_INTERVAL": _POLL_INTERVAL,
        "PROPAGATED_MSGS": "s.propagated",
        "PROP_STYLE": "j.prop_style",
        "PROPAGATION_TYPE": "j.propagation_type",
        "RULE": "j.rule",
        "SOURCE": "j.source_key",
        "STATUS": "s.status",
        "TRANSFORMATION": "upper(j.transformation)",
        "ACTIVITY": "s.activity",
        "ACTIVITY_REASON": "s.activity_reason",
        "NODES": "s.nodes",
        "GUARANTEE": "s.guarantee",
        "GUARANTEE_NOTE": "s.guarantee_note",
        "BACKLOG": _BACKLOG,
        "OLDEST_MESSAGE_AGE": f"{d.now} - CASE WHEN {_OUTBOUND} THEN {since} ELSE s.oldest END",
        "LAST_PROGRESS": d.moment.format("s.last_progress"),
        "NOT_WORKING_SINCE": d.moment.format("s.not_working_since"),
        "NEXT_ATTEMPT": d.moment.format("s.next_attempt"),
        "FILTERED_MSGS": "s.filtered",
        "DISCARDED_MSGS": "s.discarded",
        "SUPPRESSED_MSGS": "s.suppressed",
        "PROPAGATED_TOTAL": "s.propagated_total",
        "EXCEPTIONQ_TOTAL": "s.exceptioned_total",
        "FILTERED_TOTAL": "s.filtered_total",
        "DISCARDED_TOTAL": "s.discarded_total",
        "SUPPRESSED_TOTAL": "s.suppressed_total",
        "LEFT_OUT_TOTAL": f"s.filtered_total + s.unrouted_total + {refused_by_rule('c')}",
        "REQUIRE_GUARANTEE": "j.require_guarantee",
    }, f"{_JOBS_AND_QUEUES} WHERE j.schedule IS NOT NULL"


def _subscribers(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "DESTINATION": "j.destination_key",
        "EXCEPTIONQ_MSGS": "s.exceptioned",
        "EXCEPTION_QUEUE": "upper(j.exception_queue)",
        "FAILURES": "s.failures",
        "LAST_ERROR_DATE": d.day.format("s.last_error_time"),
        "LAST_ERROR_MSG": "s.last_error_msg",
        "LAST_ERROR_TIME": d.time.format("s.last_error_time"),
        "OPTIONS": "j.options",
        "PROP_STYLE": "j.prop_style",
        "PROPAGATED_MSGS": "s.propagated",
        "PROPAGATION_TYPE": "j.propagation_type",
        "QUEUE_NAME": "j.source_key",
        "RULE": "j.rule",
        "STATUS": f"CASE WHEN s.status {one_of(LEAVING)} THEN 'DELETE_PENDING' ELSE 'ENABLED' END",
        "SUBSCRIBER_ID": "j.name_key",
        "TRANSFORMATION": "upper(j.transformation)",
        "SCHEDULE_ID": "j.schedule_key",
        "OLD_STYLE": _OLD_STYLE,
        "BACKLOG": _BACKLOG,
    }, _JOBS_AND_QUEUES


def _schedules(_: Dialect) -> tuple[dict[str, str], str]:
    common = "propagation_type, source_key, destination_key, schedule_key"
    of_job = f"SELECT {common}, agent_key, poll_interval, enabled, old_style, name_key FROM gw_job"
    alone = """SELECT c.propagation_type, c.source_key, c.destination_key, c.name_key, l.agent_key, c.latency,
        c.enabled = 1, 1, NULL FROM gw_schedule c JOIN gw_link l ON l.name_key = c.link_key"""
    return {
        "DESTINATION": "j.destination_key",
        "LATENCY": _POLL_INTERVAL,
        "NEXT_TIME": "CAST(NULL AS text)",
        "PROPAGATION_TYPE": "j.propagation_type",
        "PROPAGATION_WINDOW": "CAST(NULL AS integer)",
        "SCHEDULE_DISABLED": "CASE WHEN j.enabled THEN 'N' ELSE 'Y' END",
        "SCHEDULE_ID": "j.schedule_key",
        "SOURCE": "j.source_key",
        "START_DATE": "CAST(NULL AS text)",
        "START_TIME": "CAST(NULL AS text)",
        "SUBSCRIBER_ID": "j.name_key",
        "OLD_STYLE": _OLD_STYLE,
    }, f"({of_job} WHERE schedule_key IS NOT NULL UNION ALL {alone}) j"


def _outbound_schedules(d: Dialect) -> tuple[dict[str, str], str]:
    return outbound_columns(d, _BACKLOG), f"{_JOBS_AND_QUEUES} JOIN gw_outbound_schedule o ON o.job_id = j.id"


def _events(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "EVENT_ID": "v.id",
        "EVENT_TIME": d.moment.format("v.time"),
        "EVENT_LEVEL": "v.level",
        "EVENT_NAME": "v.name",
        "AGENT_NAME": "upper(v.agent)",
        "OBJECT_NAME": "v.object",
        "EVENT_TEXT": "v.text",
    }, "gw_event v"


def _audit(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "AUDIT_ID": "a.id",
        "AUDIT_TIME": d.moment.format("a.time"),
        "ACTOR": "a.actor",
        "ACTION": "a.action",
        "OBJECT_NAME": "a.object",
        "HELD": "a.messages",
        "OLDEST": d.moment.format("a.oldest"),
        "MOVED_TO": "a.moved_to",
        "THROUGH": "a.through",
        "KIND": "a.kind",
        "BEFORE_CHANGE": "a.before_change",
        "AFTER_CHANGE": "a.after_change",
        "GENERATION": "CASE WHEN a.generation IS NOT NULL OR (a.version IS NOT NULL AND"
        " (a.before_change IS NOT NULL OR a.after_change IS NOT NULL)) THEN COALESCE(a.generation, a.id) END",
        "VERSION": "a.version",
        "RESULT": "a.result",
    }, "aq_audit a"


def _ledger(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "JOB_NAME": "j.name_key",
        "BATCH": "b.number",
        "KIND": "b.kind",
        "SEQUENCE": "b.sequence",
        "STARTED": d.moment.format("b.started"),
        "FINISHED": d.moment.format("b.finished"),
        "MESSAGES": "b.messages",
        "PROPAGATED": "b.propagated",
        "EXCEPTIONED": "b.exceptioned",
        "FILTERED": "b.filtered",
        "DISCARDED": "b.discarded",
        "SUPPRESSED": "b.suppressed",
        "FIRST_MESSAGE": "b.first_id",
        "LAST_MESSAGE": "b.last_id",
    }, "gw_ledger b LEFT JOIN gw_job j ON j.id = b.job_id"


def _parked(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "JOB_NAME": "j.name_key",
        "MESSAGE_KEY": "k.message_key",
        "PARKED_STATE": "k.state",
        "MESSAGES": "coalesce(length(p.message_ids), 0) / 8 + CASE WHEN k.state = 'TRYING' THEN 1 ELSE 0 END",
        "ATTEMPTS": "k.attempts",
        "REASON": "k.reason",
        "ERROR_NUMBER": "k.error_number",
        "SINCE": d.moment.format("k.since"),
        "NEXT_ATTEMPT": d.moment.format("k.next_attempt"),
    }, (
        "gw_parked k JOIN gw_job j ON j.id = k.job_id"
        " LEFT JOIN gw_plan p ON p.job_id = k.job_id AND p.sequence = -k.number"
    )


def _history(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "JOB_NAME": "j.name_key",
        "INTERVAL_BEGIN": d.moment.format("h.begun"),
        "INTERVAL_END": d.moment.format("h.ended"),
        "PROPAGATED": "h.moved",
        "EXCEPTIONED": "h.exceptioned",
        "FILTERED": "h.filtered",
        "DISCARDED": "h.discarded",
        "FAILURES": "h.failures",
        "BATCHES": "h.batches",
        "BYTES": "h.bytes",
        "STORED_SECONDS": "h.stored",
        "CONFIRMED_SECONDS": "h.confirmed",
        "ORIGIN_SECONDS": "h.origin",
        "BACKLOG": "h.backlog",
        "OLDEST_MESSAGE_AGE": "h.oldest",
        "STATUS": "h.status",
        "ACTIVITY": "h.activity",
    }, "gw_job_history h JOIN gw_job j ON j.id = h.job_id"


def _users(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "USER_NAME": "u.name_key",
        "ROLE": "u.role",
        "PASSWORD": "CASE WHEN u.password IS NULL THEN 'NO' ELSE 'YES' END",
        "TOKENS": "(SELECT count(*) FROM gw_token t WHERE t.user_key = u.name_key)",
        "SESSIONS": "(SELECT count(*) FROM gw_session s WHERE s.user_key = u.name_key)",
        "CREATED": d.moment.format("u.created"),
    }, "gw_user u"


def _certificates(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "LINK_NAME": "c.link_key",
        "AGENT_NAME": "l.agent_key",
        "OWNER": "c.owner",
        "PLACE": "c.place",
        "SUBJECT": "c.subject",
        "EXPIRES": d.moment.format("c.expires"),
        "VALID_FOR": f"c.expires - {d.now}",
        "SEEN": d.moment.format("c.seen"),
    }, "gw_certificate c JOIN gw_link l ON l.name_key = c.link_key"


def _transformations(_: Dialect) -> tuple[dict[str, str], str]:
    return (
        {
            "NAME": f"CASE WHEN upper(x.schema) = '{DEFAULT_SCHEMA}' THEN upper(x.name) ELSE x.name_key END",
            "FROM_TYPE": "x.from_type",
            "TO_TYPE": "x.to_type",
            "DEFINITION": "coalesce(x.definition, a.expression)",
            "COMMENTS": "x.comment",
        },
        """aq_transformation x LEFT JOIN aq_attribute_transformation a
       ON a.transformation_id = x.id AND a.attribute_number = 0""",
    )


def _modules(d: Dialect) -> tuple[dict[str, str], str]:
    return {"NAME": "m.name", "ALLOWED_SINCE": d.moment.format("m.created")}, "aq_module m"


def _rule_functions(d: Dialect) -> tuple[dict[str, str], str]:
    return {
        "NAME": "f.name_key",
        "FUNCTION": "f.function",
        "DEFINED": d.moment.format("f.created"),
    }, "aq_rule_function f"


_VIEWS = {
    "MGW_GATEWAY": _gateway,
    "MGW_AGENT_OPTIONS": _agent_options,
    "MGW_LINKS": _links,
    **{name: _links_of(spec) for name, spec in link_views().items()},
    "MGW_FOREIGN_QUEUES": _foreign_queues,
    "MGW_JOBS": _jobs,
    "MGW_SUBSCRIBERS": _subscribers,
    "MGW_SCHEDULES": _schedules,
    "DBA_OUTBOUND_SCHEDULES": _outbound_schedules,
    "MGW_TRANSFORMATIONS": _transformations,
    "MGW_MODULES": _modules,
    "MGW_RULE_FUNCTIONS": _rule_functions,
    "MGW_EVENTS": _events,
    "MGW_AUDIT": _audit,
    "MGW_LEDGER": _ledger,
    "MGW_PARKED": _parked,
    "MGW_JOB_HISTORY": _history,
    "MGW_USERS": _users,
    "MGW_CERTIFICATES": _certificates,
}

#: Columns of every view, in order.
COLUMNS: Mapping[str, tuple[str, ...]] = {name: tuple(view(SQLITE)[0]) for name, view in _VIEWS.items()}


def create_views(conn: sa.Connection) -> None:
    """Make the views in the transaction of ``conn``; the tables must be there."""
    dialect = POSTGRESQL if conn.dialect.name == "postgresql" else SQLITE
    for name, view in _VIEWS.items():
        columns, source = view(dialect)
        selected = ",\n    ".join(f"{expression} AS {column}" for column, expression in columns.items())
        conn.exec_driver_sql(f"CREATE VIEW {name} AS\nSELECT\n    {selected}\nFROM {source}")


def drop_views(conn: sa.Connection) -> None:
    """Remove the views."""
    for name in reversed(_VIEWS):
        conn.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
