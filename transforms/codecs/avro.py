"""Avro bodies: JSON text from binary Avro and back, with schemas from files or from a registry.

:mod:`mgw.transforms.codecs.schemas` says how a body names its schema, :mod:`mgw.transforms.codecs.avro_values` what the
values are in JSON.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from mgw.transforms.codecs.avro_values import plain, typed
from mgw.transforms.codecs.content import with_body, with_content_type
from mgw.transforms.codecs.registry import Access, Schema
from mgw.transforms.codecs.schemas import SchemaSource, refused
from mgw.transforms.errors import ConfigInvalid, ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.json_text import dump_json, parse_exact

__all__ = ["AVRO_TYPE", "JSON_TYPE", "Source", "decoded", "encoded", "source_of"]

AVRO_TYPE, JSON_TYPE = "application/avro", "application/json"


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema as the library has it, and the types that it names."""

    parsed: Any
    names: Mapping[str, Any]


Source = SchemaSource[AvroSchema]


def source_of(schema: str | None, schemas: Mapping[int, str] | None, access: Access | None) -> Source:
    """The source of these options: made once, so that a file is read once.

    Raises:
        ConfigInvalid: as for :class:`~mgw.transforms.codecs.schemas.SchemaSource`; fastavro is missing.
    """
    return _source(schema, None if schemas is None else tuple(sorted(schemas.items())), access)


@lru_cache(maxsize=256)
def _source(schema: str | None, schemas: tuple[tuple[int, str], ...] | None, access: Access | None) -> Source:
    _fastavro()
    files = None if schemas is None else dict(schemas)
    return SchemaSource("Avro", schema, files, access, read_file=_schema_file, parse=_parsed)


def decoded(message: Message, source: Source) -> Message:
    """The message with its Avro body as JSON text.

    Raises:
        ConversionFailure: the body is no Avro of its schema; its schema does not exist.
        RegistryUnavailable: the registry does not answer.
    """
    body = message.body
    if body is None:
        return message
    if not isinstance(body, bytes):
        raise _refused("decoded", "it is text or fields, and Avro is bytes")
    schema, at = source.to_read(body)
    stream = io.BytesIO(body)
    stream.seek(at)
    try:
        text = dump_json(plain(_fastavro().schemaless_reader(stream, schema.parsed, None)))
    except ConversionFailure:
        raise
    except Exception as error:  # the library raises whatever its parts raise
        raise _refused("decoded", f"{type(error).__name__}: {error}"[:300] if str(error) else "it is cut off") from None
    if stream.tell() != len(body):
        raise _refused("decoded", f"{len(body) - stream.tell()} bytes follow the value: it has another schema")
    return with_content_type(with_body(message, text), JSON_TYPE)


def encoded(message: Message, source: Source, subject: str | None, schema_id: int | None) -> Message:
    """The message with its JSON text as an Avro body.

    Raises:
        ConversionFailure: the body is no JSON, or does not fit the schema.
        RegistryUnavailable: the registry does not answer, or has no such subject.
    """
    body = message.body
    if body is None:
        return message
    if not isinstance(body, (str, bytes)):
        raise _refused("encoded", "it is fields, an object or ANYDATA, and not JSON")
    head, schema = source.to_write(subject, schema_id)
    stream = io.BytesIO()
    stream.write(head)
    try:
        value = typed(parse_exact(body), schema.parsed, schema.names, "the body")
        _fastavro().schemaless_writer(stream, schema.parsed, value, strict_allow_default=True)
    except ConversionFailure:
        raise
    except Exception as error:  # the library raises whatever its parts raise
        raise _refused("encoded", f"{type(error).__name__}: {error}"[:300]) from None
    return with_content_type(with_body(message, stream.getvalue()), AVRO_TYPE)


def _refused(what: str, cause: str) -> ConversionFailure:
    return refused("Avro", what, cause)


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise ConfigInvalid(
            "Avro bodies cannot be read or written",
            cause="the package fastavro is not installed",
            cure="pip install 'messaging-gateway[avro]'",
        ) from None
    return fastavro


def _schema_file(path: str) -> AvroSchema:
    try:
        names: dict[str, Any] = {}
        return AvroSchema(_fastavro().parse_schema(json.loads(Path(path).read_text(encoding="utf-8")), names), names)
    except Exception as error:
        raise ConfigInvalid(
            f"Avro schema {path} cannot be used",
            cause=f"{type(error).__name__}: {error}"[:300],
            cure="name a file that holds an Avro schema as JSON, and that the gateway may read",
        ) from None


@lru_cache(maxsize=1024)
def _parsed(schema: Schema) -> AvroSchema:
    if schema.language != "AVRO":
        raise ConversionFailure(
            f"schema {schema.id} is no Avro schema", cause=f"it is {schema.language}", cure="use a step that reads that"
        )
    try:
        named: dict[str, Any] = {}
        for _, each in schema.references:
            _fastavro().parse_schema(json.loads(each), named)
        return AvroSchema(_fastavro().parse_schema(json.loads(schema.text), named), named)
    except Exception as error:
        raise ConversionFailure(
            f"schema {schema.id} cannot be used",
            cause=f"{type(error).__name__}: {error}"[:300],
            cure="correct the schema",
        ) from None
