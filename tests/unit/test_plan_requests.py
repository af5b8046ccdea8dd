"""Requests of routes that wait for messages, and the transactions that answer them."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from mgw.gateway.runtime.plan_requests import PlanningFailed, PlanRequests
from mgw.transforms.errors import HubUnavailable

QUEUE, OTHER = 1, 2
CONN: Any = None


class Broken(Exception):
    pass


def planned(*plans: Any) -> Any:
    return lambda _: list(plans)


def test_the_transaction_that_brings_messages_answers_the_request() -> None:
    requests = PlanRequests()
    request = requests.make(QUEUE, planned("plan"))
    with requests.answering() as answers:
        answers.plan(CONN, [OTHER, QUEUE, QUEUE])
    assert requests.withdraw(request) == ["plan"]
    assert requests.take([QUEUE]) == []


def test_a_request_that_nobody_answered_is_withdrawn() -> None:
    requests = PlanRequests()
    first, second = requests.make(QUEUE, planned("first")), requests.make(QUEUE, planned("second"))
    assert requests.withdraw(first) == ()
    with requests.answering() as answers:
        answers.plan(CONN, [QUEUE])
    assert requests.withdraw(second) == ["second"]


def test_who_withdraws_waits_for_the_transaction_that_answers() -> None:
    requests = PlanRequests()
    request = requests.make(QUEUE, planned("plan"))
    found: list[Any] = []
    with requests.answering() as answers:
        answers.plan(CONN, [QUEUE])
        waiter = threading.Thread(target=lambda: found.extend(requests.withdraw(request)))
        waiter.start()
        waiter.join(0.05)
        assert waiter.is_alive()
        assert not found
    waiter.join(10)
    assert found == ["plan"]


def test_after_a_failed_commit_the_route_does_not_go_on_with_what_it_knows() -> None:
    requests = PlanRequests()
    some, none = requests.make(QUEUE, planned("plan")), requests.make(QUEUE, planned())
    with suppress(Broken), requests.answering() as answers:
        answers.plan(CONN, [QUEUE])
        raise Broken
    with pytest.raises(HubUnavailable):
        requests.withdraw(some)
    assert requests.withdraw(none) == ()


def test_what_cannot_be_planned_undoes_the_transaction_and_nobody_waits_for_it() -> None:
    def fail(_: Any) -> Any:
        raise Broken

    requests = PlanRequests()
    before, failing, after = (requests.make(QUEUE, plan) for plan in (planned("plan"), fail, planned("plan")))
    with pytest.raises(PlanningFailed), requests.answering() as answers:
        answers.plan(CONN, [QUEUE])
    assert [requests.withdraw(request) for request in (before, failing, after)] == [(), (), ()]
