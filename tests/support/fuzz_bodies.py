"""The parsers of bodies, for :mod:`tests.support.fuzz`."""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import zstandard
from google.protobuf import descriptor_pb2

from mgw.transforms import amqp, builtin
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.lcr import lcr_to_xml, xml_to_lcr
from mgw.transforms.lcr.xml_form import NAMESPACE
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.payloads.fields import json_to_fields
from mgw.transforms.payloads.json_text import dump_json, parse_exact, parse_json
from tests.support.fuzz import Target
from tests.unit import test_avro, test_protobuf

__all__ = ["JSON_TOKENS", "NOW", "body_targets", "shape_of", "sound"]

NOW: Final = 1_700_000_000.0
#: Pieces of JSON.
JSON_TOKENS: Final = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"null",
    b"true",
    b"1e999",
    b"-",
    b"\\u0000",
    b"\\ud800",
    b"[" * 99,
)


def sound(found: tuple[Message, ConversionFailure | None]) -> Message | None:
    """The message, None where there is a reason that a sender can understand.

    Raises:
        AssertionError: the reason is that nobody had thought of it.
    """
    message, failure = found
    if failure is not None:
        assert "internal error" not in failure.cause, failure.cause
        return None
    return message


def shape_of(message: Message | None) -> object:
    """What tells messages of different ways apart."""
    if message is None:
        return None
    return type(message.body), len(message.headers), frozenset(kind for _, kind, _ in message.headers)


# -- bodies -----------------------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="mgw-fuzz-")
    _folders.append(folder)
    return Path(folder.name)


_folders: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _avro_schema() -> str:
    path = _folder() / "reading.avsc"
    path.write_text(json.dumps(test_avro.READING))
    return str(path)


@cache
def _protobuf_schema() -> str:
    path = _folder() / "reading.desc"
    files = [test_protobuf.money_file(), test_protobuf.reading_file()]
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())
    return str(path)


def _bytes(message: Message) -> bytes:
    assert isinstance(message.body, bytes)
    return message.body


def _avro(data: bytes) -> object:
    found = builtin.avro_decode(Message(data), schema=_avro_schema())
    builtin.avro_encode(found, schema=_avro_schema())
    return len(str(found.body)).bit_length()


def _protobuf(data: bytes) -> object:
    found = builtin.protobuf_decode(Message(data), schema=_protobuf_schema())
    builtin.protobuf_encode(found, schema=_protobuf_schema())
    named = builtin.protobuf_decode(Message(b"\0\0\0\0\7\0" + data), schemas={7: _protobuf_schema()})
    return len(str(found.body)).bit_length(), len(str(named.body)).bit_length()


def _event(data: bytes) -> object:
    structured = Header("content-type", ValueType.TEXT, "application/cloudevents+json")
    event = builtin.cloudevent(Message(data, (structured,)), form="kafka")
    again = builtin.cloudevent(event, form="structured")
    return shape_of(event), shape_of(again)


_EVENTS = (
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":[1,null]},"datacontenttype":"a/json"}',
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AP8=","count":7,"flag":true}',
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"x","datacontenttype":"text/plain;charset=latin1"}',
)


def _binary_event(data: bytes) -> object:
    """The attributes are in the headers of an AMQP message."""
    message, failure = amqp.decode(data, b'{"a":1}', b"x", b"k", False, NOW, amqp.Rules())
    if failure is not None:
        raise failure
    event = builtin.cloudevent(message, form="structured", source="/s", type="t")
    again = builtin.cloudevent(event, form="mqtt")
    return shape_of(event), shape_of(again)


def _binary_event_inputs() -> Iterator[bytes]:
    headers = [
        Header(f"cloudEvents:{name}", ValueType.TEXT, value)
        for name, value in (("specversion", "1.0"), ("id", "1"), ("source", "/s"), ("type", "t"))
    ]
    headers += [
        Header("cloudEvents:time", ValueType.DATE, 1e9),
        Header("cloudEvents:count", ValueType.LONG, 7),
        Header("cloudEvents:flag", ValueType.BOOLEAN, True),
        Header("cloudEvents:raw", ValueType.RAW, b"\xff"),
        Header("MGW_AMQP_contentType", ValueType.TEXT, "application/json"),
    ]
    yield amqp.encode(Message(b"x", tuple(headers)), NOW, amqp.Rules()).properties
    yield amqp.encode(Message(b"x", msgid=bytes(16)), NOW, amqp.Rules()).properties


def _compressed(data: bytes) -> object:
    """The first byte says which form."""
    encoding: Any = ("gzip", "deflate", "zstd")[data[0] % 3 if data else 0]
    return encoding, type(builtin.decompress(Message(data[1:]), encoding=encoding, max_size=1 << 20).body)


_NAMESPACES = f'xmlns="{NAMESPACE}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_VALUES = (
    "<number>1.5</number>",
    "<date><value>2026-11-24 13:05:00</value><format>SYYYY-MM-DD HH24:MI:SS</format></date>",
    "<interval_ds>+01 02:03:04.5</interval_ds>",
    "<interval_ym>-01-06</interval_ym>",
    "<binary_double>1e300</binary_double>",
    "<raw>0AFF</raw>",
    '<varchar2 xsi:nil="true"/>',
)
_LCRS = (
    f"<ROW_LCR {_NAMESPACES}><source_database_name>D</source_database_name><command_type>UPDATE</command_type>"
    "<object_owner>O</object_owner><object_name>N</object_name><tag>0A</tag><scn>7</scn><new_values>"
    + "".join(f"<new_value><column_name>C</column_name><data>{each}</data></new_value>" for each in _VALUES)
    + "</new_values></ROW_LCR>",
    f"<DDL_LCR {_NAMESPACES}><source_database_name>D</source_database_name><command_type>CREATE TABLE</command_type>"
    "<ddl_text>x</ddl_text></DDL_LCR>",
)


def _lcr(data: bytes) -> object:
    found = xml_to_lcr(data)
    assert xml_to_lcr(lcr_to_xml(found)) == found
    return found.type_name


def _json(data: bytes) -> object:
    value = parse_json(data)
    parse_exact(data)
    try:
        json_to_fields(data)
    except ConversionFailure:
        return type(value), "no fields"
    dump_json(value)
    return type(value), "fields"


_JSONS = (
    b'{"a":1,"b":[1.5e3,null,true,"\\u00fc\\ud83d\\ude00"],"c":{"d":-0}}',
    b'[1,2.50,"x",{"y":[]}]',
    b'{"n":12345678901234567890.123456789,"t":"text"}',
)


@cache
def body_targets() -> tuple[Target, ...]:
    """All of them."""
    made: list[tuple[str, Callable[[bytes], object], Any, tuple[type[Exception], ...], Any]] = [
        (
            "avro",
            _avro,
            [_bytes(builtin.avro_encode(Message(json.dumps(test_avro.VALUE)), schema=_avro_schema()))],
            (ConversionFailure,),
            (),
        ),
        (
            "protobuf",
            _protobuf,
            [_bytes(builtin.protobuf_encode(Message(json.dumps(test_protobuf.VALUE)), schema=_protobuf_schema()))],
            (ConversionFailure,),
            (),
        ),
        ("cloudevents", _event, _EVENTS, (ConversionFailure,), (*JSON_TOKENS, b'"data"', b'"data_base64"', b'"time"')),
        (
            "cloudevents-binary",
            _binary_event,
            _binary_event_inputs(),
            (ConversionFailure,),
            (b"cloudEvents:", b"T", b"d"),
        ),
        (
            "decompress",
            _compressed,
            [
                b"\0" + gzip.compress(b"abc" * 50) * 2,
                b"\1" + zlib.compress(b"abc" * 50),
                b"\2" + zstandard.ZstdCompressor().compress(b"abc" * 50) * 2,
            ],
            (ConversionFailure,),
            (),
        ),
        (
            "lcr",
            _lcr,
            [each.encode() for each in _LCRS],
            (ConversionFailure,),
            (
                b"<",
                b"</",
                b"/>",
                b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
                b"&b;",
                b"<![CDATA[",
                b"&#0;",
                b"NaN",
                b"Infinity",
                b"1E999",
            ),
        ),
        ("json", _json, _JSONS, (ValueError,), JSON_TOKENS),
    ]
    return tuple(Target(name, parse, tuple(inputs), allowed, tokens) for name, parse, inputs, allowed, tokens in made)
