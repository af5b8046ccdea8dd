"""What is read from a queue and written to another one is the same message: rows lose nothing, or are refused."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType, _parse_datatype_string

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.payloads.anydata import wrap
from mgw.gateway.aq.queues import transfer
from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.sink.layout import layout_of
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.publish import commit
from mgw.pipelines.sink.rows import RowRefused
from mgw.pipelines.sink.staging import stage
from mgw.pipelines.source.arrow import Converter, reads
from mgw.pipelines.source.batch import arrow_schema
from mgw.pipelines.source.columns import COLUMNS, READ, ddl
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.objects import ObjectValue
from mgw.transforms.payloads.json_text import dump_json
from tests.pipelines.hubs import make, put
from tests.pipelines.test_sink import taken
from tests.property.test_message_properties import HEADERS, JSON, TEXT

pytestmark = pytest.mark.usefixtures("spark")  # a DDL text is parsed by Spark

PLAIN = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20)
PROPERTIES = st.fixed_dictionaries(
    {
        "headers": HEADERS,
        "priority": st.integers(-(2**63), 2**63 - 1),
        "correlation": st.none() | PLAIN,
        "expiration": st.none() | st.floats(1, 2**39),
        "exception_queue": st.none() | PLAIN,
        "sender_name": st.none() | PLAIN,
        "sender_address": st.none() | PLAIN,
        "sender_protocol": st.integers(0, 255),
        "user_property": st.none() | PLAIN,
        "original_msgid": st.none() | st.binary(min_size=16, max_size=16),
    }
)
BODIES: dict[str, st.SearchStrategy[Any]] = {
    "RAW": st.none() | st.binary(max_size=30),
    "BASIC": st.none() | st.binary(max_size=30) | TEXT,
    "TEXT": st.none() | TEXT,
    "JSON": st.none() | JSON.map(dump_json),
    "FIELDS": HEADERS,
}
KINDS = {"RAW": PayloadKind.RAW, "FIELDS": PayloadKind.FIELDS}
POINT = ObjectValue("MGW.POINT", {"X": Decimal("1.5"), "TAG": "t", "RAW_PART": None})


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with tempfile.TemporaryDirectory() as place, open_hub(f"sqlite:///{place}/hub.db", create=True) as hub:
        QueueAdmin(hub).create_type("POINT", {"X": "NUMBER", "TAG": "VARCHAR2(20)", "RAW_PART": "RAW(10)"})
        for kind in (*BODIES, "POINT", "ANYDATA", "XMLTYPE"):
            for side in ("IN", "OUT"):
                make(hub, f"{kind}_{side}", table={"queue_payload_type": kind})
        yield hub


@functools.cache
def _schema(text: str) -> StructType:
    parsed = _parse_datatype_string(text)
    assert isinstance(parsed, StructType)
    return parsed


_TEXTS = {"correlation", "kind", "enq_user", "deq_user", "exception_queue", "expiration_reason", "sender_name"}
_TEXTS |= {"sender_address", "user_property", "headers"}
_BYTES = {"body", "original_msgid"}
_SECONDS = {"enq_time", "deq_time", "ready_at", "expires_at", "expiration"}


def _read(hub: Hub, name: str) -> tuple[StructType, list[pa.RecordBatch]]:
    """Every message of a queue as the data source gives it to Spark.

    Its driver brings a SQLite of its own, which must not open a file that this process has open; so the rows come from
    the hub's connection here, and all else is the data source's.
    """
    names = reads(COLUMNS)
    schema = _schema(ddl())
    with hub.read() as conn:
        queue = transfer.resolve(conn, name)
        values = ", ".join(READ[each].format(a="m") for each in names)
        rows = conn.exec_driver_sql(f"SELECT {values} FROM aq_message m WHERE queue_id = {queue.id} ORDER BY id").all()
    arrays = [pa.array([row[place] for row in rows], _arrow_type(each)) for place, each in enumerate(names)]
    convert = Converter(COLUMNS, arrow_schema(schema), hub_id=hub.hub_id, queues={queue.id: queue.full_name})
    return schema, [convert(pa.record_batch(arrays, names=list(names)))]


def _arrow_type(name: str) -> pa.DataType:
    if name in _BYTES:
        return pa.binary()
    if name in _SECONDS:
        return pa.float64()
    return pa.string() if name in _TEXTS else pa.int64()


def _write(hub: Hub, name: str, schema: StructType, batches: Sequence[pa.RecordBatch], **options: str) -> int:
    chosen = WriteOptions.of({"url": str(hub.engine.url), "queue": name, **options})
    staged = stage(chosen, layout_of(schema), 0, batches)
    done = commit(chosen, 0, [staged], None)
    assert done.state == "DONE"
    return done.published


def _plain(message: Message) -> Message:
    """A message without what the hub gives it."""
    return replace(message, msgid=None, enqueue_time=None, expires_at=None)


def _comparable(message: Message) -> str:
    """Equal for equal messages, NaN and -0.0 among the headers included."""
    return repr(_plain(message))


def _empty(hub: Hub, name: str) -> list[Message]:
    return taken(hub, name, commit=True)


@pytest.mark.parametrize("kind", sorted(BODIES))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_message_read_and_written_is_the_same(hub: Hub, kind: str, data: st.DataObject) -> None:
    parts = st.tuples(BODIES[kind], PROPERTIES)
    messages = [
        Message(body, kind=KINDS.get(kind, PayloadKind.BASIC), **properties)
        for body, properties in data.draw(st.lists(parts, min_size=1, max_size=8))
    ]
    put(hub, f"{kind}_IN", *messages)
    schema, batches = _read(hub, f"{kind}_IN")
    assert _write(hub, f"{kind}_OUT", schema, batches) == len(messages)
    found = sorted(map(_comparable, _empty(hub, f"{kind}_OUT")))
    stored = _empty(hub, f"{kind}_IN")
    assert found == sorted(map(_comparable, stored)) == sorted(map(_comparable, messages))


@pytest.mark.parametrize(
    ("headers", "moment", "partition"),
    [
        ({"MGW_AMQP_timestamp": 1.5e9}, 1_500_000_000_000_000, None),
        ({"MGW_AMQP_timestamp": 1.5e15}, None, None),  # a publisher that counts microseconds
        ({"MGW_AMQP_timestamp": float("nan")}, None, None),
        ({"MGW_AMQP_timestamp": "yesterday"}, None, None),
        ({"MGW_KAFKA_timestamp": 1_500_000_000_000, "MGW_KAFKA_partition": 7}, 1_500_000_000_000_000, 7),
        ({"MGW_KAFKA_timestamp": 10**17, "MGW_KAFKA_partition": 10**11}, None, None),
        ({"MGW_KAFKA_timestamp": "x", "MGW_KAFKA_partition": "y"}, None, None),
    ],
)
def test_headers_that_say_an_impossible_origin_keep_no_message_from_being_read(
    hub: Hub, headers: dict[str, Any], moment: int | None, partition: int | None
) -> None:
    kinds = {str: ValueType.TEXT, int: ValueType.LONG, float: ValueType.DOUBLE}
    given = [Header(key, kinds[type(value)], value) for key, value in headers.items()]
    for key in ("MGW_AMQP_routingKey", "MGW_KAFKA_topic"):
        given += [Header(key, ValueType.TEXT, "t")] * any(key[:8] == each.name[:8] for each in given)
    put(hub, "BASIC_IN", Message("m", headers=tuple(given)))
    _, (batch,) = _read(hub, "BASIC_IN")
    origin = batch.column("origin")
    assert origin.field("timestamp").cast(pa.int64()).to_pylist() == [moment]
    assert origin.field("partition").to_pylist() == [partition]
    _empty(hub, "BASIC_IN")


def _rows(schema: StructType, *rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(schema))


@pytest.mark.parametrize(
    ("queue", "columns", "row", "body"),
    [
        ("RAW", "body BINARY", {"body": b"\x00\xff"}, b"\x00\xff"),
        ("BASIC", "text STRING", {"text": "words"}, "words"),
        ("BASIC", "text STRING", {"text": None}, None),
        ("BASIC", "body BINARY", {"body": b"bytes"}, b"bytes"),
        ("TEXT", "body BINARY", {"body": "grün".encode()}, "grün"),
        ("JSON", "text STRING", {"text": '{"a": 1}'}, '{"a": 1}'),
        ("FIELDS", "text STRING", {"text": '{"a": 1}'}, (Header("a", ValueType.INTEGER, 1),)),
        ("XMLTYPE", "text STRING", {"text": "<a/>"}, "<a/>"),
        ("POINT", "text STRING", {"text": '{"x": 1.50, "tag": "t"}'}, POINT),
        ("ANYDATA", "text STRING", {"text": "words"}, wrap("words")),
        ("ANYDATA", "body BINARY", {"body": b"bytes"}, wrap(b"bytes")),
        ("ANYDATA", "text STRING, type_name STRING", {"text": "16", "type_name": "number"}, wrap(16)),
        (
            "ANYDATA",
            "text STRING, type_name STRING",
            {"text": '{"x": 1}', "type_name": "POINT"},
            wrap(ObjectValue("MGW.POINT", {"X": 1, "TAG": None, "RAW_PART": None})),
        ),
    ],
)
def test_a_row_becomes_what_the_queue_holds(hub: Hub, queue: str, columns: str, row: dict[str, Any], body: Any) -> None:
    schema = _schema(columns)
    _write(hub, f"{queue}_OUT", schema, [_rows(schema, row)])
    (message,) = _empty(hub, f"{queue}_OUT")
    assert message.body == body
    assert (message.priority, message.headers, message.expiration) == (1, (), None)


_HEADERS = "headers ARRAY<STRUCT<name: STRING, type: STRING, value: STRING>>, text STRING"


@pytest.mark.parametrize(
    ("queue", "columns", "row", "reason"),
    [
        ("RAW", "text STRING", {"text": "words"}, "RAW queues hold bytes only"),
        ("RAW", "body BINARY, body_type STRING", {"body": b"x", "body_type": "TEXT"}, "RAW queues hold bytes only"),
        ("TEXT", "body BINARY", {"body": b"\xff"}, "not UTF-8"),
        ("JSON", "text STRING", {"text": "{"}, "not JSON text"),
        ("XMLTYPE", "text STRING", {"text": "<a>"}, "XML"),
        ("FIELDS", "text STRING", {"text": "[1]"}, "not an object"),
        ("POINT", "text STRING", {"text": '{"y": 1}'}, "y"),
        ("ANYDATA", "body BINARY, body_type STRING", {"body": b"1", "body_type": "VALUE"}, "type_name"),
        ("ANYDATA", "text STRING, type_name STRING", {"text": "x", "type_name": "NUMBER"}, "NUMBER"),
        ("BASIC", "body BINARY, text STRING", {"body": b"a", "text": "b"}, "differ"),
        ("BASIC", "text STRING, body_type STRING", {"text": "b", "body_type": "RAW"}, "body_type says RAW"),
        ("BASIC", "text STRING, body_type STRING", {"text": "b", "body_type": "TXT"}, "'TXT'"),
        ("BASIC", "text STRING, kind STRING", {"text": "b", "kind": "BASE"}, "BASE"),
        ("BASIC", "text STRING, delay DOUBLE", {"text": "b", "delay": -1.0}, "delay"),
        ("BASIC", "text STRING, correlation STRING", {"text": "b", "correlation": "c" * 129}, "129 characters"),
        ("BASIC", "text STRING, original_msgid BINARY", {"text": "b", "original_msgid": b"x"}, "16"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [{"name": "n", "type": "LONG", "value": "x"}]}, "header 'n'"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [{"name": "n", "type": "BYTE", "value": "128"}]}, "beyond BYTE"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [{"name": "n", "type": "XML", "value": "1"}]}, "'XML'"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [{"name": "n", "type": "RAW", "value": "?"}]}, "header 'n'"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [{"name": "n", "type": None, "value": None}]}, "no value"),
        ("BASIC", _HEADERS, {"text": "b", "headers": [None]}, "no name"),
    ],
)
def test_a_row_that_can_be_no_message_is_refused_with_its_place(
    hub: Hub, queue: str, columns: str, row: dict[str, Any], reason: str
) -> None:
    schema = _schema(columns)
    good: dict[str, Any] = dict.fromkeys(row)
    if queue == "FIELDS":  # such a message has a body
        good["text"] = "{}"
    with pytest.raises(RowRefused, match="row 3 of its partition") as refused:
        _write(hub, f"{queue}_OUT", schema, [_rows(schema, good, good), _rows(schema, good, row)])
    assert reason in str(refused.value)
    with hub.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM gw_sink_staging").scalar() == 0
    assert taken(hub, f"{queue}_OUT") == []


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("text STRING, colour STRING", "column 'colour' cannot be written"),
        ("text STRING, TEXT STRING", "occurs twice"),
        ("priority INT", "neither a column 'body' nor 'text'"),
        ("text STRING, priority STRING", "a message needs BIGINT"),
        ("text STRING, headers MAP<STRING, STRING>", "a message needs ARRAY<STRUCT<name"),
        ("text BINARY", "a message needs STRING"),
    ],
)
def test_columns_that_no_message_has_are_refused(columns: str, reason: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        layout_of(_schema(columns))
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "option 'queue' is missing"),
        ({"queue": "Q", "que": "x"}, "option 'que' is unknown"),
        ({"queue": "Q", "batch": "1"}, "'batch' is given without 'query'"),
        ({"queue": "Q", "query": "x", "batch": "-1"}, "option 'batch'"),
        ({"queue": "Q", "query": " x"}, "option 'query'"),
        ({"queue": "Q", "maxRowsPerSecond": "0"}, "option 'maxRowsPerSecond'"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        WriteOptions.of({"url": "sqlite:///h.db", **options})
    assert reason in str(refused.value)
    assert "h.db" not in repr(WriteOptions.of({"url": "sqlite:///h.db", "queue": "Q"}))
