"""How large the next batch may be: it follows what waits, and what the messages weigh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgw.gateway.runtime.ends.link_destination import WINDOW_MESSAGES
from mgw.gateway.runtime.sizing import BATCH_BYTES, Caution, Sizing
from mgw.links.contract import Endpoint, JobUse
from mgw.links.rabbitmq.link import prefetch
from mgw.links.rabbitmq.source import light

LIGHT = 300


def _full(sizing: Sizing, times: int, weight: int = LIGHT) -> list[int]:
    sizes = []
    for _ in range(times):
        sizes.append(sizing.size)
        sizing = sizing.after(sizing.size, sizing.size, weight * sizing.size)
    return sizes


def test_full_batches_grow_to_the_limit() -> None:
    assert _full(Sizing.between(30, 500), 7) == [30, 60, 120, 240, 480, 500, 500]


def test_a_limit_that_is_the_batch_size_means_batches_of_that_size() -> None:
    assert _full(Sizing.between(30, 30), 4) == [30, 30, 30, 30]


def test_a_limit_below_the_batch_size_is_the_batch_size() -> None:
    assert _full(Sizing.between(800, 500), 3) == [800, 800, 800]


def test_batches_that_are_not_full_shrink_the_next_ones_down_to_the_batch_size() -> None:
    sizing = Sizing(30, 500, 500)
    sizes = []
    for _ in range(6):
        sizing = sizing.after(sizing.size, 1, LIGHT)
        sizes.append(sizing.size)
    assert sizes == [250, 125, 62, 31, 30, 30]


def test_a_batch_that_is_more_than_half_full_changes_nothing() -> None:
    sizing = Sizing(30, 500, 400)
    assert sizing.after(400, 250, 250 * LIGHT) == replace(sizing, weight=LIGHT)


def test_one_that_was_small_only_for_want_of_room_counts_as_full() -> None:
    sizing = Sizing(30, 500, 500).after(100, 100, 100 * LIGHT)
    assert (sizing.size, sizing.full) == (500, True)


def test_after_several_batches_at_once_the_next_one_may_be_as_large_as_all_of_them() -> None:
    assert Sizing.between(30, 500).after(30, 240, 240 * LIGHT).size == 240
    assert Sizing.between(30, 500).after(30, 40, 40 * LIGHT).size == 60
    assert Sizing.between(30, 500).after(30, 700, 700 * LIGHT).size == 500


def test_heavy_messages_keep_batches_small_but_never_below_the_batch_size() -> None:
    heavy = BATCH_BYTES // 100
    assert _full(Sizing.between(30, 500), 5, heavy) == [30, 60, 100, 100, 100]
    assert _full(Sizing.between(30, 500), 3, BATCH_BYTES) == [30, 30, 30]


def test_light_messages_after_heavy_ones_grow_again() -> None:
    sizing = Sizing.between(30, 500).after(30, 30, 30 * BATCH_BYTES)
    assert _full(sizing, 4) == [30, 60, 120, 240]


def test_a_destination_may_take_less_than_the_limit_but_not_less_than_the_batch_size() -> None:
    assert _full(Sizing.between(30, 500).bounded(150), 5) == [30, 60, 120, 150, 150]
    assert _full(Sizing.between(200, 500).bounded(150), 2) == [200, 200]
    assert Sizing.between(30, 500).bounded(None) == Sizing.between(30, 500)


def test_how_many_messages_of_the_last_weight_are_so_many_bytes() -> None:
    sizing = Sizing.between(30, 500)
    assert sizing.within(BATCH_BYTES) is None  # nothing is known yet
    assert sizing.after(30, 30, 30 * 1000).within(1_000_000) == 1000


@pytest.mark.parametrize("cautious", [False, True])
def test_after_a_conversion_failure_it_is_one_message_at_a_time_until_a_largest_batch_has_passed(
    cautious: bool,
) -> None:
    caution = Caution(Sizing.between(30, 500), cautious=cautious)
    if not cautious:
        assert caution.limit() == 30
        caution.begin(40)
    for _ in range(500):
        assert caution.limit() == 1
        caution.came(1, 1, LIGHT)
        caution.passed(1)
    assert caution.limit() == 30


def test_caution_ends_when_nothing_waits() -> None:
    caution = Caution(Sizing.between(30, 500), cautious=True)
    caution.passed(0)
    assert caution.limit() == 30


def _incoming(*sizes: int) -> list[tuple[int, bool, bytes, bytes, bytes, bytes]]:
    return [(tag, False, b"", b"q", b"", bytes(size)) for tag, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ((10, 10), 2),
        ((BATCH_BYTES, 1), 1),
        ((BATCH_BYTES + 1, 1), 1),
        ((BATCH_BYTES // 2, BATCH_BYTES // 2, 1), 2),
    ],
)
def test_a_source_ends_a_batch_where_it_gets_heavy(sizes: tuple[int, ...], kept: int) -> None:
    assert light(_incoming(*sizes)) == kept


def test_a_link_that_knows_nothing_of_growth_gets_the_batch_size() -> None:
    use = JobUse(Endpoint("q", "l", "q"), "J", batch_size=700)
    assert use.largest_batch == 700
    assert replace(use, batch_limit=900).largest_batch == 900


def test_a_broker_sends_ahead_more_than_a_window_where_that_is_not_settled_before_a_link_confirms_it() -> None:
    use = JobUse(Endpoint("q", "l", "q"), "J", batch_limit=500)
    assert prefetch(use) == 1000
    assert prefetch(replace(use, through=True)) == 2 * WINDOW_MESSAGES
    assert prefetch(replace(use, batch_limit=900)) == 1800
