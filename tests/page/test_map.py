"""The map, as a browser shows it: one sentence, trouble first, a graph and a table; log-in; refusals."""

from __future__ import annotations

import re
import time

import pytest

from mgw.gateway.http import limits
from mgw.gateway.http.access import SESSION_COOKIE
from mgw.gateway.http.web import routes
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.feed import Feed
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.users import Role, Users
from tests.page.conftest import Moving, page_of
from tests.support.browser import Browser, Keys
from tests.support.ports import LOOPBACK
from tests.support.waiting import eventually
from tests.support.web import Caller

PASSWORD = "correct horse battery"
HTML = {"Accept": "text/html,application/xhtml+xml"}


def test_an_empty_hub_tells_the_next_step(hub: Hub, browser: Browser) -> None:
    with page_of(hub, browser):
        browser.open()
        assert browser.find("h1").text == "No job is defined yet"
        assert "mgw apply gateway.yaml" in browser.text
        assert "Open to this machine" in browser.text


def test_the_map_says_how_many_need_somebody_and_shows_trouble_with_its_cure_first(
    moving: Moving, browser: Browser
) -> None:
    browser.base = f"http://{LOOPBACK}:{moving.web.port}"
    browser.open()
    assert re.fullmatch(r"6 jobs: 4 fine, 1 paused, 1 (trying again|needs you)", browser.find("h1").text)
    trouble = browser.find(".trouble").text
    assert "RETURNS_OUT" in trouble
    assert "nothing listens there" in trouble
    assert "What to do: check hostname, port and that the broker runs" in trouble
    rows = [row.text for row in browser.all("#jobs tbody tr th")]
    assert rows[0] == "RETURNS_OUT"
    assert sorted(rows) == ["HOT_OUT", "ORDERS_IN", "PAUSED_OUT", "RETURNS_OUT", "SHIP", "TELEMETRY_IN"]
    assert len(browser.all(".graph .edge")) == 6
    assert len(browser.all(".graph .node.middle")) == 4


def test_what_moves_is_shown_without_a_reload_and_focus_and_typed_text_stay(moving: Moving, browser: Browser) -> None:
    browser.base = f"http://{LOOPBACK}:{moving.web.port}"
    browser.open()
    browser.run("window.same = true; document.querySelector('#jobs tbody a').focus()")
    focused = browser.run("return document.activeElement.textContent")
    moving.feed("telemetry", *['{"temperature": 99}'] * 40)
    eventually(lambda: browser.all(".edge.moves"), deadline=30, what="a line that moves")
    assert browser.run("return window.same && document.activeElement.textContent") == focused
    browser.prefer(reduced_motion="reduce")
    moved = "return getComputedStyle(document.querySelector('.edge.moves .line, .edge .line')).animationName"
    assert browser.run(moved) == "none"


FETCHES = "return performance.getEntriesByType('resource').filter(each => each.initiatorType === 'fetch').length"


def job_of(hub: Hub, name: str) -> None:
    admin = GatewayAdmin(hub)
    admin.aq.create_queue_table(f"{name}_T")
    admin.aq.create_queue(f"{name}_A", f"{name}_T")
    admin.aq.create_queue(f"{name}_B", f"{name}_T")
    admin.create_job(name, "LOCAL", f"{name}_A", f"{name}_B")


def test_a_page_that_listens_asks_again_as_soon_as_it_is_told(
    hub: Hub, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds: list[Feed] = []
    listen = Feed.listen
    monkeypatch.setattr(Feed, "listen", lambda feed, *args, **named: feeds.append(feed) or listen(feed, *args, **named))
    job_of(hub, "FIRST")
    with page_of(hub, browser):
        browser.open()
        eventually(lambda: feeds and feeds[0].listeners == 1, deadline=30, what="a page that listens")
        # With a stream it asks only when it is told something; without one, every two seconds.
        browser.run("document.documentElement.dataset.probe = 'kept'")
        job_of(hub, "SECOND")
        eventually(lambda: "SECOND" in browser.find("#jobs").text, deadline=30, what="the second job")
        assert browser.run("return document.documentElement.dataset.probe") == "kept", "nothing was loaded anew"
        browser.driver.get("about:blank")
        eventually(lambda: not feeds[0].listeners, deadline=30, what="a page that was left")


def test_a_page_without_a_stream_asks_every_other_second(
    hub: Hub, window: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STREAMS", 0)  # so that the stream is refused, as the fifty-first is
    window.forget()
    job_of(hub, "FIRST")
    with page_of(hub, window):
        window.open()
        job_of(hub, "SECOND")
        eventually(lambda: "SECOND" in window.find("#jobs").text, deadline=30, what="the second job")
        before, begun = int(window.run(FETCHES)), time.monotonic()
        eventually(lambda: int(window.run(FETCHES)) >= before + 3, deadline=60, what="more fetches")
        assert time.monotonic() - begun > 3.5
        window.driver.get("about:blank")
    assert all("503" in each for each in window.complaints())


def test_the_table_is_filtered_while_somebody_types(moving: Moving, browser: Browser) -> None:
    browser.base = f"http://{LOOPBACK}:{moving.web.port}"
    browser.open()
    browser.press("/")
    browser.press("ship")
    eventually(lambda: len(browser.all("#jobs tbody tr")) == 1, what="one job")
    assert browser.path == "/?q=ship"
    assert browser.find("input[name=q]").get_attribute("value") == "ship"
    browser.press(Keys.BACK_SPACE * 4, "nothing like this")
    browser.wait_for("No job is like this")


def test_the_map_can_be_looked_at_without_scripts(moving: Moving, browser: Browser) -> None:
    browser.base = f"http://{LOOPBACK}:{moving.web.port}"
    browser.scripts(False)
    browser.open("/?q=ship")
    assert "6 jobs" in browser.find("h1").text
    assert len(browser.all("#jobs tbody tr")) == 1


def test_an_error_of_the_hub_is_a_page_for_people_and_a_problem_detail_for_programs(hub: Hub) -> None:
    with page_of(hub) as web:
        found = web("GET", "/nothing/here", accept="text/html")
        assert (found.status, found.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert b"there is no such page" in found.body
        assert web.refused(404, "GET", "/nothing/here")["detail"] == "there is no such page"
        assert web.refused(404, "GET", "/api/v1/nothing", accept="text/html")


def test_somebody_logs_in_with_the_keyboard_and_out_again(hub: Hub, browser: Browser) -> None:
    Users(hub).add("ada", Role.ADMINISTRATOR, PASSWORD, by="test")
    with page_of(hub, browser) as web:
        browser.open("/?q=x")
        assert browser.path == "/log-in?next=%2F%3Fq%3Dx"
        browser.press("ada", Keys.TAB, "something else", Keys.ENTER)
        browser.wait_for("name or password are wrong")
        assert browser.find("input[name=password]") == browser.driver.switch_to.active_element
        browser.press(PASSWORD, Keys.ENTER)
        eventually(lambda: browser.path == "/?q=x", what="the page that was asked for")
        cookie = browser.driver.get_cookie(SESSION_COOKIE)
        assert cookie is not None
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        csrf = browser.find("meta[name=csrf]").get_attribute("content")
        session = Caller(web.port, {"Cookie": f"{SESSION_COOKIE}={cookie['value']}"})
        assert session("GET", "/", accept="text/html").status == 200
        assert session("DELETE", "/api/v1/session").status == 403
        assert csrf
        browser.find("[data-log-out]").send_keys(Keys.ENTER)
        eventually(lambda: browser.path == "/log-in", what="the log-in page")
        assert session("GET", "/").status == 401
        browser.complaints()  # a refused log-in is an error of the network there


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:1", "/\n/x"]
)
def test_a_log_in_leads_to_pages_of_this_address_alone(hub: Hub, place: str) -> None:
    from urllib.parse import quote

    Users(hub).add("ada", Role.ADMINISTRATOR, PASSWORD, by="test")
    with page_of(hub) as web:
        found = web("GET", f"/log-in?next={quote(place, safe='')}", accept="text/html")
        assert found.status == 200
        assert b'data-next="/"' in found.body


def test_every_page_asks_for_a_role_and_sends_whoever_is_unknown_to_the_log_in(hub: Hub) -> None:
    users = Users(hub)
    users.add("ada", Role.ADMINISTRATOR, PASSWORD, by="test")
    users.add("eva", Role.VIEWER, PASSWORD, by="test")
    _, token = users.add_token("eva", by="test")
    with page_of(hub) as web:
        viewer = Caller(web.port, {"Authorization": f"Bearer {token}"})
        for method, template, role in routes():
            if template in ("/log-in", "/static/{name}"):
                continue
            path = re.sub(r"\{(\w+)(:path)?\}", r"\1", template)
            assert role is not None, f"{method} {path} asks for no role"
            assert web(method, path).status == 401, (method, path)
            if method == "GET":
                found = web("GET", path, accept="text/html")
                assert (found.status, found.headers["location"][:13]) == (303, "/log-in?next="), path
            else:
                assert role.includes(Role.OPERATOR), (method, path)
                assert viewer(method, path).status == 403, (method, path)


def test_files_of_the_page_are_small_kept_by_browsers_and_no_others_are_given(hub: Hub) -> None:
    with page_of(hub) as web:
        shown = web("GET", "/", accept="text/html").body.decode()
        total = 0
        for path in set(re.findall(r'"(/static/[^"]+)"', shown)):
            found = web("GET", path)
            assert (found.status, found.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
            total += len(found.body)
        assert 10_000 < total < 300_000
        assert "style=" not in shown
        assert "<script>" not in shown
        for path in ("/static/../rendering.py", "/static/%2e%2e/rendering.py", "/static/nothing", "/static/"):
            assert web("GET", path).status == 404, path
