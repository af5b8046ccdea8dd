"""`mgw run` answers over HTTP: live, ready, healthy, metrics, and what its port must withstand."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.http.limits import HEADER_BYTES, REQUESTS
from mgw.gateway.http.metrics import METRICS
from mgw.gateway.http.pages import PAGES
from mgw.gateway.http.server import Request, Response, Server
from tests.cli.conftest import SECRETS, Mgw, applied, template
from tests.conformance.link_suite import unique
from tests.conformance.test_bad_input import Agent, amqp, declare, depth, rabbit_link, running, send, small_disk
from tests.support.brokers import PostgreSQL, RabbitMQ
from tests.support.ports import LOOPBACK, free_port
from tests.support.processes import sockets_of
from tests.support.prometheus import Family, parse
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually
from tests.support.web import Caller

__all__ = ["amqp", "applied", "small_disk", "template"]  # fixtures

PATIENCE = 90.0  # seconds for what takes a moment, on a busy machine


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    headers: Any
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def ask(port: int, path: str) -> Answer:
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=30) as found:
            return Answer(found.status, found.read().decode(), found.headers, time.monotonic() - begun)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read().decode(), error.headers, time.monotonic() - begun)


def until(port: int, path: str, status: int) -> Answer:
    def answered() -> Answer | None:
        found = ask(port, path)
        assert found.status == status, found.text
        return found

    found = eventually(answered, deadline=PATIENCE, what=f"{path} answers {status}", tolerate=(AssertionError, OSError))
    assert found is not None
    return found


def soon(port: int, path: str) -> Answer | None:
    """The answer, if it is 503 and came within two seconds; a busy machine may need more than one attempt."""
    found = ask(port, path)
    return found if found.status == 503 and found.seconds < 2 else None


def metrics(port: int) -> dict[str, Family]:
    return dict(parse(ask(port, "/metrics").text))


@pytest.fixture
def mgw(tmp_path: Path) -> Mgw:
    return Mgw(tmp_path, SECRETS | {"PYTHONWARNINGS": "default"})


@contextmanager
def answering(mgw: Mgw, *words: str) -> Iterator[tuple[Agent, int]]:
    port = free_port()
    with running(mgw, *words, "--http", f"{LOOPBACK}:{port}") as agent:
        yield agent, port


def bridge(rabbitmq: RabbitMQ, proxy: TcpProxy, source: str) -> str:
    """RabbitMQ -> H, and a job that does not run."""
    return (
        f"links:\n  {rabbit_link(rabbitmq, hostname=proxy.host, port=proxy.port)}\n"
        f"foreign_queues:\n  IN@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        "queues:\n  H: {}\n  H2: {}\n"
        "jobs:\n  in: {type: inbound, source: IN@rabbit, destination: H}\n"
        "  idle: {type: local, source: H, destination: H2, enabled: false}\n"
    )


def test_probes_tell_an_outage_of_the_broker_from_a_process_that_is_ill(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: Any
) -> None:
    source = declare(amqp, "http")
    with (
        TcpProxy(rabbitmq.host, rabbitmq.port) as proxy,
        answering(mgw, mgw.file(bridge(rabbitmq, proxy, source))) as (
            _,
            port,
        ),
    ):
        until(port, "/healthz?max_age=0", 200)
        assert ask(port, "/livez").text == "live\n"
        assert ask(port, "/readyz").json == {"ready": True, "agent": "DEFAULT_AGENT", "reasons": []}
        assert ask(port, "/version").json["agent"] == "DEFAULT_AGENT"
        send(amqp, source, b"{}", b"{}")
        eventually(
            lambda: metrics(port)["mgw_messages_total"].value(job="IN", direction="inbound", outcome="moved") == 2,
            deadline=PATIENCE,
        )
        assert metrics(port)["mgw_link_up"].samples == {(("link", "RABBIT"),): 1}
        eventually(lambda: "mgw_backlog_messages" in metrics(port), deadline=PATIENCE)
        proxy.refuse()
        proxy.cut()
        found = until(port, "/healthz?max_age=2", 503).json
        assert (found["healthy"], len(found["reasons"])) == (False, 1)
        assert found["reasons"][0].startswith("job IN is RETRY for ")
        assert [(entry["name"], entry["state"]) for entry in found["links"]] == [("RABBIT", "DOWN")]
        assert ask(port, "/healthz?max_age=3600").status == 200
        assert (ask(port, "/livez").status, ask(port, "/readyz").status) == (200, 200)
        told = metrics(port)
        assert told["mgw_job_state"].value(job="IN", state="RETRY") == 1
        assert sum(value for key, value in told["mgw_job_state"].samples.items() if ("job", "IN") in key) == 1
        assert told["mgw_link_up"].value(link="RABBIT") == 0
        assert "mgw_job_not_working_since_timestamp_seconds" in told
        assert "mgw_backlog_messages" not in told  # nobody knows; what was counted before says nothing
        proxy.accept()
        until(port, "/healthz?max_age=0", 200)


def test_every_metric_is_described_and_every_description_is_met(mgw: Mgw, rabbitmq: RabbitMQ, amqp: Any) -> None:
    source = declare(amqp, "http")
    workers = "agents:\n  DEFAULT_AGENT: {options: {workers: 2}}\n"
    with (
        TcpProxy(rabbitmq.host, rabbitmq.port) as proxy,
        answering(mgw, mgw.file(bridge(rabbitmq, proxy, source) + workers)) as (
            _,
            port,
        ),
    ):
        until(port, "/healthz?max_age=0", 200)
        send(amqp, source, b"{}")
        seen: dict[str, Family] = {}

        def complete() -> bool:
            seen.update(metrics(port))
            return "mgw_last_progress_timestamp_seconds" in seen and "mgw_backlog_messages" in seen

        eventually(complete, deadline=PATIENCE, what="metrics of a job that has moved a message")
        proxy.refuse()
        proxy.cut()
        eventually(lambda: seen.update(metrics(port)) or "mgw_job_not_working_since_timestamp_seconds" in seen)
    described = {metric.name: metric for metric in METRICS}
    assert set(seen) <= set(described)
    assert set(described) - set(seen) <= {
        "mgw_oldest_message_seconds",  # the queue of this broker does not tell
        "mgw_certificate_expires_timestamp_seconds",  # its link has no TLS: see test_renewed_secrets
    }
    for name, family in seen.items():
        assert (family.kind, family.help) == (described[name].kind, described[name].meaning)
        assert {label for key in family.samples for label, _ in key} == set(described[name].labels)


def test_another_agent_that_is_stopped_is_not_the_business_of_this_one(applied: Mgw) -> None:
    with answering(applied) as (_, port):
        until(port, "/healthz?max_age=3600", 200)
        everything = ask(port, "/healthz?agent=*")
        assert everything.status == 503
        assert [entry["state"] for entry in everything.json["agents"]] == ["RUNNING", "NOT_STARTED"]
        assert ask(port, "/healthz?agent=second").status == 503
        problem = ask(port, "/healthz?agent=secnd")
        assert (problem.status, problem.headers["Content-Type"]) == (404, "application/problem+json")
        assert "did you mean 'SECOND'?" in problem.json["cure"]
        for age in ("x", "-1", "inf", "nan"):
            assert ask(port, f"/healthz?max_age={age}").status == 400
        assert {job for key in metrics(port)["mgw_job_healthy"].samples for _, job in key} == {"ORDERS_IN", "ALL_NEWS"}


def test_an_agent_that_was_shut_down_is_live_and_not_ready(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    with answering(mgw) as (_, port):
        until(port, "/readyz", 200)
        mgw.ok("agents", "shutdown")
        found = until(port, "/readyz", 503).json
        assert found["reasons"] == ["agent DEFAULT_AGENT is stopped; cure: mgw agents startup DEFAULT_AGENT"]
        assert ask(port, "/livez").status == 200
        mgw.ok("agents", "startup")
        until(port, "/readyz", 200)


def test_a_hub_that_does_not_answer_is_told_within_two_seconds_and_kills_nobody(
    mgw: Mgw, postgresql: PostgreSQL
) -> None:
    url = postgresql.create_database(unique("http"))
    with ExitStack() as stack:
        proxy = stack.enter_context(TcpProxy(postgresql.host, postgresql.port))
        there = Mgw(mgw.folder, mgw.environ | {"MGW_HUB": url.replace(f":{postgresql.port}/", f":{proxy.port}/")})
        there.ok("apply", there.file("queues: {H: {}}\n"))
        _, port = stack.enter_context(answering(there))
        until(port, "/healthz", 200)
        proxy.stall()
        try:
            for path in ("/readyz", "/healthz", "/api/v1/session", "/api/v1/users"):
                found = eventually(partial(soon, port, path), deadline=PATIENCE, what=f"{path} within two seconds")
                assert "does not answer" in found.text
                assert "cure: " in found.text or '"cure"' in found.text
            assert ask(port, "/livez").status == 200
            told = metrics(port)
            assert (told["mgw_hub_up"].value(), "mgw_job_state" in told) == (0, False)
            eventually(
                lambda: "live: the main loop has waited for " in ask(port, "/livez").text,
                deadline=PATIENCE,
                what="the main loop, which waits for longer than it may where the hub answers",
            )
            assert ask(port, "/livez").status == 200
        finally:
            proxy.resume()
        until(port, "/healthz", 200)


def test_a_main_loop_that_hangs_is_not_live(mgw: Mgw) -> None:
    file = mgw.folder / mgw.file("queues: {H: {}}\n")
    with answering(mgw, str(file)) as (agent, port):
        until(port, "/readyz", 200)
        content = file.read_text()
        file.unlink()
        os.mkfifo(file)  # reading it waits for a writer, as reading from a server of files that has gone does
        agent.process.send_signal(signal.SIGHUP)
        found = until(port, "/livez", 503)
        assert re.match(r"the main loop has not completed a pass for [3-9]\d s", found.text)
        assert metrics(port)["mgw_live"].value() == 0
        file.write_text(content)  # several may read it, of whom one gets the text: the main loop, who prepares links
        until(port, "/livez", 200)
        file.unlink()
        file.write_text(content)
        agent.process.send_signal(signal.SIGHUP)
        eventually(lambda: metrics(port)["mgw_config_apply_total"].value(result="ok") >= 1, deadline=PATIENCE)


def test_changes_of_the_definitions_are_counted_whoever_makes_them(mgw: Mgw) -> None:
    def counted(result: str) -> float:
        return metrics(port)["mgw_config_apply_total"].value(result=result)

    def becomes(number: float) -> None:
        eventually(lambda: counted("ok") == number, deadline=PATIENCE)

    file = mgw.folder / mgw.file("queues: {H: {}}\n")
    with answering(mgw, str(file)) as (agent, port):
        until(port, "/readyz", 200)
        web, begun = Caller(port), counted("ok")
        mgw.ok("links", "create", "one", "--type", "memory")
        becomes(begun + 1)
        back = web.ok("GET", "/api/v1/config/generations?limit=1")["generations"][0]["generation"]
        mgw.ok("apply", mgw.file("links: {two: {type: memory}, three: {type: memory}}\n", "more.yaml"))
        becomes(begun + 2)
        web.ok("POST", "/api/v1/config/rollback", {"generation": back})
        becomes(begun + 3)
        file.write_text("queues: {H: {}}\nlinks: {four: {type: memory}}\n")
        agent.process.send_signal(signal.SIGHUP)
        becomes(begun + 4)
        agent.process.send_signal(signal.SIGHUP)  # it changes nothing, and is done
        becomes(begun + 5)
        file.write_text("queues: {H: {}}\nlinks: {four: {type: nosuch}}\n")
        agent.process.send_signal(signal.SIGHUP)
        eventually(lambda: counted("refused") == 1, deadline=PATIENCE)
        assert (counted("ok"), counted("failed")) == (begun + 5, 0)


def test_a_full_disk_makes_the_agent_unready_and_unhealthy(
    mgw: Mgw, small_disk: list[str], rabbitmq: RabbitMQ, amqp: Any
) -> None:
    class MgwThere(Mgw):
        def command(self, *words: str) -> list[str]:
            return [*small_disk, *super().command(*words)]

    disk = mgw.folder / "disk"
    there = MgwThere(mgw.folder, mgw.environ | {"MGW_HUB": f"sqlite:///{disk}/hub.db"})
    source = declare(amqp, "http")
    with TcpProxy(rabbitmq.host, rabbitmq.port) as proxy:
        file = there.file(bridge(rabbitmq, proxy, source))
        with answering(there, file) as (_, port):
            until(port, "/healthz?max_age=0", 200)
            fill = f"dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null; df --output=avail {disk}"
            subprocess.run([*small_disk, "sh", "-c", fill], capture_output=True, check=True)
            send(amqp, source, *(bytes(200_000) for _ in range(10)))
            found = until(port, "/healthz?max_age=3", 503).json
            assert "is full" in " ".join(found["reasons"]) or "cannot renew its lease" in " ".join(found["reasons"])
            assert ask(port, "/livez").status == 200
            unready = " ".join(until(port, "/readyz", 503).json["reasons"])
            assert "the lease of agent DEFAULT_AGENT has ended, it cannot be renewed: hub " in unready
            assert "is full; cause: database or disk is full; cure: free space on the disk that holds it" in unready
            reasons = " ".join(until(port, "/healthz?max_age=3", 503).json["reasons"])
            assert "agent DEFAULT_AGENT cannot renew its lease in the hub: hub " in reasons
            assert "is full; cause: database or disk is full; cure: free space on the disk that holds it" in reasons
            subprocess.run([*small_disk, "rm", f"{disk}/filler"], check=True)
            until(port, "/healthz?max_age=0", 200)
            eventually(lambda: depth(amqp, source) == 0, deadline=PATIENCE)


# ------------------------------------------------------------------------------------------------------------ the port


def test_a_port_that_is_taken_is_told_and_messages_move_all_the_same(mgw: Mgw) -> None:
    port = free_port()
    mgw.ok("apply", mgw.file("queues: {H: {}, H2: {}}\njobs:\n  l: {type: local, source: H, destination: H2}\n"))
    with socket.create_server((LOOPBACK, port)) as other, running(mgw, "--http", f"{LOOPBACK}:{port}") as agent:
        warning = next(line for line in agent.said.splitlines() if "no health and metrics over HTTP" in line)
        assert f"{LOOPBACK}:{port} cannot be used; cause: another process listens there; cure: " in warning
        mgw.ok("aq", "enqueue", "H", "x")
        agent.counts("l", "propagated_total", 1)
        other.close()
        until(port, "/livez", 200)
    assert agent.said.count("no health and metrics over HTTP") == 1


def test_auto_takes_the_next_free_port(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    with running(mgw, "--http", "auto") as agent:
        line = next(line for line in agent.said.splitlines() if "health and metrics on http://" in line)
        port = int(line.partition(f"http://{LOOPBACK}:")[2].partition("/")[0])
        assert 8787 <= port < 8887
        assert f"; the page on http://{LOOPBACK}:{port}/, REST in /api/v1" in line
        until(port, "/livez", 200)


@pytest.mark.parametrize(
    ("words", "environ", "file", "said"),
    [
        (["--http", "0.0.0.0:8787"], {}, "", "other machines could reach it"),
        (["--http", "example.org:8787"], {}, "", "other machines could reach it"),
        (["--http", "somewhere"], {}, "", "it is not HOST:PORT"),
        (["--http", "127.0.0.1:70000"], {}, "", "it is not HOST:PORT"),
        ([], {"MGW_HTTP": "[::]:8787"}, "", "other machines could reach it"),
        ([], {"MGW_HTTP": "off", "MGW_HTTP_BEHIND_PROXY": "perhaps"}, "", "it is neither true nor false"),
        ([], {}, "settings: {http: {listen: '0.0.0.0:8787'}}", "other machines could reach it"),
    ],
)
def test_an_address_that_is_no_address_or_is_open_to_others_is_refused(
    mgw: Mgw, words: list[str], environ: dict[str, str], file: str, said: str
) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    files = [mgw.file(f"{file}\n", "settings.yaml")] if file else []
    done = mgw("run", *files, *words, environ=environ)
    assert done.code == 78, done
    assert said in done.err + done.out
    assert "MGW_HTTP_BEHIND_PROXY" in done.err + done.out or "HOST:PORT" in said or "neither" in said


def test_an_address_open_to_others_is_taken_behind_a_proxy(mgw: Mgw) -> None:
    port = free_port()
    file = mgw.file(f"settings: {{http: {{listen: '0.0.0.0:{port}', behind_proxy: true}}}}\nqueues: {{H: {{}}}}\n")
    with running(Mgw(mgw.folder, mgw.environ | {"MGW_HTTP": ""}), file) as agent:
        until(port, "/readyz", 200)
        assert f"; the page on port {port} (http://127.0.0.1:{port}/ unless a container" in agent.said
        assert _raw(port, b"GET /livez HTTP/1.1\r\nHost: gateway.example.org\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_off_opens_no_port_and_imports_no_server(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    with running(mgw, "--http", "off") as agent:
        assert "over HTTP" not in agent.said
        assert "health and metrics" not in agent.said
        sockets = set(map(str, sockets_of(agent.process.pid)))
        rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        assert not [row for row in rows if row[3] == "0A" and row[9] in sockets]  # listening


def test_curl_reads_the_pages(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    curl = shutil.which("curl")
    assert curl is not None
    with answering(mgw) as (_, port):
        until(port, "/readyz", 200)
        for path in PAGES:
            done = subprocess.run([curl, "-fsS", f"http://localhost:{port}{path}"], capture_output=True, check=False)
            assert (done.returncode, done.stderr) == (0, b""), path
            head = subprocess.run([curl, "-fsSI", f"http://{LOOPBACK}:{port}{path}"], capture_output=True, check=True)
            assert b"no-store" in head.stdout
            assert head.stdout.endswith(b"\r\n\r\n")


def test_the_health_check_of_the_image_asks_the_port(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file("queues: {H: {}, H2: {}}\njobs:\n  l: {type: local, source: H, destination: H2}\n"))

    def probe(where: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environ = mgw.environment({"MGW_HTTP": where, "PATH": path})
        words = [sys.executable, "-m", "mgw.gateway.http.probe"]
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)

    with answering(mgw) as (_, port):
        until(port, "/healthz?max_age=0", 200)
        for where in (f"{LOOPBACK}:{port}", f"0.0.0.0:{port}", str(port), "off"):
            done = probe(where)
            assert (done.returncode, done.stderr) == (0, ""), where
        mgw.ok("agents", "shutdown")
        eventually(lambda: "is NOT_STARTED" in ask(port, "/healthz").text, deadline=PATIENCE)
        for where in (str(port), "off"):
            done = probe(where)
            assert done.returncode == 1
            assert "agent DEFAULT_AGENT is NOT_STARTED for " in done.stdout
            assert "; cure: mgw run --agent DEFAULT_AGENT" in done.stdout
    done = probe(str(port))
    assert (done.returncode, done.stdout.startswith(f"no answer at {port}: ")) == (1, True)


def test_the_health_check_of_the_image_imports_next_to_nothing() -> None:
    heavy = "('sqlalchemy', 'typer', 'pydantic')"
    code = f"import sys, mgw.gateway.http.probe; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# ---------------------------------------------------------------------------------------------------------- the server


def _raw(port: int, data: bytes, *, pieces: int = 1) -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
        for number in range(pieces):
            connection.sendall(data[number * len(data) // pieces : (number + 1) * len(data) // pieces])
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, threading.Event]]:
    """A server whose page /wait is answered when the event is set."""
    go_on = threading.Event()

    def answer(request: Request) -> Response:
        if request.path == "/wait":
            go_on.wait(PATIENCE)
        if request.path == "/bug":
            raise LookupError("secret words")
        return Response.text(200, f"{request.path} {sorted(request.query.items())}")

    listener = socket.create_server((LOOPBACK, 0), backlog=512)
    server = Server(listener, answer)
    yield listener.getsockname()[1], go_on
    go_on.set()
    server.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /x?a=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /x HTTP/1.0\r\n\r\n", 200),
        (b"GET /x HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200),
        (b"GET /x HTTP/1.1\r\nHost: 10.1.2.3:80\r\n\r\n", 200),
        (b"GET /x HTTP/1.1\r\nHost: evil.example.org\r\n\r\n", 421),
        (b"GET /x HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 421),
        (b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET //[ HTTP/1.1\r\n\r\n", 400),
        (b"GET /x?" + b"&".join(b"a=1" for _ in range(30)) + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET /bug HTTP/1.1\r\n\r\n", 500),
        (b"GET /x HTTP/1.1\r\nX: " + b"y" * (HEADER_BYTES + 5000) + b"\r\n\r\n", 431),
        (b"GET /x HTTP/1.1\r\n" + b"X: y\r\n" * HEADER_BYTES + b"\r\n", 431),
    ],
)
def test_requests_are_answered_or_refused(server: tuple[int, threading.Event], request_: bytes, status: int) -> None:
    found = _raw(server[0], request_, pieces=3)
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), found
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"secret words" not in found
    if status == 405:
        assert b"Allow: GET, HEAD" in head


def test_a_request_that_does_not_arrive_ends_and_takes_no_place(
    server: tuple[int, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.http.server.REQUEST_SECONDS", 0.5)
    port, _ = server
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=30)) for _ in range(5)]
        for connection in slow:
            connection.sendall(b"GET /x HT")
        assert _raw(port, b"GET /x HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        for connection in slow:
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_more_requests_than_there_are_places_are_refused_at_once(server: tuple[int, threading.Event]) -> None:
    port, go_on = server
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=60)) for _ in range(REQUESTS)]
        for connection in waiting:
            connection.sendall(b"GET /wait HTTP/1.1\r\n\r\n")

        def refused() -> bool:
            found = _raw(port, b"")
            return found.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in found

        eventually(refused, deadline=PATIENCE, what="a refusal")
        go_on.set()
        for connection in waiting:
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    eventually(lambda: _raw(port, b"GET /x HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "), deadline=PATIENCE)
