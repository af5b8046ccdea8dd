"""Compressed bodies: gzip, deflate and zstd, as ``content-encoding`` names them (RFC 9110 §8.4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from mgw.transforms.amqp.common import text_codec
from mgw.transforms.codecs.content import (
    ENCODING_HEADERS,
    content_encoding,
    content_type,
    text_charset,
    text_or_bytes,
    with_body,
    with_content_type,
    without_headers,
)
from mgw.transforms.errors import ConfigInvalid, ConversionFailure
from mgw.transforms.header_table import CONTENT_ENCODING
from mgw.transforms.message import Header, Message, ValueType

__all__ = ["MAX_SIZE", "Encoding", "check_level", "compressed", "decompressed"]

Encoding = Literal["gzip", "deflate", "zstd"]
#: Bytes that a body may have when it is decompressed.
MAX_SIZE = 64 * 1024 * 1024
_TEXT_TYPE = "text/plain; charset=utf-8"
_PIECE = 512
_MEMBERS = 1000  # of gzip, or frames of zstd: each costs time, however little it holds
_TOO_MANY = f"it has more than {_MEMBERS} members"


def decompressed(message: Message, encoding: Encoding | None, max_size: int) -> Message:
    """The message with its body as it was before it was compressed.

    Without ``encoding`` the header ``content-encoding`` says how, and a message without one stays as it is. The body is
    text where the content type says so.

    Raises:
        ConversionFailure: the body is not of that form, is cut off, or is larger than ``max_size`` bytes.
        ConfigInvalid: zstd needs a package that is not installed.
    """
    header = content_encoding(message)
    named = [] if header is None else [part.strip().lower() for part in str(header.value).split(",")]
    wanted = [encoding] if encoding else [_ALIASES.get(part, part) for part in named if not _is_charset(part)]
    body = message.body
    if not wanted or body is None:
        return message
    if not isinstance(body, bytes):
        raise ConversionFailure(
            f"the body cannot be decompressed as {wanted[-1]}",
            cause="it is text or fields, and a compressed body is bytes",
            cure="have its sender or the foreign queue say that it is bytes (KAFKA_ValueType, MQTT_PayloadType: RAW)",
        )
    for each in reversed(wanted):
        body = _decompress(body, each, max_size)
    left = ", ".join(part for part in named if _is_charset(part))
    headers = without_headers(message, ENCODING_HEADERS)
    if left and header is not None:
        headers = (*headers, header._replace(value=left))
    return replace(with_body(message, text_or_bytes(body, content_type(message))), headers=headers)


def compressed(message: Message, encoding: Encoding, level: int | None, min_size: int) -> Message:
    """The message with its body compressed, and the header ``content-encoding`` that says so.

    A body of fewer than ``min_size`` bytes, one that is compressed already and none at all stay as they are. Text is
    written in the character set of its content type; text without a content type gets one.

    Raises:
        ConversionFailure: the body is fields, an object or ANYDATA, or its character set cannot hold the text.
        ConfigInvalid: zstd needs a package that is not installed.
    """
    body, header = message.body, content_encoding(message)
    if body is None or (header is not None and _coded(str(header.value))):
        return message
    if isinstance(body, str):
        media = content_type(message)
        if media is None:
            message = with_content_type(message, _TEXT_TYPE)
        try:
            data = body.encode(text_charset(media) or "utf-8")
        except UnicodeError as error:
            raise ConversionFailure(
                f"the text cannot be written as {media}", cause=str(error), cure="correct the content type"
            ) from None
    elif isinstance(body, bytes):
        data = body
    else:
        raise ConversionFailure(
            f"the body cannot be compressed as {encoding}",
            cause="it is fields, an object or ANYDATA",
            cure="convert it to text or bytes in a step before",
        )
    if len(data) < min_size:
        return message
    name = header.name if header is not None else CONTENT_ENCODING
    headers = (*without_headers(message, ENCODING_HEADERS), Header(name, ValueType.TEXT, encoding))
    return replace(with_body(message, _COMPRESS[encoding](data, level)), headers=headers)


def _coded(names: str) -> bool:
    return not all(_is_charset(part.strip().lower()) for part in names.split(","))


def _is_charset(name: str) -> bool:
    """Whether it is no encoding of the content: many clients of AMQP name the character set there."""
    return name in ("", "identity") or (name not in _ALIASES and text_codec(name) is not None)


# -- the three forms ---------------------------------------------------------------------------------------------------


def _decompress(data: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in _COMPRESS:
        raise ConversionFailure(
            f"the body cannot be decompressed as {encoding:.40}",
            cause="the encoding is not known here",
            cure=f"have the sender use one of {', '.join(_COMPRESS)}",
        )
    try:
        return _zstd_read(data, limit) if encoding == "zstd" else _zlib_read(data, encoding, limit)
    except (zlib.error, EOFError, ValueError) as error:
        raise ConversionFailure(
            f"the body cannot be decompressed as {encoding}",
            cause=str(error) or "it is cut off",
            cure="correct the sender, or the encoding it names",
        ) from None


def _zlib_read(data: bytes, encoding: str, limit: int) -> bytes:
    """All members of a gzip body; a deflate body with or without the head of zlib."""
    if encoding == "deflate" and not _has_zlib_head(data):
        window = -zlib.MAX_WBITS
    else:
        window = zlib.MAX_WBITS | 16 if encoding == "gzip" else zlib.MAX_WBITS
    pieces: list[bytes] = []
    size = 0
    for _ in range(_MEMBERS):
        reader = zlib.decompressobj(window)
        piece = reader.decompress(data, limit - size + 1)
        size += len(piece)
        if size > limit:
            raise _too_large(encoding, limit)
        if not reader.eof:
            raise EOFError("it is cut off")
        pieces.append(piece)
        data = reader.unused_data
        if encoding != "gzip":
            if data:
                raise ValueError(f"{len(data)} bytes follow its end")
            break
        data = data.lstrip(b"\x00")
        if not data:
            break
    else:
        raise ValueError(_TOO_MANY)
    return b"".join(pieces)


def _has_zlib_head(data: bytes) -> bool:
    return len(data) >= 2 and data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ConfigInvalid(
            "zstd bodies cannot be read or written",
            cause="the package zstandard is not installed",
            cure="pip install 'messaging-gateway[zstd]'",
        ) from None
    return zstandard


def _zstd_read(data: bytes, limit: int) -> bytes:
    """All frames, in small pieces: a block of four bytes becomes 128 KiB, so a large piece could fill the memory."""
    zstandard = _zstd()
    found: list[bytes] = []
    size = at = 0
    for _ in range(_MEMBERS):
        reader = zstandard.ZstdDecompressor().decompressobj()
        while not reader.eof:
            if at >= len(data):
                raise EOFError("it is cut off")
            try:
                piece = reader.decompress(data[at : at + _PIECE])
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from None
            at += _PIECE
            size += len(piece)
            if size > limit:
                raise _too_large("zstd", limit)
            found.append(piece)
        at = min(at, len(data)) - len(reader.unused_data)
        if at >= len(data):
            break
    else:
        raise ValueError(_TOO_MANY)
    return b"".join(found)


def _too_large(encoding: str, limit: int) -> ConversionFailure:
    return ConversionFailure(
        f"the body is too large when it is decompressed as {encoding}",
        cause=f"it has more than {limit} bytes",
        cure="raise the option max_size of the transformation if you trust the sender",
    )


def _gzip(data: bytes, level: int | None) -> bytes:
    writer = zlib.compressobj(_default(level, -1), zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return writer.compress(data) + writer.flush()


def _deflate(data: bytes, level: int | None) -> bytes:
    return zlib.compress(data, _default(level, -1))


def _zstd_write(data: bytes, level: int | None) -> bytes:
    return _zstd().ZstdCompressor(level=_default(level, 3)).compress(data)  # type: ignore[no-any-return]


def _default(level: int | None, default: int) -> int:
    return default if level is None else level


def check_level(encoding: Encoding, level: int | None) -> None:
    """Refuse what cannot be written here.

    Raises:
        ConfigInvalid: the level does not exist, or zstd needs a package that is not installed.
    """
    highest = 9
    if encoding == "zstd":
        _zstd()
        highest = 22
    if level is not None and not 1 <= level <= highest:
        raise ConfigInvalid(
            f"bodies cannot be compressed as {encoding} with level {level}",
            cause="there is no such level",
            cure=f"give a level from 1 to {highest}",
        )


_COMPRESS: dict[str, Callable[[bytes, int | None], bytes]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd_write,
}
#: Encodings as senders name them.
_ALIASES = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate", "zstd": "zstd"}
