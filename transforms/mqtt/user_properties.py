"""Header arrays as MQTT 5 user properties and back, with names, types and order.

User properties are pairs of text. What is not plain text travels as decimal text or base64, and one more user property,
``MGW_types``, tells the receiving gateway what the text alone does not say: a JSON object of name and code, or of name
and list of codes where a name is repeated. Codes are those of :class:`~transforms.message.ValueType`; 100 is text as
base64 (brokers refuse control characters); a negative code belongs to a header ``MGW_MQTT_U_<name>``. Without an
entry, ``x`` is the text header of that name, or ``MGW_MQTT_U_x`` where the name is that of a field. A publisher cannot
forge the fields of a PUBLISH: a user property called ``MGW_MQTT_topic`` is ``MGW_MQTT_U_MGW_MQTT_topic``.
``documented``: any ``x`` is ``MGW_MQTT_U_x``, except ``MGW_x``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.header_table import MQTT_APPLICATION, bare_name
from mgw.transforms.message import MAX_HEADER_NAME, Header, HeaderValue, ValueType
from mgw.transforms.mqtt.table import HELD, RENAMED

__all__ = [
    "NULL_BODY",
    "check_string",
    "headers_of",
    "property_of",
    "refused",
    "salvaged_headers",
    "types_of",
    "user_properties",
    "utf8",
]

NULL_BODY = "MGW_nullBody"  # user property of a message without body
_USER = MQTT_APPLICATION
_TYPES = "MGW_types"
_TEXT, _RAW, _BOOLEAN = ValueType.TEXT, ValueType.RAW, ValueType.BOOLEAN
_FLOATS = (ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE)
_TEXTS = frozenset((_TEXT, ValueType.JSON, ValueType.DECIMAL))
_BASE64_TEXT = 100
_BY_CODE = {int(member): member for member in ValueType}
_MAX_STRING = 65535  # bytes
#: Never user properties under their own names; a publisher cannot forge them.
_RESERVED = frozenset(
    (
        *("MGW_MQTT_topic", "MGW_MQTT_qos", "MGW_MQTT_retain", "MGW_MQTT_dup", "MGW_MQTT_responseTopic"),
        *("MGW_MQTT_contentType", "MGW_MQTT_payloadFormat", "MGW_MQTT_correlationData", _TYPES, NULL_BODY),
    )
)
#: What brokers refuse in UTF-8 strings (MQTT 5.0 §1.5.4; Mosquitto disconnects whoever sends it).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)


# -- in ---------------------------------------------------------------------------------------------------------------


def headers_of(user: Sequence[tuple[str, str]], *, documented: bool = False) -> tuple[list[Header], bool]:
    """The headers of user properties, and whether the message has no body rather than an empty one.

    Raises:
        ConversionFailure: ``MGW_types`` is not what a gateway writes, or a value has not the type it tells.
    """
    headers = []
    named = _documented_name if documented else _application_name
    for name, value in user:
        header_name = named(name)
        if not header_name:
            return _headers_with_types(user, documented=documented)
        headers.append(Header(header_name, _TEXT, value))
    return headers, False


@lru_cache(4096)
def _application_name(name: str) -> str:
    """Header of a user property of whose type nothing is told; empty for the two the gateway keeps to itself."""
    return _header_name(name, documented=False)


@lru_cache(4096)
def _documented_name(name: str) -> str:
    """As :func:`_application_name` with the names of the manual."""
    return _header_name(name, documented=True)


def _header_name(name: str, *, documented: bool) -> str:
    if name in (_TYPES, NULL_BODY):
        return ""
    header_name = _unlimited_name(name, documented=documented)
    if len(header_name) > MAX_HEADER_NAME:
        raise ConversionFailure(
            f"user property {name[:40]!r}... has a name of {len(name)} characters",
            cause=f"as header {header_name[:20]!r}... it may have {MAX_HEADER_NAME}",
            cure="shorten the name at the publisher",
        )
    return header_name


def _unlimited_name(name: str, *, documented: bool) -> str:
    if documented:
        return name if name.startswith("MGW_") and name not in _RESERVED else _USER + name
    return _USER + name if name in _RESERVED or name in HELD else name


def _foreign_name(name: str, *, documented: bool) -> str:
    """Header of a user property that has a negative code."""
    keeps = documented or name in _RESERVED or name in HELD or name.startswith("MGW_")
    return _USER + name if keeps else name


def _headers_with_types(
    user: Sequence[tuple[str, str]], *, documented: bool, limited: bool = True
) -> tuple[list[Header], bool]:
    codes: dict[str, int | tuple[int, ...]] = {}
    limited_name = _documented_name if documented else _application_name
    null_body, told = False, -1
    for place, (name, _) in enumerate(user):
        if name == _TYPES:
            told = place  # the gateway's own is the last one
        elif name == NULL_BODY:
            null_body = True
    if told >= 0:
        codes = _read_types(user[told][1])
    headers = []
    seen: dict[str, int] = {}
    for place, (name, text) in enumerate(user):
        if name == NULL_BODY or place == told:
            continue
        code = codes.get(name, 0)
        if isinstance(code, tuple):
            count = seen[name] = seen.get(name, -1) + 1
            code = code[count] if count < len(code) else 0
        if not code:
            quick = limited and name != _TYPES
            named = limited_name(name) if quick else _unlimited_name(name, documented=documented)
            headers.append(Header(named, _TEXT, text))
            continue
        kind, header_value = _read_value(name, abs(code), text)
        own = code > 0 and name not in _RESERVED
        headers.append(Header(name if own else _foreign_name(name, documented=documented), kind, header_value))
    return headers, null_body


@lru_cache(256)
def _read_types(text: str) -> dict[str, int | tuple[int, ...]]:
    try:
        return {
            name: tuple(map(int, code)) if isinstance(code, list) else int(code)
            for name, code in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ConversionFailure(
            f"user property {_TYPES} cannot be read",
            cause=f"it is {text[:100]!r}, not the JSON object that a gateway writes",
            cure="have publishers leave out user properties of that name",
        ) from error


def _read_value(name: str, code: int, text: str) -> tuple[ValueType, HeaderValue]:
    try:
        if code == _BASE64_TEXT:
            return _TEXT, base64.b64decode(text, validate=True).decode()
        kind = _BY_CODE[code]
        value: HeaderValue
        if kind in _TEXTS:
            value = text
        elif kind is _RAW:
            value = base64.b64decode(text, validate=True)
        elif kind is _BOOLEAN:
            value = {"true": True, "false": False}[text]
        elif kind in _FLOATS:
            value = float(text)
        else:
            value = int(text)
    except (KeyError, ValueError, binascii.Error) as error:
        raise ConversionFailure(
            f"user property {name[:MAX_HEADER_NAME]!r} cannot be read",
            cause=f"{_TYPES} gives it type {code}, but its value is {text[:100]!r}",
            cure=f"if something on the way changes user properties, it has to remove {_TYPES} too",
        ) from error
    return kind, value


def salvaged_headers(user: Sequence[tuple[str, str]], *, documented: bool = False) -> tuple[list[Header], bool]:
    """As :func:`headers_of` for a message that failed: whatever their size, and where the types cannot be read, all of
    them as text, with what was to tell the types."""
    try:
        return _headers_with_types(user, documented=documented, limited=False)
    except Exception:
        return [Header(_unlimited_name(name, documented=documented), _TEXT, value) for name, value in user], False


# -- out --------------------------------------------------------------------------------------------------------------


def user_properties(
    headers: Iterable[Header], *, original: bool = False, documented: bool = False
) -> list[tuple[str, str]]:
    """User properties of headers, in their order, with ``MGW_types`` at the end where it is needed.

    ``original``: a publisher's own ``MGW_types`` and ``MGW_nullBody`` are among them, for an exception queue.

    Raises:
        ConversionFailure: a name that no user property can have.
    """
    pairs: list[tuple[str, str]] = []
    codes: list[tuple[str, int]] = []
    typed = 0
    for name, kind, value in headers:
        prop, code, sign = _property_name(name, original, documented)
        typed |= prop == _TYPES  # a publisher's own, which the last one tells from ours
        if kind is _TEXT:
            text: str = value  # type: ignore[assignment]
            if not (text.isascii() and text.isprintable()) and _UNSAFE.search(text):
                text = base64.b64encode(utf8(f"header {name!r}", text)).decode()
                code = _BASE64_TEXT * sign
        else:
            code = kind * sign
            if kind in _TEXTS:
                text = _safe_json(value)  # type: ignore[arg-type]
            elif kind is _RAW:
                text = base64.b64encode(value).decode()  # type: ignore[arg-type]
            elif kind is _BOOLEAN:
                text = "true" if value else "false"
            else:
                text = repr(value)
        typed |= code
        codes.append((prop, code))
        pairs.append((prop, text))
    if typed:
        pairs.append((_TYPES, _types_text(tuple(codes))))
    return pairs


def property_of(name: str, kind: ValueType, *, documented: bool = False) -> tuple[str, int]:
    """The user property of a header without text that brokers refuse, and the code of its type.

    Raises:
        ConversionFailure: a name that no user property can have.
    """
    prop, plain, sign = _property_name(name, False, documented)
    return prop, plain if kind is _TEXT else kind * sign


def types_of(codes: tuple[tuple[str, int], ...]) -> tuple[str, str] | None:
    """The user property that tells the types of such user properties; None where nothing is to be told."""
    return (_TYPES, _types_text(codes)) if any(code for _, code in codes) else None


def _safe_json(text: str) -> str:
    """JSON text, or a decimal, without what brokers refuse."""
    if not _UNSAFE.search(text):
        return text
    try:
        return json.dumps(json.loads(text), separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise ConversionFailure(
            "a header of type JSON cannot travel over MQTT",
            cause=f"{text[:60]!r} is not JSON text, and contains characters that brokers refuse",
            cure="correct it at the sender or in a transformation",
        ) from error


@lru_cache(4096)
def _property_name(name: str, original: bool, documented: bool) -> tuple[str, int, int]:
    """User property of a header, its code when it is plain text, and the sign of its codes."""
    foreign = name.startswith(_USER)
    prop = name[len(_USER) :] if foreign else name
    if not (foreign or documented):
        prop = RENAMED.get(name) or bare_name(name, _USER)
    if prop in (_TYPES, NULL_BODY) and not (foreign and original):
        raise ConversionFailure(
            f"header {name} cannot travel over MQTT",
            cause="the gateway uses a user property of that name itself",
            cure="use another name at the sender or in a transformation",
        )
    check_string(f"the name of header {name!r}", prop)
    mine = prop.startswith("MGW_") and prop not in _RESERVED
    if foreign:
        return prop, -1 if mine else 0, -1
    if documented:
        return prop, 0 if mine else 1, 1
    return prop, 1 if prop in _RESERVED or prop in HELD else 0, 1


@lru_cache(1024)
def _types_text(codes: tuple[tuple[str, int], ...]) -> str:
    grouped: dict[str, list[int]] = {}
    for name, code in codes:
        grouped.setdefault(name, []).append(code)
    told = {name: found[0] if len(found) == 1 else found for name, found in grouped.items() if any(found)}
    return json.dumps(told, separators=(",", ":"))


def utf8(what: str, text: str) -> bytes:
    """``text`` as UTF-8; raises ConversionFailure about ``what`` for half a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConversionFailure(
            f"{what} cannot be sent as UTF-8",
            cause=f"{error.reason} at character {error.start}",
            cure="correct the text at the sender or in a transformation",
        ) from error


def refused(text: str) -> bool:
    """Whether brokers refuse the text as a string of the protocol."""
    if text.isascii() and text.isprintable():
        return len(text) > _MAX_STRING
    return _UNSAFE.search(text) is not None or (len(text) * 4 > _MAX_STRING and len(text.encode()) > _MAX_STRING)


def check_string(what: str, text: str) -> None:
    """Raise ConversionFailure about ``what`` if ``text`` cannot be a string of the protocol."""
    if text and text.isascii() and text.isprintable() and len(text) <= _MAX_STRING:
        return
    bad = _UNSAFE.search(text)
    cause = ""
    if bad:
        cause = f"it holds the character U+{ord(bad.group()):04X}, which brokers refuse"
    elif not text:
        cause = "it is empty"
    elif len(text) * 4 > _MAX_STRING and len(text.encode()) > _MAX_STRING:
        cause = f"it is longer than {_MAX_STRING} bytes"
    if cause:
        raise ConversionFailure(
            f"{what} cannot travel over MQTT", cause=cause, cure="change it at the sender or in a transformation"
        )
