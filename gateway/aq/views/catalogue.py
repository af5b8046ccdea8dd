"""The views of definitions: queue tables, queues, subscribers, transformations (AQ guide 12.2 §9.1-9.6, 9.15-9.21).

DBA_ shows everything. USER_ shows what is in the schema called like the user, without the column OWNER. ALL_ shows what
the user may use. Who the user is, :attr:`mgw.gateway.aq.views.dialect.Dialect.user` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mgw.gateway.aq.store.tables import Enabled
from mgw.gateway.aq.views.dialect import Dialect, Maker, View, name_of, owner_of, truth, yes
from mgw.gateway.aq.views.security import may_dequeue, may_see, may_see_table

__all__ = ["VIEWS"]

_NO_NUMBER = "CAST(NULL AS INTEGER)"
_NO_TEXT = "CAST(NULL AS TEXT)"


def _queue_tables(_: Dialect) -> View:
    return {
        "OWNER": owner_of("t"),
        "QUEUE_TABLE": name_of("t"),
        "TYPE": "CASE t.payload_type WHEN 'RAW' THEN 'RAW' WHEN 'ANYDATA' THEN 'VARIANT' ELSE 'OBJECT' END",
        "OBJECT_TYPE": "CASE WHEN t.payload_type <> 'RAW' THEN coalesce(t.object_type, t.payload_type) END",
        "SORT_ORDER": "replace(replace(t.sort_list, 'ENQ_TIME', 'ENQUEUE_TIME'), ',', ', ')",
        "RECIPIENTS": "CASE WHEN t.multiple_consumers = 1 THEN 'MULTIPLE' ELSE 'SINGLE' END",
        "MESSAGE_GROUPING": "t.message_grouping",
        "COMPATIBLE": "t.compatible",
        "PRIMARY_INSTANCE": "coalesce(t.primary_instance, 0)",
        "SECONDARY_INSTANCE": "coalesce(t.secondary_instance, 0)",
        "OWNER_INSTANCE": "1",
        "USER_COMMENT": "t.comment",
        "SECURE": "CASE WHEN t.secure = 1 THEN 'YES' ELSE 'NO' END",
        "REPLICATION_MODE": "'NONE'",
        "MAX_PAYLOAD": "t.max_payload",
        "MESSAGE_VIEW": "(SELECT v.name FROM aq_view v WHERE v.queue_table_id = t.id AND v.kind = 'MESSAGES')",
        "OPTIONS": "t.options",
    }, "aq_queue_table t"


def _queues(d: Dialect) -> View:
    whole = "CAST(q.retention_time AS BIGINT)"
    return {
        "OWNER": owner_of("q"),
        "NAME": name_of("q"),
        "QUEUE_TABLE": name_of("t"),
        "QID": "q.id",
        "QUEUE_TYPE": "q.queue_type",
        "MAX_RETRIES": "CASE WHEN q.queue_type = 'EXCEPTION_QUEUE' THEN 0 ELSE coalesce(q.max_retries, 5) END",
        "RETRY_DELAY": "q.retry_delay",
        "ENQUEUE_ENABLED": yes(f"q.enqueue_enabled = {Enabled.STARTED}"),
        "DEQUEUE_ENABLED": yes(f"q.dequeue_enabled = {Enabled.STARTED}"),
        "RETENTION": f"CASE WHEN q.retention_time < 0 THEN 'FOREVER' WHEN q.retention_time = {whole}"
        f" THEN CAST({whole} AS TEXT) ELSE CAST(q.retention_time AS TEXT) END",
        "USER_COMMENT": "q.comment",
        "NETWORK_NAME": _NO_TEXT,
        "SHARDED": "'FALSE'",
        "CREATED": d.date.format("q.created"),
    }, "aq_queue q JOIN aq_queue_table t ON t.id = q.queue_table_id"


def _subscribers(_: Dialect) -> View:
    return {
        "OWNER": owner_of("q"),
        "QUEUE_NAME": name_of("q"),
        "QUEUE_TABLE": name_of("t"),
        "CONSUMER_NAME": "nullif(c.name_key, '')",
        "ADDRESS": "nullif(c.address, '')",
        "PROTOCOL": "c.protocol",
        "TRANSFORMATION": "upper(c.transformation)",
        "RULE": "c.rule",
        "DELIVERY_MODE": "c.delivery_mode",
        "IF_NONDURABLE_SUBSCRIBER": "'NO'",
        "QUEUE_TO_QUEUE": truth("c.queue_to_queue = 1"),
        "SUBSCRIBER_ID": "c.id",
        "POS_BITMAP": _NO_NUMBER,
        "OPTIONS": "c.options",
    }, (
        "aq_consumer c JOIN aq_queue q ON q.id = c.queue_id JOIN aq_queue_table t ON t.id = q.queue_table_id"
        " WHERE c.is_subscriber = 1"
    )


def _transformations(_: Dialect) -> View:
    return {
        "TRANSFORMATION_ID": "x.id",
        "OWNER": owner_of("x"),
        "NAME": name_of("x"),
        "FROM_TYPE": "x.from_type",
        "TO_TYPE": "x.to_type",
        "COMMENTS": "x.comment",
    }, "aq_transformation x"


def _attribute_transformations(d: Dialect) -> View:
    columns, source = _transformations(d)
    shown = {name: expression for name, expression in columns.items() if name != "COMMENTS"}
    return {
        **shown,
        "ATTRIBUTE": "coalesce(y.attribute_number, 0)",
        "ATTRIBUTE_TRANSFORMATION": "coalesce(y.expression, x.definition)",
    }, f"{source} LEFT JOIN aq_attribute_transformation y ON y.transformation_id = x.id"


def _family(name: str, view: Maker, allowed: Callable[[Dialect], str] | None) -> dict[str, Maker]:
    """The views DBA_, USER_ and ALL_ of one kind of object; ``allowed``: what ALL_ shows, as a condition."""

    def narrowed(d: Dialect, condition: str) -> View:
        columns, source = view(d)
        return columns, f"{source} {'AND' if ' WHERE ' in source else 'WHERE'} {condition}"

    def own(d: Dialect) -> View:
        columns, source = narrowed(d, f"{view(d)[0]['OWNER']} = {d.user}")
        return {column: expression for column, expression in columns.items() if column != "OWNER"}, source

    made: dict[str, Maker] = {f"DBA_{name}": view, f"USER_{name}": own}
    return made if allowed is None else made | {f"ALL_{name}": lambda d: narrowed(d, allowed(d))}


VIEWS: Mapping[str, Maker] = {
    **_family("QUEUE_TABLES", _queue_tables, may_see_table),
    **_family("QUEUES", _queues, may_see),
    **_family("QUEUE_SUBSCRIBERS", _subscribers, may_dequeue),
    **_family("TRANSFORMATIONS", _transformations, None),
    **_family("ATTRIBUTE_TRANSFORMATIONS", _attribute_transformations, None),
}
