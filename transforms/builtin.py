"""Transformations that come with the gateway, for ``function: mgw.transforms.builtin:<name>`` in a definition.

Each takes the message and its options and gives the changed message. What only sets values needs no function: use
``set`` and ``unset`` (:mod:`mgw.transforms.steps.registry`).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from mgw.transforms import lcr
from mgw.transforms.codecs.cloudevents import Form, as_event
from mgw.transforms.codecs.compression import MAX_SIZE, Encoding, check_level, compressed, decompressed
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.message import Header, Message, PayloadKind, ValueType, find_header
from mgw.transforms.payloads.json_text import dump_json, parse_json

if TYPE_CHECKING:
    from mgw.transforms.codecs.avro import Source
    from mgw.transforms.codecs.registry import Access

__all__ = [
    "avro_decode",
    "avro_encode",
    "cloudevent",
    "compress",
    "copy_header",
    "decode_text",
    "decompress",
    "drop_headers",
    "json_drop",
    "json_pick",
    "json_rename",
    "lcr_to_xml",
    "protobuf_decode",
    "protobuf_encode",
    "rename_header",
    "text_to_json",
    "uppercase",
    "xml_to_lcr",
]

#: Messages with bytes, text or no body.
Basic = Annotated[Message, PayloadKind.BASIC]


def _object(message: Message) -> dict[str, Any]:
    body = message.body
    if not isinstance(body, (str, bytes)):
        raise ValueError("the body must be a JSON object, but there is none")
    value = parse_json(body)
    if not isinstance(value, dict):
        raise ValueError(f"the body must be a JSON object, but it is {type(value).__name__}")
    return value


def _text(message: Message) -> str:
    body = message.body
    if isinstance(body, bytes):
        return body.decode()
    if isinstance(body, str):
        return body
    raise ValueError("the body must be text, but there is none")


def _with_text(message: Message, text: str) -> Message:
    return replace(message, body=text, kind=PayloadKind.BASIC)


def json_pick(message: Basic, *, attributes: list[str]) -> Basic:
    """Keep only these attributes of a JSON object, in this order; those that are not there stay away."""
    given = _object(message)
    return _with_text(message, dump_json({name: given[name] for name in attributes if name in given}))


def json_drop(message: Basic, *, attributes: list[str]) -> Basic:
    """Remove these attributes of a JSON object."""
    dropped = frozenset(attributes)
    return _with_text(message, dump_json({k: v for k, v in _object(message).items() if k not in dropped}))


def json_rename(message: Basic, *, names: dict[str, str]) -> Basic:
    """Rename attributes of a JSON object, old name to new name; order is kept.

    Raises:
        ValueError: a new name is there already: one of the two values would be lost.
    """
    given = _object(message)
    renamed = {names.get(name, name): value for name, value in given.items()}
    if len(renamed) < len(given):
        raise ValueError("the new name of an attribute already exists")
    return _with_text(message, dump_json(renamed))


def text_to_json(message: Basic, *, attribute: str = "text") -> Basic:
    """Wrap a text body into a JSON object with one attribute: ``hello`` becomes ``{"text":"hello"}``."""
    return _with_text(message, dump_json({attribute: _text(message)}))


def decode_text(message: Message, *, encoding: str = "utf-8") -> Message:
    """Bytes in a character encoding of Python's (``latin-1``, ``cp1252``, ``utf-16``...) become text."""
    body = message.body
    return _with_text(message, body.decode(encoding)) if isinstance(body, bytes) else message


def uppercase(message: Basic) -> Basic:
    """The text of the body in capital letters."""
    return _with_text(message, _text(message).upper())


def rename_header(message: Message, *, old: str, new: str) -> Message:
    """Rename every header ``old``; their order and values stay."""
    return replace(message, headers=tuple(h._replace(name=new) if h.name == old else h for h in message.headers))


def copy_header(message: Message, *, source: str, target: str) -> Message:
    """Copy the first header ``source`` to ``target``, replacing headers of that name; nothing when there is none."""
    found = find_header(message.headers, source)
    if found is None:
        return message
    others = tuple(header for header in message.headers if header.name != target)
    return replace(message, headers=(*others, found._replace(name=target)))


def drop_headers(message: Message, *, names: list[str]) -> Message:
    """Remove headers by name; ``*`` and ``?`` stand for any text and any character (``MGW_AMQP_*``)."""
    kept = tuple(h for h in message.headers if not any(fnmatch.fnmatchcase(h.name, name) for name in names))
    return replace(message, headers=kept)


def lcr_to_xml(
    message: Annotated[Message, PayloadKind.ANYDATA], *, field: str = ""
) -> Annotated[Message, PayloadKind.BASIC, PayloadKind.FIELDS]:
    """A row or DDL change (LCR) of an ANYDATA queue as its XML document, in the body or in a text field.

    Source: AQ guide 12.2 §20.1.5. ``field`` makes a message of named fields with that one (``ORACLE_LCR``).

    Raises:
        ConversionFailure: the body is no LCR.
    """
    text = lcr.lcr_to_xml(message.body)
    if not field:
        return _with_text(message, text)
    return replace(message, body=(Header(field, ValueType.TEXT, text),), kind=PayloadKind.FIELDS)


def xml_to_lcr(
    message: Annotated[Message, PayloadKind.BASIC, PayloadKind.FIELDS], *, field: str = ""
) -> Annotated[Message, PayloadKind.ANYDATA]:
    """The XML document of a row or DDL change, in the body or in a text field, as an LCR for an ANYDATA queue.

    Raises:
        ConversionFailure: the document is not that of an LCR.
        ValueError: there is no such field.
    """
    body = message.body
    if field:
        found = find_header(body, field) if isinstance(body, tuple) else None
        if found is None or not isinstance(found.value, str):
            raise ValueError(f"the body has no text field {field!r}")
        body = found.value
    elif not isinstance(body, (str, bytes)):
        raise ValueError("the body must be the XML text of a change record, but there is none")
    return replace(message, body=lcr.xml_to_lcr(body), kind=PayloadKind.ANYDATA)


def decompress(message: Message, *, encoding: Encoding | None = None, max_size: int = MAX_SIZE) -> Message:
    """The body as it was before it was compressed with gzip, deflate or zstd; the content type says whether it is text.

    Without ``encoding`` the header ``content-encoding`` says how, and a message without one stays as it is.

    Raises:
        ConversionFailure: the body is not of that form, is cut off, or has more than ``max_size`` bytes (64 MiB).
    """
    return decompressed(message, encoding, max_size)


def compress(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    encoding: Encoding = "gzip",
    level: int | None = None,
    min_size: int = 0,
) -> Annotated[Message, PayloadKind.BASIC]:
    """The body compressed with gzip, deflate or zstd, and the header ``content-encoding`` that says so.

    A body of fewer than ``min_size`` bytes, and one that is compressed already, stay as they are.

    Raises:
        ConversionFailure: the body is fields, an object or ANYDATA; the level does not exist.
    """
    return compressed(message, encoding, level, min_size)


def cloudevent(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    form: Form,
    source: str | None = None,
    type: str | None = None,  # noqa: A002  as the attribute is called
    subject: str | None = None,
) -> Annotated[Message, PayloadKind.BASIC]:
    """The CloudEvent of a message in the form of a broker (``kafka``, ``amqp``, ``mqtt``) or as JSON (``structured``).

    A message that is no event becomes one with this ``source`` and ``type``.

    Raises:
        ConversionFailure: the message is no event, and no source and type are given; an attribute is missing.
    """
    return as_event(message, form, source, type, subject)


def avro_decode(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    registry: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
) -> Annotated[Message, PayloadKind.BASIC]:
    """Avro becomes JSON text, with the schema in a file, in files by id, or in a registry.

    Raises:
        ConversionFailure: the body is no Avro of its schema; its schema does not exist.
        RegistryUnavailable: the registry does not answer: the job tries again.
    """
    from mgw.transforms.codecs import avro

    return avro.decoded(message, _avro_source(schema, schemas, registry, registry_login_file, registry_ca_file))


def avro_encode(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    schema_id: int | None = None,
    registry: str | None = None,
    subject: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
) -> Annotated[Message, PayloadKind.BASIC]:
    """JSON text becomes Avro: of the schema in a file, of ``schema_id``, or of the latest of a registry's subject.

    Raises:
        ConversionFailure: the body is no JSON, or does not fit the schema.
        RegistryUnavailable: the registry does not answer, or has no such subject: the job tries again.
    """
    from mgw.transforms.codecs import avro

    source = _avro_source(schema, schemas, registry, registry_login_file, registry_ca_file)
    return avro.encoded(message, source, subject, schema_id)


def protobuf_decode(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    registry: str | None = None,
    message_type: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
) -> Annotated[Message, PayloadKind.BASIC]:
    """Protobuf becomes JSON text, with descriptors in a file, in files by id, or in a registry.

    Raises:
        ConversionFailure: the body is no Protobuf of its schema, or holds fields that the schema does not have.
        RegistryUnavailable: the registry does not answer: the job tries again.
    """
    from mgw.transforms.codecs import protobuf

    access = _access(registry, registry_login_file, registry_ca_file)
    return protobuf.decoded(message, protobuf.source_of(schema, schemas, access, message_type))


def protobuf_encode(
    message: Annotated[Message, PayloadKind.BASIC],
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    schema_id: int | None = None,
    registry: str | None = None,
    subject: str | None = None,
    message_type: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
) -> Annotated[Message, PayloadKind.BASIC]:
    """JSON text becomes Protobuf: the first message of the schema, or that of the full name ``message_type``.

    Raises:
        ConversionFailure: the body is no JSON, or does not fit the message.
        RegistryUnavailable: the registry does not answer, or has no such subject: the job tries again.
    """
    from mgw.transforms.codecs import protobuf

    access = _access(registry, registry_login_file, registry_ca_file)
    return protobuf.encoded(message, protobuf.source_of(schema, schemas, access, message_type), subject, schema_id)


def _avro_source(
    schema: str | None,
    schemas: dict[int, str] | None,
    registry: str | None,
    login_file: str | None,
    ca_file: str | None,
) -> Source:
    from mgw.transforms.codecs import avro

    return avro.source_of(schema, schemas, _access(registry, login_file, ca_file))


def _access(registry: str | None, login_file: str | None, ca_file: str | None) -> Access | None:
    from mgw.transforms.codecs.registry import Access

    return None if registry is None else Access(registry, login_file, ca_file)


def _check_avro(
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    registry: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
    **others: Any,
) -> None:
    source = _avro_source(schema, schemas, registry, registry_login_file, registry_ca_file)
    source.check(**others)


def _check_protobuf(
    *,
    schema: str | None = None,
    schemas: dict[int, str] | None = None,
    registry: str | None = None,
    message_type: str | None = None,
    registry_login_file: str | None = None,
    registry_ca_file: str | None = None,
    **others: Any,
) -> None:
    from mgw.transforms.codecs import protobuf

    access = _access(registry, registry_login_file, registry_ca_file)
    protobuf.source_of(schema, schemas, access, message_type).check(**others)


def _check_decompress(*, max_size: int = MAX_SIZE, **_: Any) -> None:
    if max_size < 1:
        raise ConfigInvalid(
            f"max_size is {max_size}", cause="every body would be too large", cure="give a number of bytes"
        )


def _check_compress(*, encoding: Encoding = "gzip", level: int | None = None, **_: Any) -> None:
    check_level(encoding, level)


#: What else is checked of the options of a function when a transformation that calls it is made.
CHECKS: Mapping[str, Callable[..., None]] = {
    "avro_decode": _check_avro,
    "avro_encode": partial(_check_avro, write=True),
    "compress": _check_compress,
    "decompress": _check_decompress,
    "protobuf_decode": _check_protobuf,
    "protobuf_encode": partial(_check_protobuf, write=True),
}
