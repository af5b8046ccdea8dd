"""Turns are taken in line, at most so many at a time."""

from __future__ import annotations

import threading

from mgw.gateway.runtime.fair_semaphore import Turns


def test_as_many_jobs_as_allowed_work_at_a_time_and_no_more() -> None:
    turns = Turns(2)
    inside, leave = threading.Semaphore(0), threading.Event()

    def job() -> None:
        with turns.take():
            inside.release()
            leave.wait(60)

    threads = [threading.Thread(target=job) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert inside.acquire(timeout=30)
    assert inside.acquire(timeout=30)
    while not turns._line:  # until the third stands in line
        pass
    assert not inside.acquire(blocking=False)
    leave.set()
    assert inside.acquire(timeout=30)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_turns_are_given_in_the_order_they_were_asked_for() -> None:
    turns, order = Turns(1), []
    waiting = [threading.Event() for _ in range(5)]
    threads = []

    def job(number: int) -> None:
        waiting[number].set()
        with turns.take():
            order.append(number)

    with turns.take():
        for number in range(5):
            thread = threading.Thread(target=job, args=(number,))
            thread.start()
            threads.append(thread)
            assert waiting[number].wait(30)
            while len(turns._line) <= number:  # until it stands in line
                pass
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]


def test_a_turn_is_given_back_when_the_work_fails() -> None:
    turns = Turns(1)
    for _ in range(3):
        try:
            with turns.take():
                raise ValueError
        except ValueError:
            pass
    with turns.take():
        assert turns._free == 0
    assert turns._free == 1
