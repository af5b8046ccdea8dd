"""Set-up: from an empty hub to a message that arrived, with nothing but the page; what is refused, and to whom."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from urllib.parse import urlencode

import pika
import pytest

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.definitions import find
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.messages import enqueue
from mgw.gateway.services.users import Role, Users
from mgw.links import registry
from tests.cli.conftest import Mgw
from tests.conformance.test_bad_input import running
from tests.page.conftest import EVIL, page_of
from tests.page.test_pages import barriers, too_wide
from tests.support.brokers import RabbitMQ
from tests.support.browser import Browser, Keys

SECRET = f"not-{uuid.uuid4().hex}"


def fill(browser: Browser, **values: str) -> None:
    """Fill in fields of the form; those in groups that are closed as well."""
    for each in browser.all("form.sheet details:not([open]) > summary"):
        each.click()
    for name, value in values.items():
        field = browser.find(f'form.sheet [name="{name}"]')
        if field.tag_name == "select":
            browser.run("arguments[0].value = arguments[1]", field, value)
        else:
            field.clear()
            field.send_keys(value)


def submit(browser: Browser, says: str) -> None:
    browser.find("form.sheet button[type=submit]").send_keys(Keys.ENTER)
    browser.wait_for(says, deadline=60)


def confirm(browser: Browser) -> None:
    browser.find("form[data-act] button.main").send_keys(Keys.ENTER)


def test_from_an_empty_hub_to_a_message_that_arrived(
    hub: Hub, browser: Browser, rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    queue = f"setup.{uuid.uuid4().hex[:8]}"
    with page_of(hub, browser) as web:
        browser.open()
        browser.find("main a[href='/setup']").click()
        browser.wait_for("From top to bottom")
        assert barriers(browser) == []
        browser.find("a[href='/setup/links?kind=rabbitmq']").click()
        browser.wait_for("New link")
        assert barriers(browser) == []
        assert too_wide(browser) == []
        fill(browser, name="office", hostname=rabbitmq.host, port="1", username=rabbitmq.username, password=SECRET)
        submit(browser, "check failed")
        assert "What to do:" in browser.find("#tests").text
        assert SECRET not in browser.driver.page_source, "not even in a hidden field"
        browser.find("form[action$=form] button").click()
        browser.wait_for("See what will happen")
        fill(browser, port=str(rabbitmq.port), password=rabbitmq.password)
        submit(browser, "The connection works")
        browser.find("form[action$=form] button").click()
        browser.wait_for("See what will happen")
        assert browser.find("[name=password]").get_attribute("placeholder") == "kept as you typed it"
        submit(browser, "The connection works")
        assert not browser.all("form[data-act] [name=password]")
        assert barriers(browser) == []
        assert "rabbitmq" in browser.find("#yaml").text
        assert not GatewayAdmin(hub).list_links(), "nothing is made before it is confirmed"
        confirm(browser)
        browser.wait_for("It is in force")

        browser.open("/setup/foreign_queues?kind=office")
        fill(browser, name="orders", provider_queue=queue)
        browser.find("[formaction$=look]").send_keys(Keys.ENTER)
        browser.wait_for("It does not exist there", deadline=60)
        assert f"declare queue name={queue}" in browser.find("#looked").text
        assert barriers(browser) == []
        submit(browser, "Create foreign queue")
        confirm(browser)
        browser.wait_for("It is in force")

        browser.open("/setup/queues")
        fill(browser, name="ORDERS")
        submit(browser, "Create queue")
        confirm(browser)
        browser.wait_for("It is in force")

        browser.open("/setup/jobs")
        fill(browser, name="orders_in", type="inbound", source="orders@office", destination="NOWHERE")
        submit(browser, "Not yet")
        assert "NOWHERE" in browser.find("#wrong").text
        assert barriers(browser) == []
        fill(browser, destination="ORDERS")
        browser.find("[formaction$=preview]").send_keys(Keys.ENTER)
        browser.wait_for("Give one by hand", deadline=60)
        assert "does not exist in RabbitMQ" in browser.find("#lacking").text
        browser.find("textarea[name=sample]").send_keys(Keys.HOME)
        browser.find("form[action$=preview] button").send_keys(Keys.ENTER)
        browser.wait_for("gets 1 message", deadline=60)
        assert barriers(browser) == []
        assert too_wide(browser) == []
        browser.find("form[action$=form] button").send_keys(Keys.ENTER)
        browser.wait_for("New job")
        submit(browser, "Create job")
        assert "destination: ORDERS" in browser.find("#yaml").text
        confirm(browser)
        browser.wait_for("ORDERS_IN")

        browser.open("/setup/jobs/orders_in")
        assert not browser.all("form.sheet [name=source]"), "what cannot be changed is no field"
        fill(browser, batch_size="77", comment=EVIL)
        submit(browser, "Change job")
        assert browser.driver.title != "taken"
        confirm(browser)
        browser.wait_for("ORDERS_IN")
        made = find(hub, "jobs", "orders_in").config
        assert (made["batch_size"], made["comment"]) == (77, EVIL)
        assert SECRET not in web("GET", "/setup/links/office", accept="text/html").body.decode()

    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"an order")
    mgw = Mgw(tmp_path)
    with running(mgw) as agent:
        agent.counts("orders_in", "propagated_total", 1)
    channel.queue_delete(queue)
    connection.close()
    assert "an order" in mgw.ok("aq", "browse", "ORDERS")


def test_only_an_administrator_sets_up_and_who_was_slower_is_told(hub: Hub, browser: Browser) -> None:
    admin = GatewayAdmin(hub)
    admin.aq.create_queue_table("T")
    for name in ("A", "B"):
        admin.aq.create_queue(name, "T")
    admin.create_job("NEAR", "LOCAL", "A", "B")
    with page_of(hub, browser) as web:
        browser.open("/setup/jobs/NEAR")
        admin.alter_job("NEAR", comments="somebody was faster")
        fill(browser, comment="mine")
        submit(browser, "Not yet")
        assert "changed" in browser.find("#wrong").text
        job = admin.get_job("NEAR")
        assert job is not None
        assert job.comments == "somebody was faster"
        assert web("GET", "/setup/nothing", accept="text/html").status == 404
        assert web("GET", "/setup/jobs/NOTHING", accept="text/html").status == 404
        assert web("GET", "/setup/links?kind=carrier+pigeon", accept="text/html").status == 200
        users = Users(hub)
        users.add("ada", Role.ADMINISTRATOR, "correct horse battery", by="test")
        users.add("otto", Role.OPERATOR, "correct horse battery", by="test")
        web.headers["Authorization"] = f"Bearer {users.add_token('otto', by='test')[1]}"
        assert web("GET", "/setup", accept="text/html").status == 403
        form = {"body": b"name=X", "content_type": "application/x-www-form-urlencoded"}
        assert web("POST", "/setup/queues", None, **form).status == 403  # type: ignore[arg-type]


def test_a_removal_says_first_what_uses_the_object_and_what_would_be_lost(hub: Hub, browser: Browser) -> None:
    admin = GatewayAdmin(hub)
    admin.aq.create_queue_table("T")
    for name in ("A", "B"):
        admin.aq.create_queue(name, "T")
        admin.aq.start_queue(name)
    admin.create_job("NEAR", "LOCAL", "A", "B")
    enqueue(hub, "A", [b"one", b"two"])

    def preview(section: str, name: str, says: str) -> None:
        browser.open(f"/setup/{section}/{name}")
        browser.find("form[action$=removal] button").send_keys(Keys.ENTER)
        browser.wait_for(says)
        assert barriers(browser) == []
        assert too_wide(browser) == []

    with page_of(hub, browser) as web:
        preview("queues", "A", "Still used")
        assert browser.find("#users a").text == "NEAR"
        assert not browser.all("form[data-act] button"), "it could not be done"
        form_type = "application/x-www-form-urlencoded"
        body = f"was=A&tag={find(hub, 'queues', 'A').tag}&force=yes".encode()
        assert web("POST", "/setup/queues/remove", body=body, content_type=form_type).status == 409
        preview("jobs", "NEAR", "No message is lost")
        confirm(browser)
        browser.wait_for("It is removed")
        assert admin.get_job("NEAR") is None
        preview("queues", "A", "2 messages")
        body = f"was=A&tag={find(hub, 'queues', 'A').tag}".encode()
        assert web("POST", "/setup/queues/remove", body=body, content_type=form_type).status == 409
        browser.find("[name=force]").click()
        confirm(browser)
        browser.wait_for("It is removed")
        preview("queues", "B", "No message is in it")
        admin.aq.alter_queue("B", comment="somebody was faster")
        confirm(browser)
        browser.wait_for("changed since")
        (refused,) = browser.complaints()
        assert "412" in refused
        preview("queues", "B", "No message is in it")
        confirm(browser)
        browser.wait_for("It is removed")
        assert admin.aq.queue("B") is None


def test_a_typed_password_is_used_once_and_by_its_session_alone(hub: Hub) -> None:
    with page_of(hub) as web:

        def post(path: str, **fields: str) -> str:
            body = urlencode({"kind": "mqtt", "name": "far", "hostname": "nowhere.invalid", **fields}).encode()
            answer = web("POST", path, body=body, accept="text/html", content_type="application/x-www-form-urlencoded")
            text = answer.body.decode()
            assert SECRET not in text
            return f"{answer.status} {text}"

        def kept(text: str) -> str:
            return re.findall('name="kept" value="([^"]*)"', text)[-1]

        refused = post("/setup/links/check", username="u", password=SECRET, port="none")
        assert "Not yet" in refused
        assert "kept as you typed it" in refused
        first = kept(refused)
        second = kept(post("/setup/links/check", username="u", kept=first))
        assert second != first
        assert "not kept any more" in post("/setup/links/check", username="u", kept=first)
        back = kept(post("/setup/links/form", username="u", kept=second))
        failed = post("/setup/links", username="u", kept=back, port="none")
        assert failed.startswith("4"), "refused: it may be tried again"
        users = Users(hub)
        users.add("ada", Role.ADMINISTRATOR, "correct horse battery", by="test")
        web.headers["Authorization"] = f"Bearer {users.add_token('ada', by='test')[1]}"
        assert "not kept any more" in post("/setup/links", username="u", kept=back)
        users.remove("ada", by="test")
        del web.headers["Authorization"]
        assert post("/setup/links", username="u", kept=back).startswith("303")
        assert "not kept any more" in post("/setup/links", username="u", kept=back)
        assert GatewayAdmin(hub).get_link("far").password == SECRET  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["rabbitmq", "kafka", "mqtt"])
def test_the_form_of_each_link_type_has_every_setting_with_its_meaning(hub: Hub, browser: Browser, kind: str) -> None:
    spec = registry.spec(kind)
    with page_of(hub, browser):
        browser.open(f"/setup/links?kind={kind}")
        names = {each.get_attribute("name") for each in browser.all("form.sheet [name]")}
        assert {each.name for each in spec.attributes} | {f"options.{each.name}" for each in spec.options} <= names
        assert len(browser.all(".field label")) == len(browser.all(".field"))
        for each in browser.all("form.sheet details > summary"):
            each.click()
        assert barriers(browser) == []
        assert too_wide(browser) == []
