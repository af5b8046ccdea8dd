"""Which worker runs which job."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.definitions.objects import JobDef, Propagation
from mgw.gateway.runtime.workers.assignment import Load, assign, load_of

IN, OUT = Propagation.INBOUND, Propagation.OUTBOUND


def route(number: int) -> dict[int, Load]:
    """An inbound and an outbound job with a queue between."""
    queue = frozenset([f"Q{number}"])
    return {2 * number: Load(IN, queue), 2 * number + 1: Load(OUT, queue)}


def test_the_two_jobs_of_a_route_go_to_different_workers() -> None:
    placed = assign(route(1), [1, 2], {})
    assert sorted(placed.values()) == [1, 2]


def test_each_of_several_routes_is_divided_and_every_worker_has_jobs_of_both_directions() -> None:
    jobs = {job: load for number in range(4) for job, load in route(number).items()}
    placed = assign(jobs, [1, 2], {})
    assert all(placed[2 * number] != placed[2 * number + 1] for number in range(4))
    assert Counter((placed[job], jobs[job].kind) for job in jobs) == {(w, k): 2 for w in (1, 2) for k in (IN, OUT)}


def test_jobs_stay_where_they_are_when_others_come_and_go() -> None:
    before = assign(route(1) | route(2), [1, 2, 3], {})
    after = assign(route(2) | route(3), [1, 2, 3], before)
    assert {job: after[job] for job in route(2)} == {job: before[job] for job in route(2)}
    assert after.keys() == (route(2) | route(3)).keys()


def test_jobs_of_a_worker_that_is_there_no_more_go_to_the_others() -> None:
    before = assign(route(1) | route(2), [1, 2], {})
    assert set(assign(route(1) | route(2), [1], before).values()) == {1}


@given(st.sets(st.integers(1, 400), max_size=60), st.integers(1, 64))
def test_no_worker_has_more_than_one_job_more_than_another(numbers: set[int], workers: int) -> None:
    jobs = {number: Load(IN if number % 2 else OUT, frozenset([f"Q{number % 7}"])) for number in numbers}
    shares = Counter(assign(jobs, range(1, workers + 1), {}).values())
    assert sum(shares.values()) == len(jobs)
    counts = [shares[number] for number in range(1, workers + 1)]
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    ("kind", "source", "destination", "queues"),
    [
        (IN, "A@L", "main.q", {"MAIN.Q"}),
        (OUT, "q", "B@L", {"Q"}),
        (Propagation.LOCAL, "q", "r", {"Q", "R"}),
        (Propagation.THROUGH, "A@L", "B@L", set()),
    ],
)
def test_a_job_shares_a_route_by_its_ends_in_the_hub(
    kind: Propagation, source: str, destination: str, queues: set[str]
) -> None:
    assert load_of(JobDef(1, "J", "A", "L", kind, source, destination)) == Load(kind, frozenset(queues))
