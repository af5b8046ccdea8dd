"""Bridged Kafka topics as data frames and streams in the shape of the data source ``mgw``.

Spark's own Kafka source reads; :func:`messages` turns what the gateway wrote into a record
(:mod:`mgw.transforms.kafka`) back into columns, with expressions of Spark alone, so that nothing passes through Python.
The columns hold what an inbound job of the gateway would store:

* ``headers``: typed, with the names the gateway gives them (``MGW_KAFKA_H_x`` where ``x`` would mean something else),
  and ``MGW_KAFKA_key``. Topic, partition, offset and timestamp are in ``origin`` only.
* ``priority``, ``correlation``, ``expiration``, ``expires_at``, ``ready_at``, ``exception_queue``, ``original_msgid``,
  ``sender_name``, ``sender_address`` from the ``MGW_AQ_*`` headers that a job with AQ_MsgProperties writes. They leave
  the header array; one that does not hold what its name says stays there. ``correlation`` is otherwise the key, where
  that is text of at most 128 characters.
* ``msgid`` and ``origin.msgid``: header ``MGW_AQ_messageID``, the id in the hub that sent it.
* ``enq_time``: the record's timestamp, which is when it was enqueued in that hub.
* ``queue``: the topic. ``id`` and ``seq``: the offset. ``body``: the value; ``text``: the value where it is UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from mgw.pipelines.reach import check_reachable
from mgw.pipelines.registry import JobSettings
from mgw.pipelines.source.columns import COLUMNS
from mgw.transforms.kafka.types import LETTERS, MESSAGE_ID, PROPERTIES, RESERVED, TYPES
from mgw.transforms.message import MAX_CORRELATION, ValueType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KafkaTopics", "header", "messages", "read_topics", "stream_topics"]

_FOREIGN, _NULL, _KEY = "MGW_KAFKA_H_", "MGW_KAFKA_N_", "MGW_KAFKA_key"
_WHOLE: Final = ("BYTE", "SHORT", "INTEGER", "LONG", "UBYTE", "USHORT", "UINT")
_READ: Final = sorted(PROPERTIES | {MESSAGE_ID})
#: Whether header ``h`` is one that a property is read from, and holds what its name says.
_RIGHT: Final = "h.type = CASE h.name {} ELSE '' END".format(
    " ".join(f"WHEN '{name}' THEN '{RESERVED[name].name}'" for name in _READ)
)
_TABLE: Final = "from_json({text}, 'MAP<STRING, STRING>')"


class KafkaTopics(JobSettings):
    """Topics of one Kafka cluster, as the settings of a job name them."""

    bootstrap_servers: str = Field(min_length=1, description="host:port, separated by commas.")
    topics: tuple[str, ...] = Field(min_length=1, description="Topics that a job of the gateway writes.")
    starting_offsets: str = Field(
        default="earliest", description="Where a stream without a checkpoint begins: earliest, latest, or Spark's JSON."
    )
    max_rows: int | None = Field(default=None, ge=1, description="Maximum rows per batch; default: all that exist.")
    options: dict[str, str] = Field(
        default_factory=dict,
        description="Further options of Spark's Kafka source, such as kafka.security.protocol; they take precedence.",
    )

    def source_options(self) -> dict[str, str]:
        """What Spark's Kafka source is given; only what transactions have committed is read."""
        options = {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting_offsets,
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        }
        return options | self.options


def read_topics(spark: SparkSession, topics: KafkaTopics) -> DataFrame:
    """What is in the topics now, in the shape of the data source ``mgw``."""
    options = _checked(topics)
    if options["startingOffsets"] == "latest":  # means nothing to a batch
        options["startingOffsets"] = "earliest"
    return messages(spark.read.format("kafka").options(**options).load())


def stream_topics(spark: SparkSession, topics: KafkaTopics) -> DataFrame:
    """The topics as a stream, in the shape of the data source ``mgw``."""
    options = _checked(topics)
    if topics.max_rows is not None:
        options = {"maxOffsetsPerTrigger": str(topics.max_rows)} | options
    return messages(spark.readStream.format("kafka").options(**options).load())


def _checked(topics: KafkaTopics) -> dict[str, str]:
    """Options for brokers that are there: Spark tries for minutes."""
    options = topics.source_options()
    servers = options["kafka.bootstrap.servers"]
    check_reachable(f"Kafka at {servers}", servers, "correct bootstrap_servers, or start Kafka")
    return options


def messages(
    records: DataFrame, *, text_headers: bool = False, properties: bool = True, documented: bool = False
) -> DataFrame:
    """Records of Spark's Kafka source (with ``includeHeaders``) as messages; pure, for batches and streams.

    Args:
        text_headers: headers of other systems are text where they are UTF-8 (KAFKA_HeaderType = TEXT).
        documented: they have the names of the manual, ``MGW_KAFKA_H_x``, and are raw (``header_names`` of the link).
        properties: whether ``MGW_AQ_*`` headers become properties (AQ_MsgProperties); otherwise they stay headers.
    """
    steps = {
        "_all": _all_headers(),
        "_types": _last_table(),
        "_letters": _TABLE.format(text="_types.text"),
        "_rest": "IF(_types IS NULL, _all, filter(_all, h -> h.i <> _types.i))",
        "_lettered": _lettered(),
        "_named": _named(text_headers=text_headers, documented=documented),
        "_typed": _typed(),
        "_own": _own(),
    }
    frame = records
    for name, expression in steps.items():
        frame = frame.selectExpr("*", f"{expression} AS {name}")
    values = _values(properties=properties)
    return frame.selectExpr(
        *(f"CAST({values.get(column.name, 'NULL')} AS {column.type}) AS {column.name}" for column in COLUMNS)
    )


def _all_headers() -> str:
    return (
        "transform(coalesce(headers, array()), (h, i) -> named_struct('i', i, 'key', h.key, 'value', h.value, "
        "'text', try_validate_utf8(CAST(h.value AS STRING))))"
    )


def _last_table() -> str:
    return f"try_element_at(filter(_all, h -> h.key = '{TYPES}' AND {_TABLE.format(text='h.text')} IS NOT NULL), -1)"


def _lettered() -> str:
    """The letter of each header: the one of its occurrence, where a name has several."""
    letters = "try_element_at(_letters, h.key)"
    before = "size(filter(_rest, o -> o.key = h.key AND o.i < h.i))"
    chosen = (
        f"CASE WHEN _letters IS NULL THEN NULL WHEN length({letters}) < 2 THEN nullif({letters}, '') "
        f"ELSE substr({letters}, least({before} + 1, length({letters})), 1) END"
    )
    return f"transform(_rest, h -> named_struct('key', h.key, 'value', h.value, 'text', h.text, 'letter', {chosen}))"


def _named(*, text_headers: bool, documented: bool) -> str:
    """Names and types as the gateway gives them."""
    reserved = ", ".join(f"'{name}'" for name in sorted(RESERVED))
    by_letter = " ".join(f"WHEN '{letter}' THEN '{kind.name}'" for kind, letter in LETTERS.items())
    by_name = " ".join(f"WHEN '{name}' THEN '{kind.name}'" for name, kind in sorted(RESERVED.items()))
    null = "(h.value IS NULL OR lower(h.letter) = 'n')"
    told = "coalesce(upper(h.letter) = h.letter, false)"
    held = (
        f"(h.key = '' OR (startswith(h.key, 'MGW_') AND h.key NOT IN ({reserved})) "
        f"OR (h.letter IS NOT NULL AND h.key IN ({reserved})))"
    )
    name = (
        f"IF(NOT {told} AND {held}, concat('{_FOREIGN}', h.key), h.key)"
        if not documented
        else f"CASE WHEN {null} THEN concat('{_NULL}', h.key) "
        f"WHEN h.letter IS NULL AND h.key IN ({reserved}) OR upper(h.letter) = h.letter THEN h.key "
        f"ELSE concat('{_FOREIGN}', h.key) END"
    )
    nothing, empty = ("TEXT", "") if documented else ("JSON", "null")
    other = "IF(h.text IS NULL OR h.text RLIKE '\\\\p{Cc}', 'RAW', 'TEXT')"
    if text_headers or documented:
        other = f"'{ValueType.TEXT.name if text_headers else ValueType.RAW.name}'"
    kind = (
        f"CASE WHEN {null} THEN '{nothing}' WHEN h.letter IS NULL THEN CASE h.key {by_name} ELSE {other} END "
        f"ELSE CASE upper(h.letter) {by_letter} ELSE 'RAW' END END"
    )
    text = f"IF({null}, '{empty}', h.text)"
    return f"transform(_lettered, h -> named_struct('name', {name}, 'type', {kind}, 'text', {text}, 'value', h.value))"


def _typed() -> str:
    """Values as text; what cannot be what its type says stays raw."""
    whole = ", ".join(f"'{name}'" for name in _WHOLE)
    fits = (
        "CASE WHEN h.type = 'RAW' OR h.text IS NULL THEN false WHEN h.type IN ('TEXT', 'JSON', 'DECIMAL') THEN true "
        "WHEN h.type = 'BOOLEAN' THEN h.text IN ('true', 'false') "
        f"WHEN h.type IN ({whole}) THEN h.text RLIKE '^[+-]?[0-9]+$' "
        "ELSE try_cast(h.text AS DOUBLE) IS NOT NULL END"
    )
    whole_number = "h.type IN ('FLOAT', 'DOUBLE', 'DATE') AND h.text RLIKE '^[+-]?[0-9]+$'"
    shown = f"IF({whole_number}, concat(h.text, '.0'), h.text)"  # as in the view of a hub
    return (
        f"transform(_named, h -> IF({fits}, named_struct('name', h.name, 'type', h.type, 'value', {shown}), "
        f"named_struct('name', h.name, 'type', 'RAW', 'value', {_base64('h.value')})))"
    )


def _own() -> str:
    """The few that properties are read from, picked once."""
    return f"filter(_typed, h -> {_RIGHT})"


def _base64(value: str) -> str:
    return f"replace(base64({value}), '\\r\\n', '')"  # Spark may break lines


def _first(name: str) -> str:
    """Text of the first header of a reserved name that holds what the name says; NULL without one."""
    return f"try_element_at(filter(_own, h -> h.name = '{name}'), 1).value"


def _values(*, properties: bool) -> dict[str, str]:
    """The columns that a record has anything for."""
    identity = f"unbase64({_first(MESSAGE_ID)})"
    identity = f"IF(length({identity}) = 16, {identity}, NULL)"
    key_text = "try_validate_utf8(CAST(key AS STRING))"
    correlation = f"IF(length({key_text}) <= {MAX_CORRELATION}, {key_text}, NULL)"
    written = "IF(timestampType = 0 OR timestampType = 1, timestamp, NULL)"
    headers = "_typed"
    found: dict[str, str] = {"priority": "1"}
    if properties:
        others = f"filter(_typed, h -> h.name = '{MESSAGE_ID}' OR NOT ({_RIGHT}))"
        headers = f"IF(size(_own) = 0, _typed, {others})"
        own = _first("MGW_AQ_correlation")
        correlation = f"coalesce(IF(length({own}) <= {MAX_CORRELATION}, {own}, NULL), {correlation})"
        left = f"try_cast({_first('MGW_AQ_expiration')} AS DOUBLE)"
        until = f"timestamp_millis(try_cast({_first('MGW_AQ_expires_at')} AS BIGINT))"
        delay = f"try_cast({_first('MGW_AQ_delay')} AS DOUBLE)"
        original = f"unbase64({_first('MGW_AQ_original_msgid')})"
        sender = _first("MGW_AQ_sender")
        parsed = f"from_json({sender}, 'name STRING, address STRING')"
        plain = f"IF({sender} LIKE '{{%', NULL, {sender})"
        found = {
            "priority": f"coalesce(try_cast({_first('MGW_AQ_priority')} AS BIGINT), 1)",
            "expiration": left,
            "expires_at": f"coalesce({until}, {_later(left)})",
            "ready_at": _later(delay),
            "exception_queue": _first("MGW_AQ_exception_queue"),
            "original_msgid": f"IF(length({original}) = 16, {original}, NULL)",
            "sender_name": f"coalesce({parsed}.name, {plain})",
            "sender_address": f"{parsed}.address",
        }
    key = f"named_struct('name', '{_KEY}', 'type', 'RAW', 'value', {_base64('key')})"
    whole = f"concat(IF(key IS NULL, array(), array({key})), {headers})"
    null_body = f"value IS NULL OR (length(value) = 0 AND try_element_at(_letters, '{TYPES}') LIKE '%n')"
    body = f"IF({null_body}, NULL, value)"
    origin = (
        f"named_struct('system', 'KAFKA', 'name', topic, 'partition', partition, 'offset', offset, "
        f"'timestamp', {written}, 'msgid', {identity})"
    )
    return found | {
        "queue": "topic",
        "msgid": identity,
        "id": "offset",
        "seq": "offset",
        "correlation": correlation,
        "kind": "'BASIC'",
        "enq_time": written,
        "headers": f"IF(size({whole}) = 0, NULL, {whole})",
        "body_type": f"IF({null_body}, 'NONE', 'RAW')",
        "body": body,
        "text": f"try_validate_utf8(CAST({body} AS STRING))",
        "origin": origin,
    }


def _later(seconds: str) -> str:
    return f"timestamp_micros(unix_micros(timestamp) + CAST({seconds} * 1000000 AS BIGINT))"


def header(name: str, column: str = "headers") -> Any:
    """The text of the first header called ``name`` in a header array, as a column; NULL without one."""
    from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

    found = F.filter(F.col(column), lambda each: each["name"] == F.lit(name))
    return F.try_element_at(found, F.lit(1))["value"]
