"""Events over REST: lists, the audit, and streams that lose and repeat nothing."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.definitions.objects import JobStatus
from mgw.gateway.http import limits
from mgw.gateway.http.rest import events as route
from mgw.gateway.services import feed as feeds
from mgw.gateway.services.feed import Feed
from mgw.gateway.services.health import look
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.gateway.services.probes import HubProbes
from mgw.gateway.services.users import Role, Users
from mgw.gateway.state import run_state
from mgw.links.memory.broker import MemoryBroker
from tests.cli.conftest import Mgw
from tests.conformance.test_bad_input import running
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.gateways import Gateway
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

__all__ = ["hub_url", "hubs"]  # fixtures

EVENTS = "/api/v1/events"
PATIENCE = 60.0


@pytest.fixture
def hub(hub_url: str) -> Iterator[Hub]:
    with open_hub(hub_url, create=True) as made:
        yield made


@pytest.fixture
def web(hub: Hub) -> Iterator[Caller]:
    with serving(hub) as caller:
        yield caller


def happens(
    hub: Hub, text: str, *, level: str = "INFO", name: str = "Tested", object_name: str = "it", ago: float = 0.0
) -> None:
    with hub.write() as conn:
        run_state.add_event(
            conn,
            agent_name="DEFAULT_AGENT",
            level=level,
            name=name,
            object_name=object_name,
            text=text,
            now=hub.clock.now() - ago,
        )


class Stream:
    """A stream of events that is read line by line."""

    def __init__(self, web: Caller, asked: str = "?type=event", **headers: str) -> None:
        self._connection = http.client.HTTPConnection(LOOPBACK, web.port, timeout=PATIENCE)
        given = web.headers | {name.replace("_", "-"): text for name, text in headers.items()}
        self._connection.request("GET", f"{EVENTS}/stream{asked}", headers=given)
        self.answer = self._connection.getresponse()

    def told(self) -> Iterator[tuple[str, int | None, Any]]:
        """Kind, id and data of what is told, without signs of life."""
        kind, identity = "", None
        for line in iter(self.answer.readline, b""):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                kind, identity = value, None
            elif name == "id":
                identity = int(value)
            elif name == "data":
                yield kind, identity, json.loads(value)

    def texts(self, number: int) -> list[str]:
        """Of the next events."""
        told = self.told()
        return [next(told)[2]["text"] for _ in range(number)]

    def close(self) -> None:
        self._connection.close()
        self.answer.close()


@contextmanager
def stream(web: Caller, asked: str = "?type=event", **headers: str) -> Iterator[Stream]:
    found = Stream(web, asked, **headers)
    assert found.answer.status == 200, found.answer.read()
    try:
        yield found
    finally:
        found.close()


# --------------------------------------------------------------------------------------------------------------- lists


def test_events_are_listed_from_the_latest_on_and_filtered(hub: Hub, web: Caller) -> None:
    for number in range(5):
        happens(hub, f"e{number}", level=("INFO", "WARNING", "ERROR")[number % 3], object_name=f"o{number % 2}")
    happens(hub, "old", ago=3600, name="Elder")

    def texts(**asked: Any) -> list[str]:
        found: list[str] = []
        while True:
            page = web.ok("GET", f"{EVENTS}?{urlencode(asked)}")
            found += [each["text"] for each in page["events"]]
            if page["next"] is None:
                return found
            asked["cursor"] = page["next"]

    assert texts() == ["old", "e4", "e3", "e2", "e1", "e0"]
    assert texts(limit=2) == texts()
    assert texts(level="WARNING") == ["e4", "e2", "e1"]
    assert texts(object="O1") == ["e3", "e1"]
    assert texts(name="elder") == ["old"]
    assert texts(agent="default_agent", limit=4) == texts()
    since = web.ok("GET", f"{EVENTS}?object=o0")["events"][-1]["time"]
    assert "old" not in texts(since=since)
    assert texts(object="nobody") == []
    shown = web.ok("GET", f"{EVENTS}?name=Elder")["events"][0]
    assert (shown["level"], shown["name"], shown["agent"], shown["object"]) == ("INFO", "Elder", "DEFAULT_AGENT", "it")


def test_what_cannot_be_asked_is_refused(web: Caller) -> None:
    for asked in ("level=LOUD", "limit=0", "limit=5000", "since=now", "cursor=x", "cursor=WzEsMl0", "object=%00"):
        web.refused(422, "GET", f"{EVENTS}?{asked}")
    for asked in ("type=noise", "after=-1", f"after={2**63}"):
        web.refused(422, "GET", f"{EVENTS}/stream?{asked}")
    for wrong in ("x", "-1", str(2**70), "1" * 41):
        web.refused(422, "GET", f"{EVENTS}/stream", last_event_id=wrong)


def test_the_audit_says_who_removed_what(hub: Hub, web: Caller) -> None:
    admin = QueueAdmin(hub)
    admin.create_queue_table("QT")
    admin.create_queue("Q", "QT")
    admin.start_queue("Q")
    web.ok("POST", "/api/v1/queues/Q/messages", [{"text": "a"}, {"text": "b"}])
    web.ok("POST", "/api/v1/queues/Q/purge", {"condition": "qtview.msg_priority = 1"})
    admin.stop_queue("Q")
    admin.drop_queue("Q")
    web.ok("PUT", "/api/v1/links/mem", {"type": "memory", "broker": "b"})
    found = web.ok("GET", "/api/v1/audit")["entries"]
    assert [(each["action"], each["held"]) for each in found] == [
        ("create link", 0),
        ("drop queue", 0),
        ("stop queue", 0),
        ("purge", 2),
        ("start queue", 0),
        ("create queue", 0),
        ("create queue table", 0),
    ]
    assert [(each["actor"], each["through"]) for each in found[::3]][:2] == [("anonymous", "http")] * 2
    assert (found[1]["before"]["dequeue_enabled"], found[1]["after"], found[1]["generation"]) == (False, None, None)
    assert (found[0]["before"], found[0]["after"]["type"], found[0]["generation"]) == (None, "MEMORY", found[0]["id"])
    page = web.ok("GET", "/api/v1/audit?limit=1")
    assert page["entries"] == found[:1]
    assert web.ok("GET", f"/api/v1/audit?limit=6&cursor={page['next']}")["entries"] == found[1:]
    assert web.ok("GET", "/api/v1/audit?object=MEM")["entries"] == found[:1]
    assert web.ok("GET", "/api/v1/audit?since=2999-01-01T00:00:00Z")["entries"] == []


def test_generations_are_listed_and_lead_back(hub: Hub, web: Caller) -> None:
    web.ok("PUT", "/api/v1/links/mem", {"type": "memory", "timeout": 7})
    web.ok("PATCH", "/api/v1/links/mem", {"timeout": 9})
    web.ok("POST", "/api/v1/config/apply", {"links": {"a": {"type": "memory"}, "b": {"type": "memory"}}})
    config = "/api/v1/config"
    listed = web.ok("GET", f"{config}/generations")["generations"]
    assert [(each["what"], each["result"]) for each in listed] == [
        ("apply configuration: create link a; create link b", "2 created"),
        ("alter link mem (timeout: 7.0 -> 9.0)", "done"),
        ("create link mem", "done"),
    ]
    page = web.ok("GET", f"{config}/generations?limit=2")
    assert web.ok("GET", f"{config}/generations?cursor={page['next']}")["generations"] == listed[2:]
    number = listed[-1]["generation"]
    one = web.ok("GET", f"{config}/generations/{number}")
    assert [(each["action"], each["object"]) for each in one["changes"]] == [("create link", "mem")]
    then = web("GET", f"{config}/generations/{number}/definitions").body.decode()
    assert "timeout: 7" in then
    planned = web.ok("POST", f"{config}/rollback?dry_run=true", {"generation": number})
    assert [f"{each['verb']} {each['name']}" for each in planned["steps"]] == ["alter mem", "remove a", "remove b"]
    assert not planned["changed"]
    assert web.ok("POST", f"{config}/rollback", {"generation": number})["changed"]
    assert web("GET", config).body.decode() == then
    assert not web.ok("POST", f"{config}/rollback", {"generation": number})["changed"]
    asked = {"generation": number}
    tag = web("POST", f"{config}/rollback?dry_run=true", asked).headers["etag"]
    web.ok("PATCH", "/api/v1/links/mem", {"timeout": 8})
    web.refused(412, "POST", f"{config}/rollback", asked, if_match=tag)
    tag = web("POST", f"{config}/rollback?dry_run=true", asked).headers["etag"]
    assert "queues" in web.ok("POST", f"{config}/rollback", asked, if_match=tag)["untouched"]
    unseen = web("POST", f"/generations/{number}/rollback", body=b"", content_type="application/x-www-form-urlencoded")
    assert (unseen.status, b"changed meanwhile" in unseen.body) == (409, True), unseen
    wanted = {"links": {"mem": {"type": "memory", "comment": "mine"}}, "queues": {"Q": {}}}
    tag = web("POST", f"{config}/plan", wanted).headers["etag"]
    web.ok("PUT", "/api/v1/queues/OTHER", {})
    web.refused(412, "POST", f"{config}/apply", wanted, if_match=tag)
    tag = web("POST", f"{config}/plan", wanted).headers["etag"]
    assert len(web.ok("POST", f"{config}/apply", wanted, if_match=tag)["steps"]) > 1
    assert web("GET", f"{config}/generations/9999").status == 404
    assert web("POST", f"{config}/rollback", {"generation": 9999}).status == 404


# ------------------------------------------------------------------------------------------------------------- streams


def test_events_arrive_in_order_and_a_stream_goes_on_without_gap_or_repeat(hub: Hub, web: Caller) -> None:
    with stream(web) as first:
        told = first.told()
        for number in range(10):
            happens(hub, str(number))
        found = [next(told) for _ in range(10)]
    assert [(kind, data["text"]) for kind, _, data in found] == [("event", str(number)) for number in range(10)]
    ids = [identity for _, identity, _ in found]
    assert ids == sorted(ids, key=lambda each: each or 0)
    for number in range(10, 20):
        happens(hub, str(number))
    with stream(web, last_event_id=str(ids[4])) as second:
        assert second.texts(15) == [str(number) for number in range(5, 20)]
        happens(hub, "20")
        assert second.texts(1) == ["20"]
    with stream(web, f"?type=event&after={ids[9]}") as third:
        assert third.texts(11) == [str(number) for number in range(10, 21)]


def test_who_comes_back_while_others_listen_misses_nothing(hub: Hub, web: Caller) -> None:
    stop = threading.Event()
    total = 0

    def happen() -> None:
        nonlocal total
        while not stop.wait(0.002):
            happens(hub, str(total))
            total += 1

    with stream(web, "?type=event"):
        thread = threading.Thread(target=happen)
        thread.start()
        texts: list[str] = []
        last = "0"
        try:
            while len(texts) < 300:
                with stream(web, last_event_id=last) as again:
                    told = again.told()
                    for _ in range(60):
                        _, identity, data = next(told)
                        texts.append(data["text"])
                        last = str(identity)
        finally:
            stop.set()
            thread.join()
    assert texts == [str(number) for number in range(len(texts))]


def test_thousands_that_were_missed_are_read_page_by_page(hub: Hub, web: Caller) -> None:
    with hub.write() as conn:
        for number in range(1200):
            run_state.add_event(
                conn, agent_name=None, level="INFO", name="E", object_name="it", text=str(number), now=number
            )
    with stream(web, last_event_id="0") as found:
        happens(hub, "1200")
        assert found.texts(1201) == [str(number) for number in range(1201)]


@pytest.mark.parametrize("hub_url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
def test_an_event_that_is_committed_late_is_told_in_its_place(hub: Hub, web: Caller) -> None:
    with stream(web, last_event_id="0") as found:
        told = found.told()
        happens(hub, "first")
        assert next(told)[2]["text"] == "first"
        with hub.write() as conn:
            run_state.add_event(
                conn, agent_name=None, level="INFO", name="E", object_name="it", text="late", now=hub.clock.now()
            )
            happened = threading.Thread(target=happens, args=(hub, "early"))
            happened.start()
            happened.join(30)
        assert [next(told)[2]["text"] for _ in range(2)] == ["late", "early"]


@pytest.mark.parametrize("hub_url", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
def test_a_gap_that_stays_holds_the_events_behind_it_for_a_moment_only(
    hub: Hub, web: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "SETTLED", 1.5)
    with stream(web, last_event_id="0") as found:
        happens(hub, "first")
        with suppress(ZeroDivisionError), hub.write() as conn:
            run_state.add_event(
                conn, agent_name=None, level="INFO", name="E", object_name="it", text="undone", now=hub.clock.now()
            )
            raise ZeroDivisionError
        happens(hub, "second")
        assert found.texts(2) == ["first", "second"]


def test_states_and_counters_are_told_too(tmp_path: Path) -> None:
    gateway = Gateway(f"sqlite:///{tmp_path}/hub.db")
    broker = MemoryBroker.get("restevents")
    try:
        broker.queue("DST")
        gateway.queue("Q")
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem")
        with serving(gateway.hub) as web, stream(web, "") as found:
            told = found.told()
            seen: dict[str, Any] = {}
            while set(seen) < {"job", "link", "metrics"}:
                kind, identity, data = next(told)
                seen.setdefault(kind, data)
                assert (identity is not None) == (kind == "event")
            assert seen["job"]["name"] == "OUT"
            assert seen["link"]["name"] == "MEM"
            assert seen["metrics"]["jobs"]["OUT"]["propagated"] == 0
            with stream(web, "?type=job") as second:  # who comes later hears of all, too
                assert next(second.told())[2]["name"] == "OUT"
            gateway.admin.remove_job("out", force=True)
            while True:
                kind, _, data = next(told)
                if kind == "job" and data.get("state") == "REMOVED":
                    break
    finally:
        MemoryBroker.drop("restevents")
        gateway.close()


def test_a_state_that_lasts_is_told_once(tmp_path: Path) -> None:
    gateway = Gateway(f"sqlite:///{tmp_path}/hub.db")
    try:
        gateway.queue("Q")
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": "lasting"})
        gateway.admin.register_foreign_queue("DST", "mem")
        job = gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem")
        with gateway.hub.write() as conn:
            now = gateway.hub.clock.now()
            failed: dict[str, Any] = {
                "status": JobStatus.RETRY,
                "failures": 1,
                "error": "no route",
                "retry_at": now + 1,
            }
            run_state.record_failure(conn, job.id, now=now, **failed)
        found = look(gateway.hub)
        agents = [replace(each, status="RUNNING", lease_expires=found.now + 1e6) for each in found.signs.agents]
        feed = Feed(gateway.hub, HubProbes(gateway.hub), 1)
        told = []
        for seconds in (0.0, 1.4, 755.0):
            seen = replace(found, now=found.now + seconds, signs=replace(found.signs, agents=agents))
            told.append([json.loads(each.data) for each in feed._states(seen) if each.kind == "job"])
        assert [len(each) for each in told] == [1, 0, 1], told  # the last: it has been so for too long
        assert [each["state"] for each in (*told[0], *told[2])] == ["RETRY", "RETRY"]
        assert [each["healthy"] for each in (*told[0], *told[2])] == [True, False]
        assert " for 755 s (since " in told[2][0]["reason"]
    finally:
        gateway.close()


def test_as_many_streams_as_may_and_not_one_more(hub: Hub, web: Caller) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(stream(web)) for _ in range(limits.STREAMS)]
        answer = web("GET", f"{EVENTS}/stream")
        assert (answer.status, answer.headers["content-type"]) == (503, "application/problem+json")
        assert answer.headers["retry-after"] == "1"
        assert web("GET", EVENTS).status == 200
        watchers = [thread for thread in threading.enumerate() if thread.name == "events"]
        assert len(watchers) == 1
        happens(hub, "to all")
        for each in streams:
            assert each.texts(1) == ["to all"]
        streams[0].close()

        def room() -> bool:
            with stream(web):
                return True

        eventually(room, deadline=PATIENCE)
    eventually(lambda: all(thread.name != "events" for thread in threading.enumerate()), deadline=PATIENCE)


def test_a_slow_reader_is_let_go_and_holds_nobody(hub: Hub, web: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_MOST", 20)
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with slow, stream(web) as quick:
        slow.connect((LOOPBACK, web.port))
        slow.sendall(f"GET {EVENTS}/stream?type=event HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        told = quick.told()
        large = "x" * 200_000
        for burst in range(4):
            for number in range(15):
                happens(hub, f"{burst}.{number} {large}")
            for number in range(15):
                assert next(told)[2]["text"].startswith(f"{burst}.{number} ")
        happens(hub, "last")
        assert next(told)[2]["text"] == "last"


def test_a_listener_that_takes_nothing_is_let_go(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_MOST", 5)
    feed = Feed(hub, HubProbes(hub), 10)
    listener = feed.listen(("event",), lambda: None)
    for number in range(6):
        happens(hub, str(number))
    eventually(lambda: listener.slow, deadline=PATIENCE)
    assert feed.listeners == 0
    eventually(lambda: not feed.looks, deadline=PATIENCE)


def test_a_stream_ends_with_the_token_it_was_opened_with(
    hub: Hub, web: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "CHECK_SECONDS", 0.3)
    users = Users(hub)
    users.add("root", Role.ADMINISTRATOR, None, by="test")
    users.add("eva", Role.VIEWER, None, by="test")
    row, token = users.add_token("eva", by="test")
    eva = Caller(web.port, {"Authorization": f"Bearer {token}"})
    assert web("GET", f"{EVENTS}/stream").status == 401
    with stream(eva) as found:
        happens(hub, "heard")
        told = found.told()
        assert any(data["text"] == "heard" for _, _, data in told)
        users.remove_token(row.id, by="test")
        begun = time.monotonic()
        assert all(data["text"] != "secret" for _, _, data in told)  # to its end
        assert time.monotonic() - begun < PATIENCE


def test_an_agent_that_stops_lets_those_who_listen_go_without_a_word(tmp_path: Path) -> None:
    mgw, port = Mgw(tmp_path), free_port()
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    with ExitStack() as open_ones:
        with running(mgw, "--http", f"{LOOPBACK}:{port}") as agent:
            caller = Caller(port)
            eventually(lambda: caller("GET", "/readyz").status == 200, deadline=60, tolerate=(OSError, ValueError))
            found = [open_ones.enter_context(stream(caller, "")) for _ in range(3)]
            for each in found:
                assert next(each.told())
        assert "ERROR" not in agent.said, agent.said


def test_nobody_looks_while_nobody_listens(hub: Hub) -> None:
    feed = Feed(hub, HubProbes(hub), 2)
    assert not feed.looks
    listener = feed.listen((), lambda: None)
    assert feed.looks
    feed.leave(listener)
    feed.leave(listener)
    eventually(lambda: not feed.looks, deadline=PATIENCE)
    assert feed.listeners == 0
