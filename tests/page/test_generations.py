"""Generations on the page: what changed, and back, after a look at the plan."""

from __future__ import annotations

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.generations import generations
from mgw.gateway.services.hubs import Hub
from tests.page.conftest import page_of
from tests.page.test_pages import barriers, too_wide
from tests.support.browser import Browser, Keys


def test_somebody_goes_back_to_an_earlier_generation(hub: Hub, browser: Browser) -> None:
    admin = GatewayAdmin(hub)
    admin.create_msgsystem_link("plant", "MEMORY", {"timeout": 7}, comment="<b>bold</b>")
    admin.alter_msgsystem_link("plant", {"timeout": 9})
    first = generations(hub, 2)[-1].number
    with page_of(hub, browser):
        browser.open("/generations")
        assert "alter link plant (timeout: 7.0 -> 9.0)" in browser.text
        assert (barriers(browser), too_wide(browser)) == ([], [])
        browser.find(f"a[href='/generations/{first}']").click()
        browser.wait_for("What there was then")
        assert "comment: <b>bold</b>" in browser.find("#yaml").text
        assert (barriers(browser), too_wide(browser)) == ([], [])
        browser.find(f"a[href='/generations/{first}/rollback']").click()
        browser.wait_for("What will happen")
        assert "link plant (timeout: 9.0 -> 7.0)" in browser.find("#plan").text
        assert (barriers(browser), too_wide(browser)) == ([], [])
        browser.find("form[data-act] button.main").send_keys(Keys.ENTER)
        browser.wait_for("Everything is as it was then")
    link = admin.get_link("plant")
    assert link is not None
    assert link.attributes["timeout"] == 7
    assert generations(hub, 1)[0].actor == "anonymous"
