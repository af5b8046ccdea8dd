"""The exception desk of the page: what is chosen stays chosen from link to link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from mgw.gateway.aq import Agent
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import for_exception_queue
from tests.support.gateways import Gateway, gateway_on
from tests.support.web import serving


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Job OUT, with 203 messages for each of the subscribers A and B of its exception queue."""
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        prepare(gateway)
        yield gateway


def prepare(gateway: Gateway) -> None:
    gateway.queue("Q")
    gateway.queue("BAD", multiple_consumers=True)
    for name in "AB":
        gateway.queues.add_subscriber("BAD", Agent(name))
    gateway.admin.create_msgsystem_link("L", "MEMORY", {"broker": "desk"})
    gateway.admin.register_foreign_queue("D", "L")
    gateway.admin.create_job("OUT", "OUTBOUND", "Q", "D@L", exception_queue="BAD")
    reasons = ["too hot"] * 202 + ["too cold"]
    gateway.enqueue(
        "BAD",
        [for_exception_queue(Message(body=str(n)), ConversionFailure(why), "OUT") for n, why in enumerate(reasons)],
    )


def test_every_link_of_the_desk_keeps_what_was_chosen(gateway: Gateway) -> None:
    with serving(gateway.hub) as web:

        def links(path: str, **asked: str) -> dict[str, dict[str, str]]:
            """The links to the desk of the job, with what they ask for."""
            answer = web("GET", f"{path}?{urlencode(asked)}" if asked else path, accept="text/html")
            assert answer.status == 200
            found = [urlsplit(unescape(each)) for each in re.findall(r'href="([^"]*)"', answer.body.decode())]
            return {
                each.geturl(): {name: values[0] for name, values in parse_qs(each.query).items()}
                for each in found
                if each.path.startswith("/exceptions/OUT")
            }

        def one(found: dict[str, dict[str, str]], part: str) -> str:
            return next(each for each in found if part in each)

        desk = links("/exceptions/OUT", consumer="B", reason="too hot")
        assert [asked["consumer"] for asked in desk.values()].count("A") == 1, "the other subscriber"
        assert {asked["consumer"] for asked in desk.values()} == {"A", "B"}
        assert desk[one(desk, "after=")]["reason"] == "too hot"
        more = links(one(desk, "after="))
        assert len([each for each in more if re.search(r"OUT/[0-9a-f]{32}", each)]) == 2
        assert more[one(more, "#list")] == {"reason": "too hot", "consumer": "B"}, "the first page"
        message = one(more, "OUT/")
        for page in (message, one(links(message), "/discard")):
            assert all(asked.get("consumer") == "B" for asked in links(page).values()), page
        form = urlencode({"consumer": "B", "reason": "too cold"}).encode()
        answer = web("POST", "/exceptions/OUT/discard", body=form, accept="text/html")
        assert (answer.status, answer.headers["location"]) == (303, "/exceptions/OUT?reason=too+cold&consumer=B")
        assert "too cold" in web("GET", "/exceptions/OUT", accept="text/html").body.decode(), "A has it still"
        assert "No message is like this" in web("GET", answer.headers["location"], accept="text/html").body.decode()
