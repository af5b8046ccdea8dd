"""Dequeue over REST: a message is somebody's or in its queue, whatever happens between the two requests."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.gateway.services.queues import run_time_manager
from mgw.gateway.services.takings import AT_ONCE, AT_ONCE_OF_ONE, SECONDS
from mgw.gateway.services.users import Role, Users
from mgw.gateway.state import gateway_hub
from mgw.transforms.clock import SystemClock
from tests.cli.conftest import Mgw
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.ports import free_port
from tests.support.ready_made import start_module
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

__all__ = ["hub_url", "hubs"]  # fixtures

QUEUE = "/api/v1/queues/Q"


class JumpingClock(SystemClock):
    """The machine's clock, that a test can put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def hub(hub_url: str, clock: JumpingClock) -> Iterator[Hub]:
    with closing(gateway_hub.open_hub(hub_url, create=True, clock=clock)) as made:
        queue(made)
        yield made


@pytest.fixture
def web(hub: Hub) -> Iterator[Caller]:
    with serving(hub) as caller:
        yield caller


def queue(hub: Hub, name: str = "Q", **table: Any) -> None:
    admin = QueueAdmin(hub)
    admin.create_queue_table(f"{name}_QT", queue_payload_type="BASIC", **table)
    admin.create_queue(name, f"{name}_QT", max_retries=100)
    admin.start_queue(name)


def put(web: Caller, *texts: str) -> list[str]:
    ids: list[str] = web.ok("POST", f"{QUEUE}/messages", [{"text": text} for text in texts])["ids"]
    return ids


def there(web: Caller, state: str = "READY") -> list[str]:
    return [each["text"] for each in web.ok("GET", f"{QUEUE}/messages?state={state}")["messages"]]


def taken(web: Caller, **asked: Any) -> tuple[list[str], str | None]:
    found = web.ok("POST", f"{QUEUE}/dequeue", asked)
    return [each["text"] for each in found["messages"]], found["token"]


def test_what_is_acknowledged_is_gone(web: Caller) -> None:
    put(web, "a", "b", "c")
    texts, token = taken(web, count=2)
    assert texts == ["a", "b"]
    last_texts, last = taken(web)  # what one has taken, no other gets
    assert last_texts == ["c"]
    assert taken(web) == ([], None)
    assert web.ok("POST", f"{QUEUE}/acknowledge", {"token": token}) == {"messages": 2}
    web.ok("POST", f"{QUEUE}/release", {"token": last})
    eventually(lambda: there(web) == ["c"])
    assert taken(web, count=5)[0] == ["c"]


def test_what_is_released_is_there_again_and_counts_a_failed_attempt(web: Caller) -> None:
    put(web, "a", "b")
    _, token = taken(web, count=2)
    assert web.ok("POST", f"{QUEUE}/release", {"token": token}) == {"messages": 2}
    eventually(lambda: there(web) == ["a", "b"])
    again = web.ok("POST", f"{QUEUE}/dequeue", {"count": 2})["messages"]
    assert [each["attempts"] for each in again] == [1, 1]


def test_what_nobody_acknowledges_is_given_back_after_a_minute(web: Caller, clock: JumpingClock) -> None:
    put(web, "a")
    found = web.ok("POST", f"{QUEUE}/dequeue", {})
    assert found["until"] > found["messages"][0]["enqueued"]
    clock.ahead = SECONDS - 10
    assert taken(web)[0] == []
    clock.ahead = SECONDS
    eventually(lambda: there(web) == ["a"])
    told = web.refused(409, "POST", f"{QUEUE}/acknowledge", {"token": found["token"]})
    assert told["cause"] == "its messages were given back after 60 s"
    assert there(web) == ["a"]


def test_a_token_that_is_too_late_by_a_moment_is_refused(web: Caller, clock: JumpingClock) -> None:
    put(web, "a")
    _, token = taken(web)
    clock.ahead = SECONDS
    web.refused(409, "POST", f"{QUEUE}/release", {"token": token})
    eventually(lambda: there(web) == ["a"])


@pytest.mark.parametrize("verb", ["acknowledge", "release"])
def test_a_token_is_used_once(web: Caller, verb: str) -> None:
    put(web, "a")
    _, token = taken(web)
    web.ok("POST", f"{QUEUE}/{verb}", {"token": token})
    for again in ("acknowledge", "release"):
        told = web.refused(409, "POST", f"{QUEUE}/{again}", {"token": token})
        assert ("acknowledged" if verb == "acknowledge" else "released") in told["cause"]


def test_a_token_is_of_its_user_and_its_queue(hub: Hub, web: Caller) -> None:
    queue(hub, "OTHER")
    users = Users(hub)
    users.add("root", Role.ADMINISTRATOR, None, by="test")
    callers = []
    for name in ("ada", "eva"):
        users.add(name, Role.OPERATOR, None, by="test")
        callers.append(Caller(web.port, {"Authorization": f"Bearer {users.add_token(name, by='test')[1]}"}))
    ada, eva = callers
    put(ada, "a")
    _, token = taken(ada)
    eva.refused(404, "POST", f"{QUEUE}/acknowledge", {"token": token})
    ada.refused(404, "POST", "/api/v1/queues/OTHER/acknowledge", {"token": token})
    ada.refused(404, "POST", f"{QUEUE}/acknowledge", {"token": token[:-1]})
    ada.ok("POST", f"{QUEUE}/acknowledge", {"token": token})
    eva.refused(404, "POST", f"{QUEUE}/acknowledge", {"token": token})


def test_messages_come_back_when_the_process_is_killed(hub_url: str, hub: Hub, tmp_path: Path) -> None:
    port = free_port()
    other = Caller(port)
    mgw = Mgw(tmp_path, {"MGW_HUB": hub_url})
    process = start_module(
        "mgw.gateway",
        *("serve", "--http", f"127.0.0.1:{port}"),
        log=tmp_path / "serve.txt",
        environment=mgw.environment(),
        folder=tmp_path,
    )
    with serving(hub) as web:
        try:
            eventually(lambda: other("GET", "/readyz").status == 200, deadline=90, tolerate=(OSError, AssertionError))
            own = os.getpriority(os.PRIO_PROCESS, 0)
            assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, own + 15), "it yields to the jobs"
            put(web, "a")
            assert taken(other)[0] == ["a"]
            assert taken(web)[0] == []
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(30)

        def back() -> bool:
            run_time_manager(hub)
            return taken(web)[0] == ["a"]

        eventually(back, deadline=90)


def test_messages_come_back_when_the_hub_is_closed(hub_url: str, web: Caller, hub: Hub) -> None:
    put(web, "a")
    with open_hub(hub_url) as second, serving(second) as other:
        assert taken(other)[0] == ["a"]
        assert taken(web)[0] == []
    eventually(lambda: there(web) == ["a"])


def test_acknowledged_by_the_same_request_and_browsed(web: Caller) -> None:
    put(web, "a", "b")
    assert taken(web, mode="browse", count=5) == (["a", "b"], None)
    assert taken(web, acknowledge=True) == (["a"], None)
    assert there(web) == ["b"]


def test_what_is_wanted_is_chosen(web: Caller) -> None:
    ids = put(web, "a", "b")
    web.ok("POST", f"{QUEUE}/messages", {"text": "c", "correlation": "x1", "priority": 7})
    assert taken(web, correlation="x%", acknowledge=True)[0] == ["c"]
    assert taken(web, condition="tab.user_data = 'b'", acknowledge=True)[0] == ["b"]
    assert taken(web, id=ids[0], acknowledge=True)[0] == ["a"]
    assert web.refused(422, "POST", f"{QUEUE}/dequeue", {"condition": "tab. = 1"})["number"] == 25448
    web.refused(404, "POST", f"{QUEUE}/dequeue", {"id": ids[0]})
    web.refused(422, "POST", f"{QUEUE}/dequeue", {"consumer": "A"})
    for wrong in ({"count": 0}, {"count": 1001}, {"wait": 10.1}, {"wait": -1}, {"mode": "peek"}, {"id": "x"}, {"a": 1}):
        web.refused(422, "POST", f"{QUEUE}/dequeue", wrong)


def test_subscribers_have_messages_of_their_own(hub: Hub, web: Caller) -> None:
    queue(hub, "MANY", multiple_consumers=True)
    admin = QueueAdmin(hub)
    for name in ("A", "B"):
        admin.add_subscriber("MANY", name)
    web.ok("POST", "/api/v1/queues/MANY/messages", {"text": "x"})
    many = "/api/v1/queues/MANY/dequeue"
    web.refused(422, "POST", many, {})
    for name in ("A", "B"):
        found = web.ok("POST", many, {"consumer": name})
        assert [each["text"] for each in found["messages"]] == ["x"]
        web.ok("POST", "/api/v1/queues/MANY/acknowledge", {"token": found["token"]})


def test_a_request_waits_for_its_message_and_holds_no_thread(web: Caller) -> None:
    """As many wait as may, which is more than half of the threads that the server has for all requests."""
    found: list[tuple[list[str], str | None]] = []
    waiting = [threading.Thread(target=lambda: found.append(taken(web, wait=10, acknowledge=True))) for _ in range(60)]
    for thread in waiting:
        thread.start()
    begun = time.monotonic()
    put(web, *map(str, range(60)))
    for thread in waiting:
        thread.join(60)
    assert sorted(text for texts, _ in found for text in texts) == sorted(map(str, range(60)))
    assert time.monotonic() - begun < 60
    assert taken(web, wait=0.1) == ([], None)


def test_two_consumers_never_get_the_same_message(web: Caller) -> None:
    put(web, *map(str, range(120)))
    found: list[str] = []

    def consume() -> None:
        while True:
            texts, token = taken(web, count=7)
            if not texts:
                return
            found.extend(texts)
            web.ok("POST", f"{QUEUE}/acknowledge", {"token": token})

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == sorted(map(str, range(120)))
    assert there(web) == []


def test_there_is_an_end_to_what_is_taken_and_not_acknowledged(hub: Hub, web: Caller) -> None:
    users = Users(hub)
    users.add("root", Role.ADMINISTRATOR, None, by="test")
    callers = []
    for number in range(3):
        users.add(f"u{number}", Role.OPERATOR, None, by="test")
        token = users.add_token(f"u{number}", by="test")[1]
        callers.append(Caller(web.port, {"Authorization": f"Bearer {token}"}))
    put(callers[0], *map(str, range(AT_ONCE + 1)))
    tokens = [taken(callers[0])[1] for _ in range(AT_ONCE_OF_ONE)]
    answer = callers[0]("POST", f"{QUEUE}/dequeue", {})
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    for _ in range(AT_ONCE - AT_ONCE_OF_ONE):
        taken(callers[1])
    callers[2].refused(503, "POST", f"{QUEUE}/dequeue", {})
    callers[0].ok("POST", f"{QUEUE}/release", {"token": tokens[0]})
    assert taken(callers[2])[0] != []


def test_a_queue_that_is_stopped_gives_nothing(hub: Hub, web: Caller) -> None:
    put(web, "a")
    QueueAdmin(hub).stop_queue("Q")
    assert web.refused(409, "POST", f"{QUEUE}/dequeue", {"wait": 1})["number"] == 25226
    web.refused(404, "POST", "/api/v1/queues/QQ/dequeue", {"wait": 1})
