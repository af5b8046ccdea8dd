"""Jobs that wait for a broker are woken when it can be reached again, and only then."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from mgw.gateway.runtime import reach
from mgw.gateway.runtime.reach import Look, Reach
from mgw.transforms.clock import SYSTEM_CLOCK
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(reach, "CLOSED_PAUSE", 0.01)
    monkeypatch.setattr(reach, "OPEN_PAUSE", 0.05)
    monkeypatch.setattr(reach, "PAUSE", 0.2)


class Broker:
    """Says where it listens."""

    def __init__(self, *places: str) -> None:
        self.places = frozenset(places)
        self.looks = 0
        self.lookers: set[int] = set()

    def look(self) -> frozenset[str]:
        self.looks += 1
        self.lookers.add(threading.get_ident())
        return self.places

    def open(self, *places: str) -> None:
        self.seen()
        self.places = frozenset(places)

    def seen(self) -> None:
        """Returns when it was looked at once more, from beginning to end."""
        before = self.looks
        eventually(lambda: self.looks >= before + 2, what="another look")


class Job:
    """Waits on a thread of its own."""

    def __init__(self, link: Reach, look: Look | None, seconds: float = 30.0) -> None:
        self.woken = threading.Event()
        self._thread = threading.Thread(target=link.wait, args=(self.woken, seconds, look))
        self._thread.start()

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self.woken.set()
        self._thread.join(10)


@pytest.fixture
def link() -> Iterator[Reach]:
    yield Reach("link L", SYSTEM_CLOCK)
    eventually(lambda: not watchers(), what="no watcher left")


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "reach-link L"]


def test_one_look_wakes_all_jobs_of_a_link_when_its_broker_is_back(link: Reach) -> None:
    broker = Broker()
    jobs = [Job(link, broker.look) for _ in range(5)]
    broker.seen()
    assert all(job.waits for job in jobs)
    assert not link.settling
    assert len(watchers()) == 1
    broker.open("a:1")
    eventually(lambda: not any(job.waits for job in jobs), what="all jobs woken")
    assert link.settling
    eventually(lambda: not watchers(), what="nobody waits, nobody looks")
    assert len(broker.lookers) == 1


def test_a_broker_that_accepts_connections_and_refuses_the_rest_wakes_nobody_again(link: Reach) -> None:
    broker = Broker()
    first = Job(link, broker.look)
    broker.open("a:1")
    eventually(lambda: not first.waits, what="the one early try")
    for _ in range(3):
        again = Job(link, broker.look)
        broker.seen()
        assert again.waits
        again.end()


def test_a_broker_that_is_there_all_the_time_wakes_nobody(link: Reach) -> None:
    broker = Broker("a:1")
    job = Job(link, broker.look)
    broker.seen()
    assert job.waits
    assert not link.settling
    job.end()


def test_the_next_server_of_a_cluster_that_is_back_wakes_the_jobs_too(link: Reach) -> None:
    broker = Broker("a:1")
    job = Job(link, broker.look)
    broker.open("a:1", "b:1")
    eventually(lambda: not job.waits, what="the job woken")


def test_a_link_that_cannot_be_looked_at_leaves_its_jobs_their_delays(link: Reach) -> None:
    def look() -> frozenset[str]:
        raise RuntimeError("no client")

    begun = time.monotonic()
    link.wait(threading.Event(), 0.1, look)
    assert time.monotonic() - begun >= 0.1


def test_the_success_of_one_job_wakes_the_others_but_not_again_and_again(link: Reach) -> None:
    job = Job(link, None)
    eventually(lambda: link._waiting, what="a job that waits")
    link.succeeded()
    eventually(lambda: not job.waits, what="the job woken")
    job = Job(link, None)
    eventually(lambda: link._waiting, what="a job that waits")
    link.succeeded()
    assert job.waits
    eventually(lambda: link.succeeded() or not job.waits, what="the job woken when some time has passed")


def test_who_uses_the_hub_anyway_wakes_those_that_wait_for_it(link: Reach) -> None:
    link.told("reading", True)
    link.told("writing", True)
    assert not link.settling
    job = Job(link, None)
    eventually(lambda: link._waiting, what="a job that waits")
    link.told("reading", True)
    assert job.waits, "nothing has changed"
    link.told("writing", False)
    link.told("reading", True)
    assert job.waits
    link.told("writing", True)
    eventually(lambda: not job.waits, what="the job woken")
