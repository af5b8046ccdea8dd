"""Numbers, times and texts as the page shows them."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from mgw.gateway.services.audit_words import told
from mgw.gateway.services.messages import body_bytes
from mgw.gateway.services.verdict import JOB_WORDS

__all__ = ["FILTERS", "SHAPES", "visible"]

_NOTHING = "\u2013"
_STEPS: tuple[tuple[float, str, float], ...] = ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600))
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))  # Unicode categories of letters that nobody sees
_KEPT = frozenset("\n\t\u00ad\u200d\u200c")

#: The shape that each state has next to its colour.
SHAPES = {each.word: each.shape for each in JOB_WORDS} | {
    "UP": "disc",
    "REACHABLE": "disc",
    "UNUSED": "ring",
    "STARTING": "dots",
    "INITIALIZING": "dots",
    "START_SCHEDULED": "dots",
    "BROKEN": "cross",
    "DOWN": "cross",
    "UNREACHABLE": "cross",
    "NOT_STARTED": "square",
    "SHUTTING_DOWN": "square",
    "INFO": "ring",
    "WARNING": "triangle",
    "ERROR": "cross",
    "CRITICAL": "cross",
}


def visible(text: str) -> str:
    """Text of anybody: letters that cannot be seen, or that turn the line around, are written out."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter in _KEPT or unicodedata.category(letter) not in _HIDDEN else _escaped(letter)
        for letter in text.replace("\r\n", "\n")
    )


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float | None) -> str:
    """A whole number with thin spaces between thousands."""
    return _NOTHING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def rate(value: float | None) -> str:
    """Messages a second."""
    if value is None:
        return _NOTHING
    if value == 0:
        return "0/s"
    return f"{number(value)}/s" if value >= 10 else f"{value:.1f}/s" if value >= 0.1 else f"{value * 60:.1f}/min"


def span(seconds: float | None) -> str:
    """A duration in a number and a unit."""
    if seconds is None:
        return _NOTHING
    seconds = max(0.0, seconds)
    if 0 < seconds < 1:
        return f"{max(1, round(seconds * 1000))}\u00a0ms"
    for limit, unit, size in _STEPS:
        if seconds < limit:
            shown = f"{seconds:.1f}" if seconds < 10 and unit == "s" and seconds != int(seconds) else None
            return f"{shown or format(seconds / size, '.0f')}\u00a0{unit}"
    return f"{seconds / 86_400:.0f}\u00a0d"


def size(count: int) -> str:
    """Bytes."""
    for limit, unit, step in ((1024, "B", 1), (1 << 20, "KiB", 1024), (1 << 30, "MiB", 1 << 20)):
        if count < limit:
            return f"{count / step:.{0 if step == 1 else 1}f}\u00a0{unit}"
    return f"{count / (1 << 30):.1f}\u00a0GiB"


def _moment(value: float | str | None) -> datetime | None:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.replace(" ", "T")).replace(tzinfo=UTC)
        except ValueError:
            return None
    try:
        return None if value is None else datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def ago(value: float | str | None, now: float) -> Markup:
    """How long ago a moment was (epoch seconds, or UTC as the views have it), with the moment itself on hover."""
    moment = _moment(value)
    if moment is None:
        return Markup("\u2013")
    past = now - moment.timestamp()
    text = f"{span(past)} ago" if past >= 0 else f"in {span(-past)}"
    return _time(moment, "just now" if abs(past) < 1 else text)


def took(start: float | str | None, end: float | str | None) -> str:
    """The time between two moments."""
    begun, ended = _moment(start), _moment(end)
    return _NOTHING if begun is None or ended is None else span((ended - begun).total_seconds())


def stamp(value: float | str | None) -> Markup:
    """A moment, in UTC, to the millisecond where that is known."""
    moment = _moment(value)
    if moment is None:
        return Markup("\u2013")
    fraction = f".{moment.microsecond // 1000:03d}" if moment.microsecond else ""
    return _time(moment, f"{moment:%Y-%m-%d %H:%M:%S}{fraction}")


def _time(moment: datetime, text: str) -> Markup:
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact, text)


def cut(text: str, most: int) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: most + 1].split())
    return line if len(text) <= most else f"{line[:most]} …"


def begin(body: Any, most: int) -> str:
    """The beginning of a body of a message, in one line."""
    data = body_bytes(body)
    try:
        return cut(data[: 4 * most].decode("utf-8", "ignore" if len(data) > 4 * most else "strict"), most)
    except UnicodeDecodeError:
        return f"{data[: most // 3].hex(' ')}{' …' if len(data) > most // 3 else ''}"


def coded(text: str) -> Markup:
    """Text in which names stand between backquotes."""
    parts = text.replace("``", "`").split("`")
    names, plain = Markup("<code>{}</code>"), Markup("{}")
    return Markup().join((names if odd % 2 else plain).format(visible(each)) for odd, each in enumerate(parts))


def counted(value: int, one: str, many: str = "") -> str:
    """A number with its noun."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


FILTERS: dict[str, Any] = {
    "ago": ago,
    "begin": begin,
    "coded": coded,
    "counted": counted,
    "cut": cut,
    "number": number,
    "rate": rate,
    "size": size,
    "span": span,
    "stamp": stamp,
    "took": took,
    "told": told,
}
