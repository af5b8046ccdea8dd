"""The reference pages say what the code says."""

from __future__ import annotations

import re

import pytest

from mgw.gateway.aq.views import COLUMNS as HUB_COLUMNS
from mgw.gateway.cli.reference import PAGES
from mgw.gateway.config.hub_view_columns import HUB_COLUMN_TEXTS, HUB_VIEW_TEXTS
from mgw.gateway.config.view_columns import COLUMN_TEXTS, VIEW_TEXTS
from mgw.gateway.state.views import COLUMNS
from tests.cli.conftest import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_page_is_fresh(name: str) -> None:
    path = ROOT / "docs" / "reference" / name
    assert path.read_text("utf-8") == PAGES[name](), "write it anew: python -m mgw.gateway.cli.reference"


def test_every_view_and_column_is_explained_and_nothing_else() -> None:
    assert set(VIEW_TEXTS) == set(COLUMNS)
    columns = {column for columns in COLUMNS.values() for column in columns}
    assert {name.rpartition(".")[2] for name in COLUMN_TEXTS} == columns


def test_every_view_of_the_hub_and_every_column_is_explained_and_nothing_else() -> None:
    assert set(HUB_VIEW_TEXTS) == set(HUB_COLUMNS)
    named = {(view, column) for view, columns in HUB_COLUMNS.items() for column in columns}
    general = {name for name in HUB_COLUMN_TEXTS if "." not in name}
    particular = {tuple(name.rsplit(".", 1)) for name in HUB_COLUMN_TEXTS if "." in name}
    assert particular <= named
    assert general == {column for _, column in named - particular}


def test_every_command_and_option_has_help() -> None:
    page = PAGES["cli.md"]()
    assert "| `` |" not in page
    assert [line for line in page.splitlines() if line.startswith("| `--") and line.endswith("|  |")] == []
    for command in ("mgw lint", "mgw apply", "mgw run", "mgw status", "mgw jobs alter", "mgw aq enqueue"):
        assert f"## {command}\n" in page


def test_every_header_that_links_give_or_take_is_listed() -> None:
    page = PAGES["headers.md"]()
    sources = [path.read_text("utf-8") for folder in ("transforms", "links") for path in (ROOT / folder).rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'"(MGW_(?:AMQP|KAFKA|MQTT)_[A-Za-z_]+)"', text)}
    assert len(names) > 20
    assert [name for name in sorted(names) if name not in page] == []


def test_no_option_of_a_foreign_queue_is_said_to_change() -> None:
    page = PAGES["links.md"]()
    parts = re.findall(r"^### [^\n]*: Options of foreign queues\n(.*?)(?=^### )", page, re.MULTILINE | re.DOTALL)
    assert len(parts) >= 3
    rows = [line.split(" | ") for part in parts for line in part.splitlines() if line.startswith("| `")]
    assert {row[3] for row in rows} == {"never"}
