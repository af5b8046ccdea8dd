"""Content type and encoding of a message, whichever broker brought it."""

from __future__ import annotations

from dataclasses import replace

from mgw.transforms.amqp.common import charset_parameter, text_codec
from mgw.transforms.header_table import CONTENT_ENCODING, CONTENT_TYPE
from mgw.transforms.message import Body, Header, Message, PayloadKind, ValueType

__all__ = [
    "content_encoding",
    "content_type",
    "is_json",
    "text_charset",
    "text_or_bytes",
    "with_body",
    "with_content_type",
    "without_headers",
]

#: Headers of the hub that hold it; the first of them wins.
TYPE_HEADERS = ("MGW_AMQP_contentType", "MGW_MQTT_contentType", CONTENT_TYPE)
ENCODING_HEADERS = ("MGW_AMQP_contentEncoding", CONTENT_ENCODING)


def _first(message: Message, names: tuple[str, ...]) -> Header | None:
    for name in names:
        for header in message.headers:
            if header.name == name and type(header.value) is str and header.value:
                return header
    return None


def content_type(message: Message) -> str | None:
    """The content type that came with a message, or None."""
    found = _first(message, TYPE_HEADERS)
    return None if found is None else str(found.value)


def content_encoding(message: Message) -> Header | None:
    """The header that names the encoding of the content, or None."""
    return _first(message, ENCODING_HEADERS)


def without_headers(message: Message, names: tuple[str, ...]) -> tuple[Header, ...]:
    """The headers without those of these names."""
    return tuple(header for header in message.headers if header.name not in names)


def with_content_type(message: Message, text: str | None) -> Message:
    """The message with another content type under the name it has already; None: with none."""
    found = _first(message, TYPE_HEADERS)
    headers = without_headers(message, TYPE_HEADERS)
    if text is not None:
        headers = (*headers, Header(found.name if found else CONTENT_TYPE, ValueType.TEXT, text))
    return replace(message, headers=headers)


def is_json(media: str | None) -> bool:
    """Whether a content type is JSON."""
    media = (media or "").partition(";")[0].strip().lower()
    return media.endswith(("/json", "+json"))


def text_charset(media: str | None) -> str | None:
    """Name of the codec of text of this content type; None: it is no text, or in no character set that is known."""
    if media is None:
        return None
    plain = media.partition(";")[0].strip().lower()
    if not (plain.startswith("text/") or plain.endswith(("/json", "/xml", "+json", "+xml"))):
        return None
    charset = charset_parameter(media)
    return text_codec(charset) if charset else "utf-8"


def text_or_bytes(data: bytes, media: str | None) -> str | bytes:
    """A body as text if its content type says that it is text and it can be read as such, else as it is."""
    charset = text_charset(media)
    if charset is None:
        return data
    try:
        return data.decode(charset)
    except UnicodeError:
        return data


def with_body(message: Message, body: Body) -> Message:
    """The message with another body, text or bytes."""
    return replace(message, body=body, kind=PayloadKind.BASIC)
