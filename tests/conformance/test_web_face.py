"""The web face: who may do what, and what its port must withstand."""

from __future__ import annotations

import html
import json
import logging
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.http import limits
from mgw.gateway.http.access import CSRF_HEADER, SESSION_COOKIE
from mgw.gateway.http.application import Reach
from mgw.gateway.http.budget import Budget
from mgw.gateway.http.guard import Rates
from mgw.gateway.http.processor_time import Used
from mgw.gateway.http.protocol import CONNECTIONS
from mgw.gateway.http.rest import routes
from mgw.gateway.http.web_server import Certificate
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.gateway.services.probes import HubProbes
from mgw.gateway.services.probing import Readiness
from mgw.gateway.services.users import IDLE_SECONDS, SESSION_SECONDS, Role, Users
from mgw.gateway.state import gateway_hub
from mgw.transforms.errors import ConfigInvalid
from tests.cli.conftest import Mgw
from tests.conformance.hub_suite import ManualClock
from tests.conformance.test_bad_input import running
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import eventually
from tests.support.web import Answer, Caller, serving

PATIENCE = 90.0
PASSWORD = "correct horse battery"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as made:
        yield made


@pytest.fixture
def web(hub: Hub) -> Iterator[Caller]:
    with serving(hub) as caller:
        yield caller


def people(hub: Hub) -> dict[Role, Caller]:
    """A user of each role, with a token; the caller needs its port still."""
    users = Users(hub)
    found = {}
    for role in reversed(Role):
        users.add(role.lower(), role, PASSWORD, by="test")
        _, token = users.add_token(role.lower(), by="test")
        found[role] = Caller(0, {"Authorization": f"Bearer {token}"})
    return found


def logged_in(web: Caller, name: str, password: str = PASSWORD) -> tuple[Caller, Answer]:
    """A caller that sends the cookie of a new session, without the token of its pages."""
    found = web("POST", "/api/v1/session", {"name": name, "password": password})
    assert found.status == 200, found.body
    return Caller(web.port, {"Cookie": found.headers["set-cookie"].partition(";")[0]}), found


# --------------------------------------------------------------------------------------------------------------- who


def test_without_users_the_port_is_open_to_this_machine_and_says_so(web: Caller) -> None:
    assert web.ok("GET", "/api/v1/session") == {"name": "anonymous", "role": "administrator", "how": "open", "csrf": ""}
    assert web.ok("GET", "/api/v1/users") == []


def test_without_users_other_machines_get_health_and_metrics_alone(hub: Hub) -> None:
    with serving(hub, reach=Reach(local=False, any_host=True)) as web:
        for path in ("/livez", "/readyz", "/healthz", "/metrics", "/version"):
            assert web("GET", path).status == 200, path
        told = web.refused(403, "GET", "/api/v1/users")
        assert "mgw users add" in told["cure"]


def test_with_the_first_user_everybody_has_to_log_in(hub: Hub, web: Caller) -> None:
    web.ok("PUT", "/api/v1/users/ada", {"role": "administrator", "password": PASSWORD})
    told = web("GET", "/api/v1/session")
    assert (told.status, told.headers["www-authenticate"]) == (401, 'Bearer realm="mgw"')
    assert web("GET", "/metrics").status == 401
    assert web("GET", "/livez").status == web("GET", "/readyz").status == web("GET", "/version").status == 200
    assert web("GET", "/healthz").json == {"healthy": True}  # a probe has no token: it hears whether, not what
    token = Users(hub).add_token("ada", by="test")[1]
    robot = Caller(web.port, {"Authorization": f"Bearer {token}"})
    assert robot.ok("GET", "/healthz")["reasons"] == []
    assert b"mgw_hub_up 1" in robot("GET", "/metrics").body


def test_every_route_asks_for_a_role_and_refuses_those_with_less(hub: Hub) -> None:
    callers = people(hub)
    assert len(list(routes())) > 5
    with serving(hub) as web:
        for method, template, role in routes():
            path = template.replace("{", "").replace("}", "")
            if (method, path) == ("POST", "/api/v1/session"):
                continue
            assert role is not None, f"{method} {path} asks for no role"
            assert web(method, path).status == 401, (method, path)
            for lesser in Role:
                if not lesser.includes(role):
                    caller = Caller(web.port, callers[lesser].headers)
                    assert caller(method, path, {}).status == 403, (lesser, method, path)


def test_a_token_may_do_at_most_what_its_user_may_now_and_ends(tmp_path: Path) -> None:
    clock = ManualClock()
    with closing(gateway_hub.open_hub(f"sqlite:///{tmp_path}/hub.db", create=True, clock=clock)) as hub:
        users = Users(hub)
        users.add("ada", Role.ADMINISTRATOR, None, by="test")
        users.add("eva", Role.OPERATOR, None, by="test")
        _, lesser = users.add_token("eva", role=Role.VIEWER, by="test")
        _, text = users.add_token("eva", role=Role.ADMINISTRATOR, seconds=60, by="test")
        assert [found.role for found in map(users.of_token, (lesser, text)) if found] == [Role.VIEWER, Role.OPERATOR]
        users.set_role("eva", Role.VIEWER, by="test")
        found = users.of_token(text)
        assert found is not None
        assert found.role is Role.VIEWER
        clock.time += 61
        assert users.of_token(text) is None
        assert users.of_token(lesser) is not None
        for damaged in ("", "mgw_", lesser[:-1], lesser[:-1] + ("A" if lesser[-1] != "A" else "B"), lesser + "\n"):
            assert users.of_token(damaged) is None


# ---------------------------------------------------------------------------------------------------------- sessions


def test_a_session_has_a_cookie_that_no_script_reads_and_a_word_that_no_other_page_knows(hub: Hub, web: Caller) -> None:
    people(hub)
    browser, found = logged_in(web, "Administrator")
    cookie = found.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert browser.ok("GET", "/api/v1/session")["csrf"] == found.json["csrf"]
    assert "page" in browser.refused(403, "PUT", "/api/v1/users/x", {})["cure"]
    browser.refused(403, "PUT", "/api/v1/users/x", {}, **{CSRF_HEADER: "0" * 64})
    page = Caller(web.port, browser.headers | {CSRF_HEADER: found.json["csrf"]})
    page.ok("PUT", "/api/v1/users/x", {})
    page.ok("DELETE", "/api/v1/session")
    assert browser("GET", "/api/v1/session").status == 401


def test_a_log_in_makes_a_new_session_and_ends_the_one_before(hub: Hub, web: Caller) -> None:
    people(hub)
    before, _ = logged_in(web, "viewer")
    fixed = Caller(web.port, {"Cookie": f"{SESSION_COOKIE}=chosen-by-somebody"})
    after, _ = logged_in(fixed, "viewer")
    assert "chosen-by-somebody" not in after.headers["Cookie"]
    assert fixed("GET", "/api/v1/session").status == 401
    logged_in(before, "viewer")
    assert before("GET", "/api/v1/session").status == 401
    assert after("GET", "/api/v1/session").status == 200


def test_sessions_end_with_the_password_the_user_and_the_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with closing(gateway_hub.open_hub(f"sqlite:///{tmp_path}/hub.db", create=True, clock=clock)) as hub:
        people(hub)
        users = Users(hub)

        def session(name: str = "viewer", password: str = PASSWORD) -> str:
            found = users.log_in(name, password)
            assert found is not None
            return found[1]

        idle = session()
        clock.time += IDLE_SECONDS + 1
        assert users.of_session(idle) is None
        used, end = session(), clock.now() + SESSION_SECONDS
        while clock.now() < end:
            assert users.of_session(used) is not None
            clock.time += IDLE_SECONDS - 1
        assert users.of_session(used) is None
        old = session()
        users.set_password("viewer", "another " + PASSWORD, by="test")
        assert users.of_session(old) is None
        assert users.log_in("viewer", PASSWORD) is None
        gone = session(password="another " + PASSWORD)
        users.remove("viewer", by="test")
        assert users.of_session(gone) is None


def test_passwords_cannot_be_guessed_at_any_speed(hub: Hub, web: Caller) -> None:
    people(hub)
    for _ in range(limits.LOG_INS):
        told = web.refused(401, "POST", "/api/v1/session", {"name": "viewer", "password": "wrong wrong wrong"})
    nobody = web("POST", "/api/v1/session", {"name": "viewer", "password": PASSWORD})
    assert (nobody.status, int(nobody.headers["retry-after"]) > 0) == (429, True)
    assert told["detail"] == "name or password are wrong"


def test_no_other_page_asks_for_a_change(hub: Hub, web: Caller) -> None:
    for headers in (
        {"Origin": "https://evil.example.org"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{web.port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        web.refused(403, "PUT", "/api/v1/users/ada", {"role": "administrator"}, **headers)
    assert not Users(hub).exist()
    own = {"Origin": f"http://{LOOPBACK}:{web.port}", "Sec-Fetch-Site": "same-origin"}
    web.ok("PUT", "/api/v1/users/ada", {"role": "administrator"}, **own)


def test_behind_a_proxy_the_page_is_the_one_that_the_browser_sees(hub: Hub) -> None:
    people(hub)
    public = {"X-Forwarded-Host": "gateway.example.org", "X-Forwarded-Proto": "https"}
    own, given = {"Origin": "https://gateway.example.org"}, {"name": "viewer", "password": PASSWORD}
    with serving(hub, reach=Reach(local=False, any_host=True, proxied=True)) as web:
        found = web("POST", "/api/v1/session", given, **own, **public)
        assert (found.status, "Secure" in found.headers["set-cookie"]) == (200, True)
        found = web("POST", "/api/v1/session", given, **own, **{"Sec-Fetch-Site": "same-origin"})
        assert (found.status, "Secure" in found.headers["set-cookie"]) == (200, False)
        evil = {"Origin": "https://evil.example.org"}
        web.refused(403, "POST", "/api/v1/session", given, **evil, **public)
        web.refused(403, "POST", "/api/v1/session", given, **own, **public, **{"Sec-Fetch-Site": "cross-site"})
    with serving(hub) as web:  # nobody else may say what was asked
        web.refused(403, "POST", "/api/v1/session", given, **own, **public)


def test_answers_say_what_browsers_must_not_do(web: Caller) -> None:
    for path in ("/livez", "/openapi.json", "/nowhere", "/api/v1/users"):
        found = web("GET", path).headers
        assert "unsafe-inline" not in found["content-security-policy"]
        assert "frame-ancestors 'none'" in found["content-security-policy"]
        assert (found["x-content-type-options"], found["cache-control"]) == ("nosniff", "no-store")
        assert "server" not in found


@pytest.mark.parametrize("target", [b"jobs", b"a:b", b"*", b"http://localhost/livez"])
def test_a_request_without_a_path_is_refused(web: Caller, target: bytes, caplog: pytest.LogCaptureFixture) -> None:
    request = b"GET %b HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n" % target
    with socket.create_connection((LOOPBACK, web.port), timeout=30) as connection:
        connection.sendall(request)
        answer = connection.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


# -------------------------------------------------------------------------------------------------------------- TLS


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    made = folder / f"{name}.pem", folder / f"{name}.key"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{LOOPBACK}"]
    subprocess.run([*words, "-out", str(made[0]), "-keyout", str(made[1])], check=True, capture_output=True)
    return made


def trusting(path: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=path)


def test_tls_by_files_that_are_read_again_when_they_change(hub: Hub, tmp_path: Path) -> None:
    first, second = certificate(tmp_path, "first"), certificate(tmp_path, "second")
    used = tmp_path / "used.pem", tmp_path / "used.key"
    for source, target in zip(first, used, strict=True):
        target.write_bytes(source.read_bytes())
    made = Certificate(*used)
    reach = Reach(local=False, secure=True, any_host=True)
    with serving(hub, reach=reach, certificate=made) as web:
        found = Caller(web.port, tls=trusting(first[0]))("GET", "/livez")
        assert (found.status, found.headers["strict-transport-security"]) == (200, "max-age=31536000")
        used[0].write_text("no certificate")
        made.look()
        assert Caller(web.port, tls=trusting(first[0]))("GET", "/livez").status == 200
        for source, target in zip(second, used, strict=True):
            target.write_bytes(source.read_bytes())
        made.look()
        assert Caller(web.port, tls=trusting(second[0]))("GET", "/livez").status == 200
        with pytest.raises(ssl.SSLError):
            Caller(web.port, tls=trusting(first[0]))("GET", "/livez")
    with pytest.raises(ConfigInvalid, match="cannot be used"):
        Certificate(first[0], second[1])


def test_an_address_for_other_machines_needs_tls_and_users(tmp_path: Path) -> None:
    mgw, port = Mgw(tmp_path), free_port()
    files = certificate(tmp_path, "gateway")
    mgw.ok("apply", mgw.file("queues: {H: {}}\n"))
    refused = mgw("serve", "--http", f"0.0.0.0:{port}")
    assert (refused.code, "there is no TLS" in refused.err) == (78, True)
    pair = {"MGW_HTTP_CERTIFICATE_FILE": str(files[0]), "MGW_HTTP_KEY_FILE": str(files[1])}
    assert "one is missing" in mgw("serve", environ={"MGW_HTTP": f"0.0.0.0:{port}", "MGW_HTTP_KEY_FILE": "x"}).err
    secure = Mgw(tmp_path, pair)
    refused = secure("serve", "--http", f"0.0.0.0:{port}")
    assert (refused.code, "there are no users" in refused.err) == (78, True)
    (tmp_path / "password").write_text(PASSWORD)
    secure.ok("users", "add", "ada", "--role", "administrator", "--password-file", "password")
    with running(secure, "--http", f"0.0.0.0:{port}"):
        caller = Caller(port, tls=trusting(files[0]))

        def cookie() -> str:
            found = caller("POST", "/api/v1/session", {"name": "ada", "password": PASSWORD})
            assert found.status == 200, found.body
            return found.headers["set-cookie"]

        assert "Secure" in eventually(cookie, deadline=PATIENCE, tolerate=(OSError, AssertionError))


# --------------------------------------------------------------------------------------------------------- the port


def raw(port: int, data: bytes, *, pieces: int = 1) -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
        for number in range(pieces):
            connection.sendall(data[number * len(data) // pieces : (number + 1) * len(data) // pieces])
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


CLOSE = b"Connection: close\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /livez?a=1 HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n", 200),
        (b"GET /livez HTTP/1.0\r\n\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nHost: [::1]:80\r\n" + CLOSE + b"\r\n", 200),
        (b"GET /livez HTTP/1.1\r\nHost: evil.example.org\r\n" + CLOSE + b"\r\n", 421),
        (b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400),
        (b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n" + CLOSE + b"\r\nabc", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET /livez?" + b"&".join(b"a=1" for _ in range(30)) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * (limits.HEADER_BYTES + 5000) + b"\r\n\r\n", 431),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * limits.HEADER_BYTES + b"\r\n", 431),
        (b"PUT /api/v1/users/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n", 404),
        (b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n", 404),
        (b"GET /%ff%00 HTTP/1.1\r\nHost: localhost\r\n" + CLOSE + b"\r\n", 404),
    ],
)
def test_requests_are_answered_or_refused(web: Caller, request_: bytes, status: int) -> None:
    found = raw(web.port, request_, pieces=3)
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), found
    assert f"content-length: {len(body)}".encode() in head.lower()
    if status >= 400:
        assert json.loads(body)["status"] == status


def test_a_body_of_unknown_size_ends_at_the_limit(web: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.http.limits.BODY_BYTES", 100_000)
    chunk = b"%x\r\n" % 60_000 + bytes(60_000) + b"\r\n"
    head = b"PUT /api/v1/users/a HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    found = raw(web.port, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2 + b"0\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413 "), found


def test_requests_that_do_not_arrive_end_and_hold_nobody(web: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.http.limits.REQUEST_SECONDS", 0.5)
    begun = (b"", b"GET /x HT", b"PUT /api/v1/users/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc")
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((LOOPBACK, web.port), timeout=30)) for _ in begun]
        for connection, data in zip(slow, begun, strict=True):
            connection.sendall(data)
        assert web("GET", "/livez").status == 200
        for connection in slow:
            assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_more_connections_than_there_are_places_are_refused_at_once(web: Caller) -> None:
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(socket.create_connection((LOOPBACK, web.port), timeout=60))

        def refused() -> bool:
            found = raw(web.port, b"")
            return found.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 1\r\n" in found

        eventually(refused, deadline=PATIENCE, what="a refusal", tolerate=(AssertionError, OSError))
    eventually(
        lambda: web("GET", "/livez").status == 200, deadline=PATIENCE, tolerate=(AssertionError, OSError, ValueError)
    )


def test_one_caller_cannot_have_all_of_the_time() -> None:
    now = [0.0]
    rates = Rates(10, 3, lambda: now[0])
    assert [rates.wait("a") for _ in range(3)] == [0, 0, 0]
    assert rates.wait("a") == pytest.approx(0.1)
    assert rates.wait("b") == 0
    now[0] = 0.1
    assert (rates.wait("a"), rates.wait("a") > 0) == (0, True)


def test_behind_a_proxy_each_of_its_callers_has_a_rate(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mgw.gateway.http.limits.RATE", 0.001)
    monkeypatch.setattr("mgw.gateway.http.limits.RATE_BURST", 2.0)
    with serving(hub, reach=Reach(local=False, any_host=True, proxied=True)) as web:
        for address in ("10.0.0.1", "10.0.0.2"):
            forwarded = {"X-Forwarded-For": f"1.2.3.4, {address}"}
            assert [web("GET", "/livez", **forwarded).status for _ in range(3)] == [200, 200, 429]
    with serving(hub) as web:  # nobody else may say who calls
        found = [web("GET", "/livez", **{"X-Forwarded-For": str(number)}).status for number in range(3)]
        assert found == [200, 200, 429]


class Asked(HubProbes):
    """Counts how often it is asked whether the process is ready."""

    asked = 0

    def readiness(self) -> Readiness:
        self.asked += 1
        return super().readiness()


def test_while_the_jobs_need_the_processor_requests_wait_and_health_is_shared(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mgw.gateway.http.limits.HELD_SECONDS", 0.3)
    monkeypatch.setattr("mgw.gateway.http.limits.HELD_RATE", 0.001)
    monkeypatch.setattr("mgw.gateway.http.limits.RATE", 0.001)
    monkeypatch.setattr("mgw.gateway.http.limits.RATE_BURST", 60.0)
    probes, busy = Asked(hub), Used(web=0.3, others=0.2, waited=0.1)
    with serving(hub, probes=probes, budget=Budget(used=lambda: busy)) as web:
        eventually(lambda: web("GET", "/api/v1/session").status == 503, deadline=PATIENCE)
        told = web.refused(503, "GET", "/api/v1/session")
        assert "mgw serve" in told["cure"]
        assert "jobs" in told["cause"]
        request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection((LOOPBACK, web.port), timeout=30) as connection:
            answers = []
            for _ in range(4):
                connection.sendall(request)
                answers.append(whole(connection))
            assert probes.asked == 1
            assert {body for _, body in answers} == {answers[0][1]}
            assert json.loads(answers[0][1])["ready"] is True
            assert {frozenset(head) for head, _ in answers} == {frozenset(answers[0][0])}
            connection.sendall(request[:-2] + b"X: y\r\n\r\n")  # other bytes: another request
            whole(connection)
            assert probes.asked == 2
        assert b'mgw_http_held_total{outcome="refused"} 2' in web("GET", "/metrics").body
        while web("GET", "/livez").status == 200:
            begun = time.monotonic()
        assert time.monotonic() - begun > 0.3  # beyond the rate of a caller, the refusal waits, too


def test_beside_a_hub_a_crowd_shares_health_and_nothing_waits(hub: Hub) -> None:
    probes, busy = Asked(hub), Used(web=0.8, others=0.4, waited=0.4)
    with serving(hub, probes=probes, budget=Budget(has_jobs=False, used=lambda: busy)) as web:
        assert {web("GET", "/api/v1/session").status for _ in range(50)} == {200}
        request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with socket.create_connection((LOOPBACK, web.port), timeout=30) as connection:

            def shared() -> bool:
                before = probes.asked
                for _ in range(5):
                    connection.sendall(request)
                    whole(connection)
                return probes.asked < before + 5

            eventually(shared, deadline=PATIENCE)
        assert b'mgw_http_held_total{outcome="answered"} 0' in web("GET", "/metrics").body


def whole(connection: socket.socket) -> tuple[list[bytes], bytes]:
    """The headers of an answer without its date, and its body."""
    with connection.makefile("rb") as file:
        head = []
        while line := file.readline().strip():
            head.append(line.lower())
        length = next(int(line.split(b":")[1]) for line in head if line.startswith(b"content-length"))
        return [line for line in head if not line.startswith(b"date")], file.read(length)


def test_a_caller_that_takes_no_answer_is_left(web: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for much and reads nothing; others are answered, and its connection ends."""
    monkeypatch.setattr("mgw.gateway.http.limits.REQUEST_SECONDS", 0.5)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((LOOPBACK, web.port))
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            _ask_for_ever(connection, request)
    assert web("GET", "/livez").status == 200


def _ask_for_ever(connection: socket.socket, request: bytes) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        connection.sendall(request * 20)


def test_callers_at_the_same_time_all_get_their_answer(hub: Hub, web: Caller) -> None:
    found: list[int] = []

    def ask() -> None:
        found.extend(web("GET", "/api/v1/users").status for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [200] * 100


def test_bodies_of_any_kind_are_refused_as_problems(web: Caller) -> None:
    path, json_ = "/api/v1/users/ada", {"Content-Type": "application/json"}
    kinds: list[tuple[int, Any]] = [
        (400, b"{"),
        (422, b"[]"),
        (422, b"null"),
        (422, b'{"role": "emperor"}'),
        (422, b'{"role": "viewer", "more": 1}'),
        (422, b'{"password": "short"}'),
        (422, b'{"password": "\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800"}'),
        (400, b"[" * 100_000),
        (400, b"\xff\xfe"),
    ]
    for status, body in kinds:
        found = web("PUT", path, body=body, **json_)
        assert found.status == status, (body[:60], found.body)
        assert found.headers["content-type"] == "application/problem+json"
    assert web("PUT", path, body=b"role=viewer", **{"Content-Type": "application/x-www-form-urlencoded"}).status == 422


# -------------------------------------------------------------------------------------------------------- description


def test_a_page_describes_every_route_and_another_every_number_of_a_refusal(web: Caller) -> None:
    found = web("GET", "/docs", accept="text/html")
    assert found.status == 200, found.body
    shown, document = html.unescape(found.body.decode()), web.ok("GET", "/openapi.json")
    anchors = set(re.findall(r'id="([^"]+)"', shown))
    words = set(re.findall(r"[\w-]+", shown))
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            assert f">{method.upper()} {path}</a>" in shown
            assert route["summary"] in shown
            assert {each["name"] for each in route.get("parameters", ())} <= words
    assert set(document["components"]["schemas"]) <= anchors
    assert set(re.findall(r'href="#([^"]+)"', shown)) <= anchors
    assert 'href="/docs"' in web("GET", "/", accept="text/html").body.decode()
    assert '<td data-th="Value">viewer, operator, administrator</td>' in shown
    assert not re.search(r"(src|href)=\"(https?:)?//|<style|style=", shown)
    told = web.refused(404, "GET", "/api/v1/jobs/nope")
    assert (told["number"], told["object"], told["cause"]) == (32855, "job nope", "no job has that name")
    page, _, anchor = told["type"].partition("#")
    assert f'<tr id="{anchor}">' in web("GET", page, accept="text/html").body.decode()


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("agents", 32850),
        ("links", 32808),
        ("foreign-queues", 32810),
        ("queues", 24010),
        ("queue-tables", 24002),
        ("object-types", 4043),
        ("subscribers", 32812),
        ("schedules", 32814),
        ("users", None),
    ],
)
def test_whatever_does_not_exist_has_a_number_and_a_cause(web: Caller, path: str, number: int | None) -> None:
    told = web.refused(404, "GET", f"/api/v1/{path}/nope")
    assert told.get("number") == number
    assert told["type"] == ("about:blank" if number is None else f"/docs/errors#{number}")
    assert told["object"].endswith(" nope")
    assert told["cause"]


def test_a_request_that_does_not_fit_its_description_is_told_which_field_and_why(web: Caller) -> None:
    told = web.refused(422, "PUT", "/api/v1/users/ada", {"role": "boss", "extra": 1})
    assert "body.role: Input should be 'viewer', 'operator' or 'administrator'" in told["cause"]
    assert "body.extra" in told["cause"]
    assert "/docs" in told["cure"]


def test_one_user_is_shown_and_changed_if_nobody_was_faster(hub: Hub) -> None:
    callers, users = people(hub), Users(hub)
    with serving(hub) as web:
        boss = Caller(web.port, callers[Role.ADMINISTRATOR].headers)
        found = boss("GET", "/api/v1/users/VIEWER")
        tag = found.headers["etag"]
        assert (found.status, found.json["name"], found.json["role"]) == (200, "viewer", "viewer")
        assert boss("GET", "/api/v1/users/viewer", if_none_match=tag).status == 304
        changed = boss("PATCH", "/api/v1/users/viewer", {"role": "operator"}, if_match=tag)
        assert (changed.json["role"], changed.json["password"]) == ("operator", True)
        assert changed.headers["etag"] == boss("GET", "/api/v1/users/viewer").headers["etag"] != tag
        boss.refused(412, "PATCH", "/api/v1/users/viewer", {"role": "viewer"}, if_match=tag)
        assert not boss.ok("PATCH", "/api/v1/users/viewer", {"password": None})["password"]
        assert users.get("viewer").role is Role.OPERATOR
        boss.refused(422, "PATCH", "/api/v1/users/administrator", {"role": "viewer"})  # nobody could give it back
        assert boss.refused(404, "PATCH", "/api/v1/users/nobody", {"role": "viewer"})["object"] == "user nobody"
        told = boss.ok("GET", "/api/v1/audit?object=viewer")["entries"]
        assert [each["actor"] for each in told[:2]] == ["administrator", "administrator"]


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_role_and_password_of_a_user_are_changed_together_or_not_at_all(hub: Hub, method: str) -> None:
    callers, users = people(hub), Users(hub)
    other = {"role": "viewer", "password": "another " + PASSWORD}
    with serving(hub) as web:
        boss = Caller(web.port, callers[Role.ADMINISTRATOR].headers)
        boss.refused(422, method, "/api/v1/users/administrator", other)  # nobody could give the role back
        assert logged_in(web, "administrator"), "the password is as it was"
        boss.ok(method, "/api/v1/users/operator", other)
        assert users.get("operator").role is Role.VIEWER
        assert logged_in(web, "operator", other["password"])
        (entry,) = boss.ok("GET", "/api/v1/audit?object=operator&limit=1")["entries"]
        assert (entry["before"]["role"], entry["after"]["role"]) == ("OPERATOR", "VIEWER")
        assert entry["after"]["renewed"] == ["password"]
        (event,) = boss.ok("GET", "/api/v1/events?object=operator&limit=1")["events"]
        assert event["text"] == "user operator is viewer now and has another password; by administrator"
