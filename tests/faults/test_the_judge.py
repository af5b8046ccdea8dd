"""What judges the gateway is judged itself: it sees what is lost, doubled, invented, altered and out of order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from tests.faults import scenes
from tests.faults.verdict import TWINS, Arrived, Copy, Ledger, Numbered, Verdict, judge, numbered


@pytest.fixture
def ledger() -> Ledger:
    """60 messages, all acknowledged; two of three are one of two bodies."""
    messages = islice(numbered(random.Random(7), twins=True), 60)
    made = Ledger({message.number: message for message in messages})
    made.acknowledged |= made.bodies.keys()
    return made


def copies(ledger: Ledger) -> list[Copy]:
    return [Copy(message.body, message.identity) for message in ledger.bodies.values()]


def first(ledger: Ledger, *, twin: bool) -> Numbered:
    return next(message for message in ledger.bodies.values() if message.twin is twin)


def verdict(ledger: Ledger, came: Sequence[Copy]) -> Verdict:
    return judge("judge", 7, ledger, came)


def test_what_arrives_as_it_was_published_is_good(ledger: Ledger) -> None:
    found = verdict(ledger, copies(ledger))
    assert found.good
    assert found.duplicated == 0
    assert {message.body for message in ledger.bodies.values() if message.twin} == set(TWINS)


@pytest.mark.parametrize("twin", [False, True])
def test_a_lost_and_a_doubled_message_are_found_also_among_equal_ones(ledger: Ledger, twin: bool) -> None:
    place = first(ledger, twin=twin).number
    came = copies(ledger)
    lost = verdict(ledger, came[:place] + came[place + 1 :])
    assert (lost.lost, lost.duplicated, lost.good) == (1, 0, False)
    doubled = verdict(ledger, [*came, came[place]])
    assert (doubled.lost, doubled.duplicated, doubled.good) == (0, 1, True)


@pytest.mark.parametrize("twin", [False, True])
def test_a_doubtful_message_may_arrive_or_not_but_not_twice(ledger: Ledger, twin: bool) -> None:
    place = first(ledger, twin=twin).number
    ledger.acknowledged.discard(place)
    ledger.doubtful.add(place)
    came = copies(ledger)
    for arrived in (came, came[:place] + came[place + 1 :]):
        assert (verdict(ledger, arrived).lost, verdict(ledger, arrived).duplicated) == (0, 0)
    assert verdict(ledger, [*came, came[place]]).duplicated == 1


def test_a_doubtful_message_may_arrive_late_and_no_other(ledger: Ledger) -> None:
    place = first(ledger, twin=False).number
    came = copies(ledger)
    late = [*came[:place], *came[place + 1 :], came[place]]
    assert verdict(ledger, late).disordered
    ledger.acknowledged.discard(place)
    ledger.doubtful.add(place)
    assert not verdict(ledger, late).disordered
    assert verdict(ledger, came[::-1]).disordered


def test_invented_altered_and_disordered_messages_are_found(ledger: Ledger) -> None:
    came = copies(ledger)
    number = first(ledger, twin=False).number
    assert verdict(ledger, [*came, Copy(b"stray", None)]).invented
    assert verdict(ledger, [*came, Copy(TWINS[0], "12")]).invented
    altered = came[number]._replace(identity="another")
    assert verdict(ledger, [*came[:number], altered, *came[number + 1 :]]).altered == (number,)
    assert verdict(ledger, came[::-1]).disordered


def test_arrived_waits_for_the_last_of_equal_messages(ledger: Ledger) -> None:
    came = copies(ledger)
    place = first(ledger, twin=True).number
    arrived = Arrived()
    arrived.add(came[:place] + came[place + 1 :])
    assert not arrived.has_all(ledger)
    arrived.add([came[place]])
    assert arrived.has_all(ledger)


def test_a_failed_seed_is_kept_once_and_played_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "seeds.txt"
    kept.write_text("# a comment\n\n12 other\n13 kill-agent-a-to-b  # lost one message\n")
    monkeypatch.setattr(scenes, "_KEPT", kept)
    for _ in range(2):
        scenes.keep_seed("kill-agent-a-to-b", 14)
    assert scenes.kept_seeds("kill-agent-a-to-b") == [13, 14]
    assert scenes.kept_seeds("other") == [12]
