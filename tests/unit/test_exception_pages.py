"""Pages of the messages of an exception queue on a link, of which some go between two pages."""

from __future__ import annotations

import base64
import random
import zlib

import pytest
from pydantic import TypeAdapter, ValidationError

from mgw.gateway.http.limits import HEADER_BYTES
from mgw.gateway.http.rest.paging import Cursor, cursor_of, place_of
from mgw.gateway.services.exceptions import LONGEST_PLACE, NoSuchPlace
from mgw.gateway.services.exceptions.trails import LogMark, Mark, Trail


def trail(names: list[str]) -> Trail:
    """Those in capitals are messages of the gateway, of which no two are the same."""
    found = Trail()
    for name in names:
        found.add(name, single=name[0].isupper())
    return found


def behind(names: str, count: int, left: str) -> str:
    """What the page behind ``count`` messages begins with, when only ``left`` are there."""
    mark = Mark.read(str(trail(list(names)).mark(count)))
    return left[trail(list(left)).begin(mark) :]


def test_a_page_begins_where_the_one_before_ended() -> None:
    assert behind("ABCDEF", 2, "ABCDEF") == "CDEF"
    assert behind("ABCDEF", 2, "ABCDEFG") == "CDEFG"
    assert behind("ABCDEF", 2, "BCDEF") == "CDEF", "one before it has gone"
    assert behind("ABCDEF", 2, "ABDEF") == "DEF", "the first one behind it has gone"
    assert behind("ABCDEF", 2, "ADEF") == "DEF", "both have"
    assert behind("ABCDEF", 2, "DEFA") == "DEFA", "what was edited comes last, and nothing is left of the page before"
    assert behind("ABCDEF", 2, "DEF") == "DEF"
    assert behind("ABCDEF", 6, "ABCDEF") == ""
    assert behind("ABCDEF", 2, "") == ""


def test_a_copy_is_not_taken_for_the_message_that_has_gone() -> None:
    assert behind("dxdydzdw", 3, "dxdydzdw") == "ydzdw", "nothing changed: the number says it"
    assert behind("dxdydzdw", 3, "xdydzdw") == "xdydzdw", "rather again than left out"
    assert behind("AdBd", 2, "ABd") == "Bd"
    assert behind("AAB", 1, "AB") == "B", "a copy that was seen"


@pytest.mark.parametrize("seed", range(20))
def test_no_message_that_stays_is_left_out_whatever_goes_and_comes(seed: int) -> None:
    chance = random.Random(seed)
    queue = [f"{'M' if chance.random() < 0.8 else 'f'}{number}" for number in range(300)]
    stays, told, after = set(queue), list[str](), ""
    for _ in range(1000):
        now = trail(queue)
        begin = now.begin(Mark.read(after)) if after else 0
        page = queue[begin : begin + 20]
        told += page
        if begin + 20 >= len(queue):
            break
        after = str(now.mark(begin + 20))
        gone = set(page) if chance.random() < 0.3 else set(chance.sample(queue, min(len(queue), chance.randrange(9))))
        stays -= gone
        queue = [each for each in queue if each not in gone] + [f"M{each}'" for each in gone if chance.random() < 0.2]
    assert stays <= set(told)
    assert len(told) < 3000, "a page goes on, it does not begin again"


def test_a_place_reads_what_it_writes() -> None:
    for count in (0, 1, 5, 6):
        mark = trail(list("ABcDEF")).mark(count)
        assert Mark.read(str(mark)) == mark
        with pytest.raises(NoSuchPlace):
            LogMark.read(str(mark))
    for offsets in ([], [(0, 7), (3, 2**40)], [(4, 1), (5, 2), (9, 0)]):
        log = LogMark(LogMark.named("cluster x"), offsets)
        assert LogMark.read(str(log)) == log
    for text in (
        "",
        "q",
        "q -1 a",
        "q 1",
        "q ² a",
        "q 1 a 2",
        "q 1 a 2.3",
        "l",
        "l x",
        "l x 1",
        "l x €",
        "l x 1 2",
        *(f"l x {packed(words)}" for words in (b"1.2.3", b"1.a", b"5.1 4.1", b"1 0.1", b"-1", "²".encode(), b"\xff")),
        f"l x {packed(b'1')[:-3]}",
        f"l x {packed(b'0 ' * (4 << 20))}",
        "x 1 2",
    ):
        for kind in (Mark, LogMark):
            with pytest.raises(NoSuchPlace):
                kind.read(text)


def packed(words: bytes) -> str:
    """As a place in a log has it."""
    return base64.urlsafe_b64encode(zlib.compress(words)).decode().rstrip("=")


@pytest.mark.parametrize("partitions", [1, 130, 1000])
def test_a_cursor_into_a_topic_of_many_partitions_is_one_that_a_request_may_have(partitions: int) -> None:
    chance = random.Random(partitions)
    log = LogMark(LogMark.named("cluster x"), [(each, chance.randrange(10**9)) for each in range(partitions)])
    place = str(log)
    assert len(place) <= LONGEST_PLACE
    cursor = cursor_of(place) or ""
    assert TypeAdapter(Cursor).validate_python(cursor) == cursor
    assert len(cursor) < HEADER_BYTES - 4096, "there is room for the other parameters"
    assert LogMark.read(place_of(cursor) or "") == log


def test_the_longest_place_is_one_that_a_request_may_have() -> None:
    cursor = cursor_of("l" * LONGEST_PLACE)
    assert TypeAdapter(Cursor).validate_python(cursor) == cursor
    with pytest.raises(ValidationError):
        TypeAdapter(Cursor).validate_python(f"{cursor}a")


def test_the_place_in_a_full_queue_fits_an_address() -> None:
    assert len(str(trail([f"M{number}" for number in range(10_000)]).mark(9_999))) < 500
