"""Debian's Chromium without a window, driven through Chromium's own driver."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from tests.support.waiting import eventually

__all__ = ["MISSING", "Browser", "Keys", "opened"]

_CHROMIUM, _DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
#: Why there is no browser; empty where there is one.
MISSING = "" if _CHROMIUM and _DRIVER else "Chromium is not installed: apt-get install chromium chromium-driver"
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # of tests that run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
)


@dataclass
class Browser:
    """A window.

    Attributes:
        base: address of the page that is tested, without a path.
    """

    driver: webdriver.Chrome
    base: str = ""

    def open(self, path: str = "/") -> None:
        """Go to a page, and wait until it is loaded."""
        self.driver.get(f"{self.base}{path}")

    @property
    def path(self) -> str:
        """Where the window is, without the host."""
        return self.driver.current_url.removeprefix(self.base)

    @property
    def text(self) -> str:
        """What is to be read in the page."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def find(self, selector: str) -> WebElement:
        """The first element that a selector of CSS finds."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Every element that a selector of CSS finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def run(self, script: str, *values: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *values)

    def press(self, *keys: str) -> None:
        """Type where the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def wait_for(self, text: str, *, deadline: float = 20.0) -> None:
        """Wait until the page says this."""
        eventually(lambda: text in self.text, deadline=deadline, what=f"{text!r} in the page")

    def size(self, width: int, height: int = 800) -> None:
        """Have a window of so many pixels."""
        given = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", given)

    def prefer(self, **features: str) -> None:
        """What the person prefers: ``color_scheme="dark"``, ``reduced_motion="reduce"``."""
        found = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": found})

    def scripts(self, allowed: bool) -> None:
        """Whether pages may run scripts."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def complaints(self) -> list[str]:
        """What the console has said since the last time: errors, refused scripts and styles."""
        said = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [f"{each['level']}: {each['message']}" for each in said if each["level"] != "DEBUG"]

    def forget(self) -> None:
        """Be somebody who was never here."""
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.scripts(True)
        self.size(1280)
        self.prefer()
        self.complaints()

    def picture(self, file: Path) -> None:
        """Write what is seen into a PNG."""
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        file.write_bytes(base64.b64decode(found["data"]))


@contextmanager
def opened(flags: Sequence[str] = ()) -> Iterator[Browser]:
    """A browser, until the end of the block."""
    assert _CHROMIUM, MISSING
    assert _DRIVER, MISSING
    options = Options()
    options.binary_location = _CHROMIUM
    for flag in (*_FLAGS, *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
