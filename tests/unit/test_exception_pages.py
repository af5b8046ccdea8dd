"""Pages of the messages of an exception queue on a link, of which some are replayed between two pages."""

from __future__ import annotations

import pytest

from mgw.gateway.services.exceptions import Entry, Place
from mgw.gateway.services.exceptions.link_desk import LinkDesk
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import Reason


def entry(name: str, time: float | None) -> Entry:
    return Entry(name, "job", "queue", Reason("job", "why", time=time), Message())


ENTRIES = [entry("a", 1.0), entry("b", 2.0), entry("foreign", None), entry("c", 2.0), entry("d", 3.5)]


def behind(name: str, *gone: str) -> list[str]:
    place = next(Place.of(each) for each in ENTRIES if each.id == name)
    left = [each for each in ENTRIES if each.id not in gone]
    return [each.id for each in LinkDesk.behind(left, place)]


def test_a_page_begins_behind_the_message_where_it_still_is() -> None:
    assert behind("b") == ["foreign", "c", "d"]
    assert behind("b", "a", "c") == ["foreign", "d"]
    assert behind("d") == []


def test_where_the_message_has_gone_nothing_is_left_out() -> None:
    assert behind("b", "b") == ["foreign", "c", "d"]
    assert behind("c", "c") == ["b", "foreign", "d"], "what failed in the same moment comes again"
    assert behind("foreign", "foreign") == ["a", "b", "c", "d"]


def test_a_place_reads_what_it_writes() -> None:
    for each in ENTRIES:
        assert Place.read(str(Place.of(each))) == Place.of(each)
    for text in ("", "x", "nan a", "inf a", "1.5", "1.5 ", "- "):
        with pytest.raises(ValueError, match=r"place|float"):
            Place.read(text)
