"""A message that could not be converted, with the reason, as an exception queue holds it (AQ guide 12.2 §20.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgw.transforms.errors import ConversionFailure, LoopFound
from mgw.transforms.message import (
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    TRAIL,
    Header,
    HeaderValue,
    Message,
    ValueType,
)

__all__ = ["Identity", "Reason", "error_headers", "for_exception_queue", "left_out", "original_of", "reason_of"]

_ERROR_PREFIX = "MGW_error"
_EXPIRATION = "MGW_error_expiration"
_TRAIL = "MGW_error_trail"
_YEAR_10000 = 253_402_300_800  # epoch seconds: no date has a later year


@dataclass(frozen=True, slots=True)
class Identity:
    """Which message it was at its source.

    Attributes:
        key: names it among all messages of exception queues; the same when the same message is written again, where
            its source identifies its messages permanently.
        msgid: id in the queue of the hub where it was.
        consumer: the subscriber of that queue for which it failed; None: the queue has one consumer.
    """

    key: str = ""
    msgid: bytes | None = None
    consumer: str | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a message is in an exception queue, and which message it was, as far as its headers tell."""

    text: str
    job: str
    number: int | None = None
    time: float | None = None
    origin: str = ""
    key: str = ""
    msgid: bytes | None = None
    consumer: str | None = None
    expiration: float | None = None
    omitted: str = ""
    edited: str = ""


def _header_text(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= MAX_HEADER_TEXT else clean[: MAX_HEADER_TEXT - 4] + " ..."


def error_headers(
    failure: ConversionFailure,
    job: str,
    origin: str = "",
    *,
    now: float | None = None,
    identity: Identity | None = None,
) -> tuple[Header, ...]:
    """Why a message is in an exception queue, as headers.

    ``MGW_error`` (text: what, cause, cure; an end that does not fit shows as ``...``), ``MGW_error_number`` (INTEGER,
    when there is one), ``MGW_error_job``, ``MGW_error_origin`` (source coordinates, when known), ``MGW_error_time``
    (DATE; ``now`` in epoch seconds, the machine's clock by default). Of ``identity`` what is known: ``MGW_error_id``
    (the key), ``MGW_error_msgid`` (RAW), ``MGW_error_consumer``.
    """
    headers = [Header("MGW_error", ValueType.TEXT, _header_text(str(failure)))]
    if failure.number is not None:
        headers.append(Header("MGW_error_number", ValueType.INTEGER, failure.number))
    headers.append(Header("MGW_error_job", ValueType.TEXT, _header_text(job)))
    if origin:
        headers.append(Header("MGW_error_origin", ValueType.TEXT, _header_text(origin)))
    if identity is not None:
        if identity.key:
            headers.append(Header("MGW_error_id", ValueType.TEXT, _header_text(identity.key)))
        if identity.msgid is not None:
            headers.append(Header("MGW_error_msgid", ValueType.RAW, identity.msgid))
        if identity.consumer is not None:
            headers.append(Header("MGW_error_consumer", ValueType.TEXT, identity.consumer))
    headers.append(Header("MGW_error_time", ValueType.DATE, time.time() if now is None else now))
    return tuple(headers)


def for_exception_queue(
    message: Message,
    failure: ConversionFailure,
    job: str,
    origin: str = "",
    omitted: Sequence[str] = (),
    *,
    limited: bool = True,
    now: float | None = None,
    identity: Identity | None = None,
) -> Message:
    """The untouched message with the reason of its failure, fit to be stored in an exception queue.

    It does not expire there; ``MGW_error_expiration`` keeps the expiration it had. ``limited``: headers that break the
    limits of a header array (often the very reason) cannot be stored and are left out. What is left out, and what the
    caller has left out already (``omitted``), is described in ``MGW_error_omitted``. Error headers of an earlier
    failure are replaced. The trail of a message that went round is in ``MGW_error_trail``: whoever sends it on from
    here begins a new one.
    """
    reasons = error_headers(failure, job, origin, now=now, identity=identity)
    if isinstance(failure, LoopFound):
        found = [header.value for header in message.headers if header.name == TRAIL]
        reasons += tuple(Header(_TRAIL, ValueType.TEXT, _header_text(_text(value))) for value in found[:1])
        message = replace(message, headers=tuple(header for header in message.headers if header.name != TRAIL))
    if message.expiration is not None:
        reasons += (Header(_EXPIRATION, ValueType.DOUBLE, float(message.expiration)),)
    kept: list[Header] = []
    headers: list[str] = list(omitted)
    room = MAX_HEADERS - len(reasons) - 1
    for header in message.headers:
        if header.name.startswith(_ERROR_PREFIX):
            continue
        problem = (_unstorable(header) or ("no room" if len(kept) >= room else "")) if limited else ""
        if problem:
            headers.append(left_out(header, problem))
        else:
            kept.append(header)
    notes = [f"{len(headers)} headers left out: {', '.join(headers)}"] if headers else []
    if message.expiration is not None:
        notes.append(f"the expiration left out, it would expire the message here: {message.expiration:g} s")
    if notes:
        reasons += (Header("MGW_error_omitted", ValueType.TEXT, _header_text("; ".join(notes))),)
    return replace(message, headers=(*kept, *reasons), delay=0, expiration=None, expires_at=None)


def reason_of(message: Message) -> Reason | None:
    """What the headers say of the failure; None: it is no message of an exception queue.

    A broker may have made text of a header: numbers and times are read from their text, too. What is no number, is not
    finite, or is a time before 1970 or after the year 9999 counts as not given: anybody may write such a header.
    """
    found: dict[str, HeaderValue] = {}
    for name, _, value in message.headers:
        if name.startswith(_ERROR_PREFIX):
            found.setdefault(name.removeprefix(_ERROR_PREFIX).lstrip("_"), value)
    if "" not in found:
        return None
    number, moment, msgid = _number(found.get("number")), _number(found.get("time")), found.get("msgid")
    return Reason(
        text=_text(found[""]),
        job=_text(found.get("job", "")),
        number=None if number is None else int(number),
        time=moment if moment is not None and 0 <= moment < _YEAR_10000 else None,
        origin=_text(found.get("origin", "")),
        key=_text(found.get("id", "")),
        msgid=msgid if isinstance(msgid, bytes) else None,
        consumer=_text(found["consumer"]) if "consumer" in found else None,
        expiration=_number(found.get("expiration")),
        omitted=_text(found.get("omitted", "")),
        edited=_text(found.get("edited", "")),
    )


def original_of(message: Message) -> Message:
    """The message of an exception queue as it was, with the expiration it had, which begins again."""
    reason = reason_of(message)
    headers = tuple(header for header in message.headers if not header.name.startswith(_ERROR_PREFIX))
    expiration = None if reason is None else reason.expiration
    return replace(message, headers=headers, expiration=expiration, expires_at=None)


def _text(value: HeaderValue) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _number(value: HeaderValue | None) -> float | None:
    if value is None:
        return None
    try:
        number = float(_text(value))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def left_out(header: Header, problem: str) -> str:
    """Words for a header that an exception queue does not take."""
    return f"{header.name[:60]!r} ({problem})"


def _unstorable(header: Header) -> str:
    name, _, value = header
    if len(name) > MAX_HEADER_NAME:
        return f"its name has {len(name)} characters"
    if isinstance(value, str) and len(value) > MAX_HEADER_TEXT:
        return f"{len(value)} characters"
    if isinstance(value, bytes) and len(value) > MAX_HEADER_RAW:
        return f"{len(value)} bytes"
    return ""
