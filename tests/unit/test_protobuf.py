"""Protobuf bodies as JSON text and back, with descriptors from files and from a registry."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as pb

from mgw.transforms import builtin
from mgw.transforms.errors import ConfigInvalid, ConversionFailure, TransformFailed
from mgw.transforms.message import Message
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation
from tests.support.schema_registry import SchemaRegistry, schema_registry

Field = pb.FieldDescriptorProto
VALUE: dict[str, Any] = {
    "machine_name": "m7",
    "celsius": 91.5,
    "count": "-9223372036854775808",
    "raw": "AP8=",
    "at": "2026-11-24T13:05:00.123456Z",
    "state": "OFF",
    "counts": [1, -2],
    "tags": {"new": True},
    "inner": {"x": "y"},
    "money": {"cents": "995"},
}


def field(name: str, number: int, kind: int, type_name: str = "", *, repeated: bool = False) -> Field:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    return Field(name=name, number=number, type=kind, type_name=type_name or None, label=label)  # type: ignore[arg-type]


def money_file() -> pb.FileDescriptorProto:
    file = pb.FileDescriptorProto(name="money.proto", package="m", syntax="proto3")
    file.message_type.add(name="Money").field.append(field("cents", 1, Field.TYPE_INT64))
    return file


def reading_file() -> pb.FileDescriptorProto:
    file = pb.FileDescriptorProto(name="reading.proto", package="plant", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "money.proto"])
    reading = file.message_type.add(name="Reading")
    inner = reading.nested_type.add(name="Inner")
    inner.field.append(field("x", 1, Field.TYPE_STRING))
    entry = reading.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.extend([field("key", 1, Field.TYPE_STRING), field("value", 2, Field.TYPE_BOOL)])
    state = file.enum_type.add(name="State")
    for number, name in enumerate(["ON", "OFF"]):
        state.value.add(name=name, number=number)
    reading.field.extend(
        [
            field("machine_name", 1, Field.TYPE_STRING),
            field("celsius", 2, Field.TYPE_DOUBLE),
            field("count", 3, Field.TYPE_INT64),
            field("raw", 4, Field.TYPE_BYTES),
            field("at", 5, Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field("state", 6, Field.TYPE_ENUM, ".plant.State"),
            field("counts", 7, Field.TYPE_INT32, repeated=True),
            field("tags", 8, Field.TYPE_MESSAGE, ".plant.Reading.TagsEntry", repeated=True),
            field("inner", 9, Field.TYPE_MESSAGE, ".plant.Reading.Inner"),
            field("money", 10, Field.TYPE_MESSAGE, ".m.Money"),
        ]
    )
    file.message_type.add(name="Other").field.append(field("y", 1, Field.TYPE_STRING))
    return file


def serialized(file: pb.FileDescriptorProto) -> str:
    """As a registry answers to format=serialized."""
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "reading.desc"
    path.write_bytes(pb.FileDescriptorSet(file=[money_file(), reading_file()]).SerializeToString())
    return str(path)


def defined(name: str, **options: Any) -> Any:
    return compile_transformation(TransformationDefinition("z", f"mgw.transforms.builtin:{name}", options))


def text(message: Message) -> Any:
    assert isinstance(message.body, str)
    return json.loads(message.body)


def test_every_type_comes_back_as_it_was(schema: str) -> None:
    sent = builtin.protobuf_encode(Message(json.dumps(VALUE)), schema=schema)
    assert sent.header("content-type") == "application/x-protobuf"
    found = builtin.protobuf_decode(sent, schema=schema)
    assert text(found) == VALUE
    assert found.header("content-type") == "application/json"


def test_the_bytes_are_those_of_the_format(schema: str) -> None:
    """Written by hand from the rules of the encoding: field 1 as text, field 2 as a double."""
    sent = builtin.protobuf_encode(Message('{"machineName":"m7","celsius":91.5}'), schema=schema)
    assert sent.body == b"\x0a\x02m7\x11" + struct.pack("<d", 91.5)
    shown = text(builtin.protobuf_decode(sent, schema=schema))
    assert (shown["machine_name"], shown["count"], shown["counts"], shown["state"]) == ("m7", "0", [], "ON")


def test_a_message_of_another_name_is_written_and_read(schema: str) -> None:
    for name, value in (("plant.Other", {"y": "1"}), ("plant.Reading.Inner", {"x": "2"})):
        options = {"schema": schema, "message_type": name}
        sent = defined("protobuf_encode", **options)(Message(json.dumps(value)))
        assert text(defined("protobuf_decode", **options)(sent)) == value


def test_a_body_names_its_schema_and_the_place_of_its_message(schema: str) -> None:
    head = b"\x00\x00\x00\x00\x07"
    for name, place, value in (
        ("plant.Reading", b"\x00", VALUE),
        ("plant.Other", b"\x02\x02", {"y": "1"}),
        ("plant.Reading.Inner", b"\x04\x00\x00", {"x": "2"}),
    ):
        encode = defined("protobuf_encode", schemas={7: schema}, schema_id=7, message_type=name)
        sent = encode(Message(json.dumps(value)))
        assert sent.body.startswith(head + place)
        assert text(defined("protobuf_decode", schemas={7: schema})(sent)) == value
    first = defined("protobuf_decode", schemas={7: schema})(Message(head + b"\x02\x00\x0a\x02m7"))
    assert text(first)["machine_name"] == "m7"  # the first, with its place written out


def test_a_registry_gives_descriptors_and_what_they_import(registry: SchemaRegistry) -> None:
    registry.register("money", serialized(money_file()), kind="PROTOBUF")
    number = registry.register(
        "readings", serialized(reading_file()), kind="PROTOBUF", references={"money.proto": ("money", 1)}
    )
    sent = defined("protobuf_encode", registry=registry.url, subject="readings")(Message(json.dumps(VALUE)))
    assert sent.body[:6] == struct.pack(">bI", 0, number) + b"\x00"
    assert text(defined("protobuf_decode", registry=registry.url)(sent)) == VALUE
    assert {path.partition("?")[2] for path in registry.asked} == {"format=serialized"}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\x0a\x05m7", "Error"),
        (b"\xff" * 20, "Error"),
        (b"\x0a\x02m7\xf2\x07\x01x", "does not have, which would be lost"),
        (b"\x4a\x06\x0a\x01a\x7a\x01b", "does not have, which would be lost"),  # in the message of field 9
    ],
)
def test_bytes_that_are_no_message_of_the_schema_are_refused(schema: str, body: bytes, said: str) -> None:
    with pytest.raises(ConversionFailure, match="cannot be decoded as Protobuf") as caught:
        builtin.protobuf_decode(Message(body), schema=schema)
    assert said in caught.value.cause


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "zero byte"),
        (b"\x00\x00\x00\x00\x09\x00", "schema 9 is not among the files"),
        (b"\x00\x00\x00\x00\x07", "cut off"),
        (b"\x00\x00\x00\x00\x07\x02\x08", "no message at place [4]"),
        (b"\x00\x00\x00\x00\x07\xff\xff\xff\xff\xff\xff", "no number"),
        (b"\x00\x00\x00\x00\x07\xff\xff\x03", "deep in others"),
        (b"\x00\x00\x00\x00\x07\x01\x00", "deep in others"),
    ],
)
def test_a_head_that_is_none_is_refused(schema: str, body: bytes, said: str) -> None:
    with pytest.raises(TransformFailed) as caught:
        defined("protobuf_decode", schemas={7: schema})(Message(body))
    assert said in str(caught.value)


@pytest.mark.parametrize("body", ["no json", "[]", '{"colour":"red"}', '{"count":"x"}', '{"state":"BROKEN"}', b"\xff"])
def test_what_does_not_fit_the_message_is_refused(schema: str, body: Any) -> None:
    with pytest.raises(ConversionFailure, match="cannot be encoded as Protobuf"):
        builtin.protobuf_encode(Message(body), schema=schema)


def test_options_that_cannot_work_are_refused_when_they_are_defined(schema: str, tmp_path: Path) -> None:
    (tmp_path / "empty.desc").write_bytes(b"")
    (tmp_path / "alone.desc").write_bytes(pb.FileDescriptorSet(file=[reading_file()]).SerializeToString())
    for name, options, said in (
        ("protobuf_decode", {}, "exactly one of"),
        ("protobuf_decode", {"schema": "gone.desc"}, "gone.desc"),
        ("protobuf_decode", {"schema": str(tmp_path / "empty.desc")}, "no file"),
        ("protobuf_decode", {"schema": str(tmp_path / "alone.desc")}, "alone.desc"),
        ("protobuf_decode", {"schema": schema, "message_type": "plant.Gone"}, "plant.Other"),
        ("protobuf_encode", {"schemas": {7: schema}}, "schema_id"),
        ("protobuf_encode", {"registry": "http://x"}, "subject"),
        ("protobuf_encode", {"schema": schema, "subject": "s"}, "schema names the one"),
    ):
        with pytest.raises(ConfigInvalid) as caught:
            defined(name, **options)
        assert said in str(caught.value), name


def test_another_language_is_refused(registry: SchemaRegistry) -> None:
    number = registry.register("s", '"string"')
    with pytest.raises(TransformFailed) as caught:
        defined("protobuf_decode", registry=registry.url)(Message(struct.pack(">bI", 0, number) + b"\x00"))
    assert "it is AVRO" in str(caught.value)
