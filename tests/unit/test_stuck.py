"""What is said of a job thread that does not come back: where it is."""

from __future__ import annotations

import threading

from mgw.gateway.aq.store.write_lock import FairLock
from mgw.gateway.runtime.plan_requests import PlanRequests
from mgw.gateway.runtime.stuck import whereabouts
from tests.support.waiting import eventually


def test_a_thread_that_waits_for_its_plan_waits_for_another_job() -> None:
    requests = PlanRequests()
    request = requests.make(1, lambda _: ())
    (taken,) = requests.take([1])  # the transaction of the other job is open
    thread = threading.Thread(target=requests.withdraw, args=(request,), daemon=True)
    thread.start()
    eventually(
        lambda: whereabouts(thread.ident) == "waits for the transaction of another job, which plans its messages"
    )
    taken.done.set()
    thread.join(30)
    assert not thread.is_alive()
    assert whereabouts(thread.ident) == "does not come back"


def test_a_thread_that_waits_for_its_turn_to_write_waits_for_the_hub() -> None:
    lock = FairLock()
    assert lock.acquire(0)
    thread = threading.Thread(target=lock.acquire, args=(60,), daemon=True)
    thread.start()
    eventually(lambda: whereabouts(thread.ident) == "waits for the hub")
    lock.release()
    thread.join(30)
    assert not thread.is_alive()


def test_a_thread_that_is_elsewhere_is_named_by_its_module() -> None:
    assert whereabouts(None) == "does not come back"
    assert whereabouts(threading.get_ident()) == "does not come back from mgw.gateway.runtime.stuck"
