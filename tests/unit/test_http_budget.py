"""The processor time that requests may take while the jobs need it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from mgw.gateway.http import limits
from mgw.gateway.http.budget import Budget
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.processor_time import ProcessorTime, Used


class Machine:
    """A clock, and what the threads used since it was last asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = Used()
        self.budget = Budget(clock=lambda: self.now, used=lambda: self.used)
        self.passes(10)

    def passes(
        self, seconds: float, *, web: float = 0.0, others: float = 0.0, waited: float = 0.0, children: float = 0.0
    ) -> None:
        self.now += seconds
        self.used = Used(web, others, waited, children)
        self.budget.crowded  # noqa: B018  looks
        self.used = Used()


@pytest.mark.parametrize(
    ("others", "waited", "children", "limited"),
    [
        (0.02, 0.02, 0.00, False),  # the jobs have nothing to do
        (0.30, 0.00, 0.00, False),  # they have all that they want
        (0.30, 0.10, 0.00, True),  # they wait for a processor
        (0.80, 0.00, 0.00, True),  # they fill the interpreter
        (0.02, 0.10, 0.90, True),  # those in workers wait for a processor
        (0.02, 0.00, 1.90, False),  # those in workers have processors, and interpreters, of their own
    ],
)
def test_requests_are_limited_while_the_jobs_need_the_processor(
    others: float, waited: float, children: float, limited: bool
) -> None:
    machine = Machine()
    assert not machine.budget.crowded
    machine.passes(1, web=0.6, others=0.02, waited=0.02)
    assert machine.budget.crowded
    machine.passes(1, web=0.15, others=others, waited=waited, children=children)
    machine.budget.take()
    found = [machine.budget.take() for _ in range(100)]
    assert found.count(True) == (0 if limited else 100)
    machine.now += 1.01 / limits.HELD_RATE
    assert machine.budget.take()  # so many are answered in any case
    machine.passes(30)  # jobs that need it no more: there is no limit
    assert all(machine.budget.take() for _ in range(1000))


def test_where_no_job_is_near_nothing_is_limited() -> None:
    now, used = 0.0, Used()
    budget = Budget(has_jobs=False, clock=lambda: now, used=lambda: used)
    assert not budget.crowded
    now, used = 1.0, Used(web=0.9, others=0.9, waited=0.9)
    assert budget.crowded
    assert all(budget.take() for _ in range(1000))


def test_what_was_not_taken_may_be_taken_at_once_and_then_the_share() -> None:
    machine = Machine()
    machine.passes(1, others=0.3, waited=0.3)
    begun = next(number for number in range(10_000) if not machine.budget.take())
    assert begun == pytest.approx(limits.SHARE_BURST / 0.002, abs=3)
    total = 0
    for _ in range(100):
        machine.passes(0.25, web=0.002 * begun, others=0.1, waited=0.1)
        begun = next(number for number in range(10_000) if not machine.budget.take())
        total += begun
    assert total * 0.002 / 25 == pytest.approx(limits.SHARE, rel=0.25)


def test_those_who_wait_are_answered_in_turns_and_at_last_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.http.limits.HELD_SECONDS", 0.4)
    monkeypatch.setattr("mgw.gateway.http.limits.HELD_RATE", 10.0)
    monkeypatch.setattr("mgw.gateway.http.limits.SHARE_BURST", 0.0)
    order: list[str] = []

    async def ask(budget: Budget, caller: str) -> None:
        await budget.turn(caller)
        order.append(caller)

    async def crowd(budget: Budget) -> list[object]:
        budget.take()
        return await asyncio.gather(
            *(ask(budget, caller) for caller in ["greedy"] * 20 + ["modest"]), return_exceptions=True
        )

    budget = Budget(used=lambda: Used(0.1, 0.3, 0.3))
    budget._looked = time.monotonic() - 1
    found = [each for each in asyncio.run(crowd(budget)) if each is not None]
    assert 2 <= len(order) <= 5, order
    assert order.index("modest") <= 1, order
    assert (budget.held, budget.refused) == (21, len(found)) == (21, 21 - len(order))
    for problem in found:
        assert isinstance(problem, Problem)
        assert problem.status == 503
        assert problem.headers["Retry-After"] == "0"
        assert "mgw serve" in problem.members["cure"]


def test_the_time_of_the_threads_that_answer_is_told_from_that_of_the_others() -> None:
    used, done = ProcessorTime(), threading.Event()

    def work() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        done.wait(60)

    assert used() == Used()
    threads = [threading.Thread(target=work, name=name) for name in ("http", "job")]
    for thread in threads:
        thread.start()
    web = others = 0.0
    end = time.monotonic() + 60
    while min(web, others) < 0.04 and time.monotonic() < end:
        time.sleep(0.01)
        found = used()
        web, others = web + found.web, others + found.others
    done.set()
    for thread in threads:
        thread.join()
    assert web == pytest.approx(0.05, abs=0.02)
    assert others >= 0.04


_OF_CHILDREN = """
import subprocess, sys, time
from mgw.gateway.http.processor_time import ProcessorTime
used, found, end = ProcessorTime(), 0.0, time.monotonic() + 60
work = "import threading; threading.Thread(target=lambda: any(iter(int, 1))).start()"
with subprocess.Popen([sys.executable, "-c", work]) as child:
    while found < 0.2 and time.monotonic() < end:
        time.sleep(0.01)
        found += used().children
    child.kill()
print(found >= 0.2, used().children, used().children)
"""


def test_the_time_of_processes_that_this_one_started_counts_as_that_of_jobs() -> None:
    """In a process of its own, which has no other children."""
    said = subprocess.run([sys.executable, "-c", _OF_CHILDREN], capture_output=True, text=True, check=True)
    assert said.stdout == "True 0.0 0.0\n"
