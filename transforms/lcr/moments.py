"""Dates and times of an LCR: text, and the format that says how to read it (``SYYYY-MM-DD"T"HH24:MI:SS.FF``)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

__all__ = ["DATE_FORMAT", "TIMESTAMP_FORMAT", "ZONED_FORMAT", "read_moment", "write_moment"]

DATE_FORMAT: Final = 'SYYYY-MM-DD"T"HH24:MI:SS'
TIMESTAMP_FORMAT: Final = 'SYYYY-MM-DD"T"HH24:MI:SS.FF'
ZONED_FORMAT: Final = 'SYYYY-MM-DD"T"HH24:MI:SS.FFTZH:TZM'

#: Elements of a format that a value is read with, longest first, and what they match.
_ELEMENTS: Final = {
    "SYYYY": r"(?P<year>[+ -]?\d{1,4})",
    "YYYY": r"(?P<year>\d{1,4})",
    "HH24": r"(?P<hour>\d{1,2})",
    "TZH": r"(?P<zone_hour>[+-]?\d{1,2})",
    "TZM": r"(?P<zone_minute>\d{1,2})",
    "FF": r"(?P<fraction>\d{0,9})",
    "MM": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{1,2})",
    "MI": r"(?P<minute>\d{1,2})",
    "SS": r"(?P<second>\d{1,2})",
}
_TOKEN: Final = re.compile(
    r'(?P<element>SYYYY|YYYY|HH24|TZH|TZM|FF[1-9]?|MM|DD|MI|SS)|"(?P<quoted>[^"]*)"|(?P<mark>[-/,.;: ])', re.IGNORECASE
)


@lru_cache(64)
def _pattern(form: str) -> re.Pattern[str]:
    pieces: list[str] = []
    at = 0
    while at < len(form):
        token = _TOKEN.match(form, at)
        if token is None:
            raise ValueError(f"the format {form[:60]!r} has {form[at : at + 10]!r}, which is not supported")
        element = token["element"]
        if element:
            pieces.append(_ELEMENTS[element.upper().rstrip("123456789") if element[0] in "Ff" else element.upper()])
        else:
            pieces.append(re.escape(token["quoted"] if token["mark"] is None else token["mark"]))
        at = token.end()
    try:
        return re.compile("".join(pieces))
    except re.error:
        raise ValueError(f"the format {form[:60]!r} has an element twice") from None


def read_moment(text: str, form: str) -> datetime:
    """The time that ``text`` says in the format ``form``; with an offset where the format has TZH.

    Elements are SYYYY, YYYY, MM, DD, HH24, MI, SS, FF (of whose nine digits the last three are zero), TZH, TZM, text in
    quotation marks and punctuation. What the format leaves out is the first month, day or hour.

    Raises:
        ValueError: the format has another element, or the text does not follow it.
    """
    found = _pattern(form).fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:60]!r} does not follow the format {form[:60]!r}")
    part = found.groupdict()
    if part.get("year") is None:
        raise ValueError(f"the format {form[:60]!r} has no year")
    fraction = (part.get("fraction") or "").ljust(9, "0")
    if fraction[6:] != "000":
        raise ValueError(f"{text[:60]!r} has more than six digits of a second")
    zone = None
    if part.get("zone_hour") is not None:
        hours, minutes = part["zone_hour"], int(part.get("zone_minute") or 0)
        ahead = timedelta(hours=abs(int(hours)), minutes=minutes)
        zone = timezone(-ahead if hours.startswith("-") else ahead)
    return datetime(
        int(part["year"]),
        int(part.get("month") or 1),
        int(part.get("day") or 1),
        int(part.get("hour") or 0),
        int(part.get("minute") or 0),
        int(part.get("second") or 0),
        int(fraction[:6]),
        zone,
    )


def write_moment(moment: datetime, form: str) -> str:
    """The text of a time in one of the three formats of this module."""
    text = moment.replace(tzinfo=None).isoformat(timespec="seconds" if form == DATE_FORMAT else "microseconds")
    if form != ZONED_FORMAT:
        return text
    offset = moment.utcoffset() or timedelta()
    minutes = int(offset.total_seconds() // 60)
    return f"{text}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
