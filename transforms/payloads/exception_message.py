"""A message that could not be converted, with the reason, as an exception queue holds it (AQ guide 12.2 §20.2)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    Header,
    Message,
    ValueType,
)

__all__ = ["error_headers", "for_exception_queue", "left_out"]

_ERROR_PREFIX = "MGW_error"


def _header_text(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= MAX_HEADER_TEXT else clean[: MAX_HEADER_TEXT - 4] + " ..."


def error_headers(
    failure: ConversionFailure, job: str, origin: str = "", *, now: float | None = None
) -> tuple[Header, ...]:
    """Why a message is in an exception queue, as headers.

    ``MGW_error`` (text: what, cause, cure; an end that does not fit shows as ``...``), ``MGW_error_number`` (INTEGER,
    when there is one), ``MGW_error_job``, ``MGW_error_origin`` (source coordinates, when known), ``MGW_error_time``
    (DATE; ``now`` in epoch seconds, the machine's clock by default).
    """
    headers = [Header("MGW_error", ValueType.TEXT, _header_text(str(failure)))]
    if failure.number is not None:
        headers.append(Header("MGW_error_number", ValueType.INTEGER, failure.number))
    headers.append(Header("MGW_error_job", ValueType.TEXT, _header_text(job)))
    if origin:
        headers.append(Header("MGW_error_origin", ValueType.TEXT, _header_text(origin)))
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
) -> Message:
    """The untouched message with the reason of its failure, fit to be stored in an exception queue.

    It does not expire there. ``limited``: headers that break the limits of a header array (often the very reason)
    cannot be stored and are left out. What is left out, and what the caller has left out already (``omitted``), is
    described in ``MGW_error_omitted``. Error headers of an earlier failure are replaced.
    """
    reasons = error_headers(failure, job, origin, now=now)
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
