"""One transaction at a time; the batches behind it go together with the next."""

from __future__ import annotations

from mgw.links.rabbitmq.logged_destination import TRANSACTION_MESSAGES, Transactions


def test_batches_wait_for_the_commit_and_then_go_together() -> None:
    state = Transactions()
    state.add(1, ["a"])
    assert state.begin() == ["a"]
    state.add(2, ["b", "c"])
    state.add(5, ["d"])
    assert state.begin() == []
    state.committed()
    assert state.done == 1
    assert state.begin() == ["b", "c", "d"]
    assert state.in_flight
    state.committed()
    assert (state.done, state.in_flight) == (5, False)


def test_transaction_takes_a_large_batch_whole_and_no_more() -> None:
    state = Transactions()
    state.add(1, ["x"] * (TRANSACTION_MESSAGES + 1))
    state.add(2, ["y"])
    assert len(state.begin()) == TRANSACTION_MESSAGES + 1
    assert state.committing == 1


def test_after_a_refusal_nothing_counts_and_nothing_is_sent() -> None:
    state = Transactions()
    state.add(1, ["a"])
    state.begin()
    state.committed()
    state.add(2, ["b"])
    state.begin()
    state.refuse("unroutable")
    state.refuse("later")
    state.committed()
    state.add(3, ["c"])
    assert state.begin() == []
    assert (state.done, state.refusal) == (1, "unroutable")
