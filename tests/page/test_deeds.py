"""What somebody does on the page: it says first what will happen, and does what the command line would."""

from __future__ import annotations

import pytest

from mgw.gateway.observe.measures import Measured
from mgw.gateway.runtime.job_history import JobHistory
from mgw.gateway.services.users import Role, Users
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.message import Message
from tests.page.conftest import ORDERS, Moving
from tests.support.brokers import RabbitMQ
from tests.support.browser import Browser, Keys
from tests.support.ports import LOOPBACK
from tests.support.waiting import eventually


@pytest.fixture
def at(moving: Moving, browser: Browser) -> Browser:
    browser.base = f"http://{LOOPBACK}:{moving.web.port}"
    return browser


def test_a_job_is_paused_after_a_word_about_what_happens_and_resumed(moving: Moving, at: Browser) -> None:
    at.open("/jobs/TELEMETRY_IN")
    next(each for each in at.all("#verbs a") if each.text.startswith("Pause")).send_keys(Keys.ENTER)
    assert "what comes meanwhile waits" in at.text
    assert "No message waits for it now." in at.text
    at.press(Keys.ENTER)  # the button has the focus
    at.wait_for("Paused. What comes meanwhile waits.")
    assert moving.gateway.job("TELEMETRY_IN")["ENABLED"] == "FALSE"
    at.wait_for("DISABLED")
    at.open("/jobs/TELEMETRY_IN/resume")
    at.press(Keys.ENTER)
    at.wait_for("Resumed")
    assert moving.gateway.job("TELEMETRY_IN")["ENABLED"] == "TRUE"


def test_a_job_page_says_why_it_does_not_work_and_what_its_settings_mean(at: Browser) -> None:
    at.open("/jobs/RETURNS_OUT")
    assert "check hostname, port and that the broker runs" in at.find("#why").text
    assert "Where it reads" in at.find("#settings").text
    at.open("/jobs/SHIP")
    assert "exact" in at.find("#guarantee").text
    assert "completed" in at.find("#batches").text
    assert "transformation GROSS" in at.find("#errors").text


def test_the_history_of_a_job_is_drawn_and_told_in_numbers(moving: Moving, at: Browser) -> None:
    hub = moving.gateway.hub
    written = JobHistory(hub, "DEFAULT_AGENT", SYSTEM_CLOCK)
    written.record(Measured())
    moved = int(moving.gateway.job("SHIP")["PROPAGATED_TOTAL"])
    moving.feed("orders", *ORDERS[:5])
    eventually(lambda: moving.gateway.job("SHIP")["PROPAGATED_TOTAL"] >= moved + 5, deadline=60, what="orders")
    written.record(Measured())
    at.open("/jobs/SHIP?window=1h")
    assert at.all("#history .chart[data-key=c-rate] .plot")
    assert "over the last 1h" in str(at.find("#history svg").get_attribute("aria-label"))
    at.find("#history summary").click()
    assert "RUNNING" in at.find("#history table").text or "IDLE" in at.find("#history table").text
    at.find("#history nav a").click()
    at.wait_for("History")
    assert at.path.startswith("/jobs/SHIP?window=")


def test_a_message_is_edited_with_its_difference_replayed_and_arrives(moving: Moving, at: Browser) -> None:
    at.open("/exceptions/SHIP")
    assert "2 messages" in at.find("#head").text
    at.find("#list tbody a").send_keys(Keys.ENTER)
    assert "the body must be a JSON object" in at.text
    field = at.find("textarea[name=body]")
    field.clear()
    field.send_keys('{"sum": 100}')
    at.find("form button").send_keys(Keys.ENTER)
    at.wait_for("Change body?")
    assert at.find(".diff .come").text == '{"sum": 100}'
    assert at.find(".diff .gone").text.startswith("no json")
    at.find("button.main").send_keys(Keys.ENTER)
    at.wait_for("The message was changed. It has another id now.")
    next(each for each in at.all(".verbs a") if each.text.startswith("Replay")).send_keys(Keys.ENTER)
    assert at.find("h1").text == "Replay 1 message?"
    before = len(moving.gateway.browse("SHIPPED"))
    at.find("button.main").send_keys(Keys.ENTER)
    at.wait_for("1 of 1 done; finished")
    eventually(lambda: len(moving.gateway.browse("SHIPPED")) == before + 1, deadline=30, what="the message shipped")
    assert any('"gross"' in str(each.body) for each in moving.gateway.browse("SHIPPED"))
    assert any("replayed" in each and "anonymous" in each for each in moving.gateway.events())


def test_messages_of_a_reason_are_discarded_in_pieces_and_can_be_seen_to(moving: Moving, at: Browser) -> None:
    moving.feed("orders", *[f"bad {n}" for n in range(230)])
    eventually(lambda: len(moving.gateway.browse("ORDERS_BAD")) > 229, deadline=60, what="230 exceptions")
    at.open("/exceptions/SHIP")
    assert len(at.all("#list tbody tr")) == 200
    at.find("#more a").click()
    at.wait_for("First page")
    assert len(at.all("#list tbody tr")) == len(moving.gateway.browse("ORDERS_BAD")) - 200
    at.open("/exceptions/SHIP")
    group = at.find("#groups tbody tr")
    assert "transformation GROSS of job SHIP failed" in group.text
    next(each for each in group.find_elements("css selector", "a.button") if "Discard" in each.text).click()
    assert "removed for good" in at.text
    waiting = len(moving.gateway.browse("ORDERS_BAD"))
    assert at.find("h1").text == f"Discard {waiting} messages?"
    at.find("button.danger").send_keys(Keys.ENTER)
    at.wait_for(f"{waiting} of {waiting} done; finished", deadline=60)
    assert moving.gateway.browse("ORDERS_BAD") == []


def test_a_test_message_is_enqueued_and_its_life_is_told(moving: Moving, at: Browser) -> None:
    at.open("/queues/ORDERS")
    at.find("#enqueue summary").click()
    at.find("#enqueue textarea").send_keys('{"sum": 7}')
    at.find("#enqueue input[name=correlation]").send_keys("by hand")
    at.find("#enqueue button").send_keys(Keys.ENTER)
    at.wait_for("The message is in the queue.")
    at.wait_for("It has left the hub.")
    assert "planned in batch" in at.find("#life").text
    assert "job SHIP" in at.find("#life").text
    made = next(each for each in moving.gateway.browse("SHIPPED") if each.correlation == "by hand")
    assert made.msgid is not None
    at.open(f"/messages/{made.msgid.hex()}")
    assert at.path.startswith("/queues/SHIPPED/messages/")
    assert "planned in batch" in at.find("#life").text  # of the message that it was made of


def test_messages_are_found_by_condition_and_a_wrong_one_is_explained(moving: Moving, at: Browser) -> None:
    at.open("/queues/SHIPPED")
    assert max(int(each.size["height"]) for each in at.all(".id")) < 25, "each id in one line"
    at.find("input[name=condition]").send_keys("tab.user_data.order = 7")
    eventually(lambda: len(at.all("#messages tbody tr")) == 1, what="one message")
    field = at.find("input[name=condition]")
    assert field == at.driver.switch_to.active_element
    field.send_keys(" AND (")
    eventually(lambda: at.find("#refused").text, what="a refusal", tolerate=(Exception,))
    field.clear()
    at.open("/queues/SHIPPED?msgid=12")
    assert "is not a message id" in at.text
    at.complaints()


def test_a_link_is_tested_against_its_broker(moving: Moving, at: Browser, rabbitmq: RabbitMQ) -> None:
    moving.gateway.admin.create_msgsystem_link(
        "REAL",
        "RABBITMQ",
        properties={"hostname": rabbitmq.host, "port": rabbitmq.port},
        username=rabbitmq.username,
        password=rabbitmq.password,
    )
    try:
        eventually(lambda: moving.web("GET", "/links/REAL", accept="text/html").status == 200, what="the link")
        at.open("/links/REAL")
        assert rabbitmq.password not in at.find("#settings").text.replace(rabbitmq.username, "") or (
            rabbitmq.username == rabbitmq.password
        )
        at.find("#verbs button").send_keys(Keys.ENTER)
        at.wait_for("all well", deadline=60)
        at.open("/links/BRANCH")
        at.find("#verbs button").send_keys(Keys.ENTER)
        at.wait_for("failed", deadline=60)
        assert "What to do:" in at.find("#checks").text
    finally:
        moving.gateway.admin.remove_msgsystem_link("REAL")


def test_a_viewer_sees_no_button_and_can_do_nothing(moving: Moving) -> None:
    users = Users(moving.gateway.hub)
    users.add("ada", Role.ADMINISTRATOR, None, by="test")
    try:
        users.add("eva", Role.VIEWER, None, by="test")
        _, token = users.add_token("eva", by="test")
        moving.web.headers["Authorization"] = f"Bearer {token}"
        shown = moving.web("GET", "/jobs/SHIP", accept="text/html").body.decode()
        assert "/jobs/SHIP/pause" not in shown
        assert moving.web("POST", "/jobs/SHIP/pause", accept="text/html").status == 403
        assert moving.web("GET", "/exceptions/SHIP/discard").status == 403
        moving.gateway.enqueue("RETURNS", [Message(body="x")])
        refused = moving.web("POST", "/queues/RETURNS/enqueue", body=b"body=x")
        assert refused.status == 403
    finally:
        moving.web.headers.clear()
        users.remove("eva", by="test")
        users.remove("ada", by="test")
