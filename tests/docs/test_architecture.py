"""The pages for people who change the code name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("docs/architecture.md", "docs/hub-internals.md", "CONTRIBUTING.md")
TOPS = ("gateway", "links", "transforms", "pipelines", "tests", "docs", "conf", "mgw", "examples", "benchmarks")
PLACE = re.compile(r"`((?:" + "|".join(TOPS) + r")/[\w./<>*-]*)`")


def _places() -> list[tuple[str, str]]:
    return [(page, place) for page in PAGES for place in sorted({*PLACE.findall((ROOT / page).read_text("utf-8"))})]


@pytest.mark.parametrize(("page", "place"), _places())
def test_a_place_that_is_named_is_there(page: str, place: str) -> None:
    assert any(ROOT.glob(place.replace("<broker>", "*").rstrip("/"))), f"{page} names {place}"


def test_places_are_found() -> None:
    assert len(_places()) > 40
    assert not any(ROOT.glob("gateway/aq/no_such_module.py"))


def test_every_room_of_the_gateway_is_in_the_picture() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    rooms = [path.name for path in (ROOT / "gateway").iterdir() if (path / "__init__.py").is_file()]
    assert [name for name in rooms if f"{name}/" not in text and f"gateway/{name}" not in text] == []
