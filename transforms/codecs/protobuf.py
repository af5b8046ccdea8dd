"""Protobuf bodies: JSON text from binary Protobuf and back, with descriptors from files or from a registry.

A body that names its schema (see :mod:`mgw.transforms.codecs.schemas`) names the place of its message in the file
behind the id. A file is a descriptor set, as ``protoc --include_imports --descriptor_set_out`` writes it; a registry
gives descriptors itself.

The JSON is that of Protobuf (ProtoJSON) with the names of the schema: 64-bit integers are text, bytes are base64.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from mgw.transforms.codecs.content import with_body, with_content_type
from mgw.transforms.codecs.registry import Access, Schema
from mgw.transforms.codecs.schemas import SchemaSource, refused
from mgw.transforms.errors import ConfigInvalid, ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.json_text import parse_json

__all__ = ["PROTOBUF_TYPE", "Source", "decoded", "encoded", "source_of"]

PROTOBUF_TYPE, _JSON_TYPE = "application/x-protobuf", "application/json"
_MAX_DEPTH = 64  # of messages in messages that a body may name
_STANDARD = "google/protobuf/"


@dataclass(frozen=True, slots=True)
class _Schema:
    """The messages that a file defines: a class by full name, and the full name by its place in the file."""

    classes: Mapping[str, Any]
    names: Mapping[tuple[int, ...], str]


class Source:
    """Where descriptors come from, and which of their messages is meant.

    Args:
        schemas: the source of the files or the registry.
        message: full name of the message, where the body does not tell; None: the first of the file.

    Raises:
        ConfigInvalid: a file has no such message.
    """

    def __init__(self, schemas: SchemaSource[_Schema], message: str | None) -> None:
        self._schemas = schemas
        self._message = message
        for each in schemas.of_files:
            if message is not None and message not in each.classes:
                raise ConfigInvalid(
                    f"message {message} does not exist",
                    cause=f"the messages of the file are {', '.join(sorted(each.classes))[:300] or 'none'}",
                    cure="correct the option message_type",
                )

    def check(self, **options: Any) -> None:
        """See :meth:`mgw.transforms.codecs.schemas.SchemaSource.check`."""
        self._schemas.check(**options)

    def to_read(self, body: bytes) -> tuple[Any, int]:
        """The class of a body's message, and where the message begins."""
        schema, at = self._schemas.to_read(body)
        if not at:
            return self._class(schema), 0
        place, at = _place(body, at)
        name = schema.names.get(place)
        if name is None:
            raise _refused("decoded", f"its schema has no message at place {list(place)}")
        return schema.classes[name], at

    def to_write(self, subject: str | None, schema_id: int | None) -> tuple[bytes, Any]:
        """What a body begins with, and the class of its message."""
        head, schema = self._schemas.to_write(subject, schema_id)
        made = self._class(schema)
        if not head:
            return b"", made
        place = next(place for place, name in schema.names.items() if name == made.DESCRIPTOR.full_name)
        return head + _written_place(place), made

    def _class(self, schema: _Schema) -> Any:
        name = self._message if self._message is not None else schema.names.get((0,))
        found = schema.classes.get(name or "")
        if found is None:
            raise ConversionFailure(
                f"message {name or 'at place 0'} does not exist in the schema",
                cause=f"its messages are {', '.join(sorted(schema.classes))[:300] or 'none'}",
                cure="correct the option message_type of the transformation",
            )
        return found


def source_of(
    schema: str | None, schemas: Mapping[int, str] | None, access: Access | None, message: str | None
) -> Source:
    """The source of these options: made once, so that a file is read once.

    Raises:
        ConfigInvalid: as for :class:`Source` and :class:`~mgw.transforms.codecs.schemas.SchemaSource`; protobuf is
            missing.
    """
    return _source(schema, None if schemas is None else tuple(sorted(schemas.items())), access, message)


@lru_cache(maxsize=256)
def _source(
    schema: str | None, schemas: tuple[tuple[int, str], ...] | None, access: Access | None, message: str | None
) -> Source:
    _protobuf("descriptor_pool")
    files = None if schemas is None else dict(schemas)
    found = SchemaSource("Protobuf", schema, files, access, read_file=_schema_file, parse=_parsed, form="serialized")
    return Source(found, message)


def decoded(message: Message, source: Source) -> Message:
    """The message with its Protobuf body as JSON text.

    Raises:
        ConversionFailure: the body is no Protobuf of its schema, or holds fields that the schema does not have.
        RegistryUnavailable: the registry does not answer.
    """
    body = message.body
    if body is None:
        return message
    if not isinstance(body, bytes):
        raise _refused("decoded", "it is text or fields, and Protobuf is bytes")
    kind, at = source.to_read(body)
    try:
        value = kind.FromString(body[at:])
        if _has_unknown(value):
            raise _refused(
                "decoded", f"it has fields that {kind.DESCRIPTOR.full_name} does not have, which would be lost"
            )
        text = _protobuf("json_format").MessageToJson(
            value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=None
        )
    except ConversionFailure:
        raise
    except Exception as error:  # the library raises whatever its parts raise
        raise _refused("decoded", f"{type(error).__name__}: {error}"[:300]) from None
    return with_content_type(with_body(message, text), _JSON_TYPE)


def encoded(message: Message, source: Source, subject: str | None, schema_id: int | None) -> Message:
    """The message with its JSON text as a Protobuf body.

    Raises:
        ConversionFailure: the body is no JSON, or does not fit the message.
        RegistryUnavailable: the registry does not answer, or has no such subject.
    """
    body = message.body
    if body is None:
        return message
    if not isinstance(body, (str, bytes)):
        raise _refused("encoded", "it is fields, an object or ANYDATA, and not JSON")
    head, kind = source.to_write(subject, schema_id)
    try:
        value = parse_json(body)
        if isinstance(value, list):  # which the library takes for a message without fields
            raise ValueError("it is an array")
        data = _protobuf("json_format").ParseDict(value, kind()).SerializeToString(deterministic=True)
    except Exception as error:  # the library raises whatever its parts raise
        raise _refused("encoded", f"{type(error).__name__}: {error}"[:300]) from None
    return with_content_type(with_body(message, head + data), PROTOBUF_TYPE)


def _has_unknown(value: Any) -> bool:
    """Whether a message, or one in it, holds fields that its schema does not have."""
    if len(_protobuf("unknown_fields").UnknownFieldSet(value)):
        return True
    for field, content in value.ListFields():
        if field.message_type is None:
            continue
        if hasattr(content, "ListFields"):
            inner: Sequence[Any] = (content,)
        elif field.message_type.GetOptions().map_entry:
            inner = [each for each in content.values() if hasattr(each, "ListFields")]
        else:
            inner = content
        if any(map(_has_unknown, inner)):
            return True
    return False


# -- the place of a message in its file --------------------------------------------------------------------------------


def _place(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The indexes of a message, from the outermost to its own, and where they end. One zero byte is the first."""
    count, at = _varint(body, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MAX_DEPTH:
        raise _refused("decoded", f"it names a message that is {count} deep in others")
    place = []
    for _ in range(count):
        index, at = _varint(body, at)
        place.append(index)
    return tuple(place), at


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """A number as Protobuf's sint32 has it."""
    found = shift = 0
    while shift <= 28:
        if at >= len(body):
            raise _refused("decoded", "it is cut off")
        found |= (body[at] & 0x7F) << shift
        at += 1
        if body[at - 1] < 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
    raise _refused("decoded", "the place of its message is no number")


def _written_place(place: tuple[int, ...]) -> bytes:
    if place == (0,):
        return b"\x00"
    return b"".join(_written_varint(each) for each in (len(place), *place))


def _written_varint(value: int) -> bytes:
    value *= 2  # zigzag of what is not negative
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


# -- schemas -----------------------------------------------------------------------------------------------------------


def _protobuf(module: str) -> Any:
    try:
        return import_module(f"google.protobuf.{module}")
    except ImportError:
        raise ConfigInvalid(
            "Protobuf bodies cannot be read or written",
            cause="the package protobuf is not installed",
            cure="pip install 'messaging-gateway[protobuf]'",
        ) from None


def _schema_file(path: str) -> _Schema:
    try:
        files = _protobuf("descriptor_pb2").FileDescriptorSet.FromString(Path(path).read_bytes()).file
        if not files:
            raise ValueError("it holds no file")
        return _schema(list(files))
    except Exception as error:
        raise ConfigInvalid(
            f"Protobuf descriptors {path} cannot be used",
            cause=f"{type(error).__name__}: {error}"[:300],
            cure="name a file that protoc --include_imports --descriptor_set_out wrote, and that the gateway may read",
        ) from None


@lru_cache(maxsize=1024)
def _parsed(schema: Schema) -> _Schema:
    if schema.language != "PROTOBUF":
        raise ConversionFailure(
            f"schema {schema.id} is no Protobuf schema",
            cause=f"it is {schema.language}",
            cure="use a step that reads that",
        )
    make = _protobuf("descriptor_pb2").FileDescriptorProto.FromString
    try:
        files = []
        for name, text in (*schema.references, ("", schema.text)):
            file = make(base64.b64decode(text, validate=True))
            file.name = name or file.name or f"schema-{schema.id}.proto"
            files.append(file)
        return _schema(files)
    except Exception as error:
        raise ConversionFailure(
            f"schema {schema.id} cannot be used",
            cause=f"{type(error).__name__}: {error}"[:300],
            cure="use a registry that answers format=serialized, or the option schemas",
        ) from None


def _schema(files: Sequence[Any]) -> _Schema:
    """What the last of some files defines; the others are those that it imports."""
    pool = _protobuf("descriptor_pool").DescriptorPool()
    added = {file.name for file in files}
    for file in files:
        for needed in file.dependency:
            if needed.startswith(_STANDARD) and needed not in added:
                module = import_module(needed.removesuffix(".proto").replace("/", ".") + "_pb2")
                pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
                added.add(needed)
        pool.AddSerializedFile(file.SerializeToString())
    make = _protobuf("message_factory").GetMessageClass
    classes: dict[str, Any] = {}
    names: dict[tuple[int, ...], str] = {}

    def take(messages: Sequence[Any], prefix: str, place: tuple[int, ...]) -> None:
        for index, message in enumerate(messages):
            name = f"{prefix}.{message.name}".lstrip(".")
            names[*place, index] = name
            classes[name] = make(pool.FindMessageTypeByName(name))
            take(message.nested_type, name, (*place, index))

    take(files[-1].message_type, files[-1].package, ())
    return _Schema(classes, names)


def _refused(what: str, cause: str) -> ConversionFailure:
    return refused("Protobuf", what, cause)
