"""The unbroken prefix of confirmed batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.links.rabbitmq.destination import Confirmations


def test_single_confirmations_out_of_order_count_when_the_gap_closes() -> None:
    state = Confirmations()
    state.add(10, 2)
    state.add(20, 2)
    for tag, done in ((4, None), (1, None), (3, None), (2, 20)):
        state.confirmed(tag, False, True)
        assert state.done == done


def test_multiple_confirms_all_up_to_it() -> None:
    state = Confirmations()
    state.add(1, 3)
    state.add(2, 3)
    state.confirmed(5, False, True)
    state.confirmed(4, True, True)
    assert state.done == 1
    state.confirmed(6, False, True)
    assert state.done == 2
    assert not state.in_flight


def test_empty_batch_is_done_as_soon_as_those_before_it() -> None:
    state = Confirmations()
    state.add(1, 0)
    assert state.done == 1
    state.add(2, 1)
    state.add(3, 0)
    assert state.done == 1
    state.confirmed(1, False, True)
    assert state.done == 3


def test_refusal_leaves_what_was_confirmed_before_it() -> None:
    state = Confirmations()
    state.add(1, 1)
    state.add(2, 1)
    state.add(3, 1)
    state.confirmed(1, False, True)
    state.confirmed(2, False, False)
    state.confirmed(3, True, True)
    assert state.done == 1
    assert "nack" in state.refusal


def test_after_a_message_that_was_returned_nothing_counts() -> None:
    state = Confirmations()
    state.add(1, 3)
    state.refuse("no queue is bound")
    state.confirmed(1, False, True)  # RabbitMQ confirms what it returned
    assert state.answered
    assert list(state.stored(1, 3)) == []


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_of_messages_that_a_full_queue_refused_the_others_are_known(sizes: list[int], data: st.DataObject) -> None:
    state = Confirmations()
    lasts = [(state.add(sequence, size), state.published)[1] for sequence, size in enumerate(sizes)]
    open_tags, stored = set(range(1, state.published + 1)), set[int]()
    while open_tags:
        assert not state.answered
        tag, multiple = data.draw(st.sampled_from(sorted(open_tags))), data.draw(st.booleans())
        positive = data.draw(st.booleans())
        state.confirmed(tag, multiple, positive)
        told = {other for other in open_tags if (other <= tag if multiple else other == tag)}
        open_tags -= told
        stored |= told if positive else set()
    assert state.answered
    for sequence, (size, last) in enumerate(zip(sizes, lasts, strict=True)):
        first = last - size + 1
        assert [first + index for index in state.stored(sequence, size)] == [
            tag for tag in range(first, last + 1) if tag in stored
        ]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_done_is_never_ahead_of_a_message(sizes: list[int], data: st.DataObject) -> None:
    state = Confirmations()
    last_tags = []
    for sequence, size in enumerate(sizes):
        state.add(sequence, size)
        last_tags.append(state.published)
    open_tags = set(range(1, state.published + 1))
    while open_tags:
        tag = data.draw(st.sampled_from(sorted(open_tags)))
        multiple = data.draw(st.booleans())
        state.confirmed(tag, multiple, True)
        open_tags = {other for other in open_tags if (other > tag if multiple else other != tag)}
        lowest = min(open_tags, default=state.published + 1)
        complete = [sequence for sequence, last in enumerate(last_tags) if last < lowest]
        assert state.done == (complete[-1] if complete else None)
