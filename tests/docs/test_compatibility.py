"""docs/compatibility.md: what it says of ours exists in the code, and nothing of ours is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mgw.gateway.cli import compatibility_names as ours
from mgw.gateway.cli.compatibility_reference import compatibility_page, rows
from mgw.gateway.config.guide import Procedure, older, running
from mgw.gateway.config.guide.numbers import ENGINE
from mgw.gateway.config.guide.procedures import MGWADM
from mgw.gateway.config.guide.views import VIEWS
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS
from mgw.gateway.state.mgwadm.procedures import PROCEDURES as SQL_FUNCTIONS
from mgw.gateway.state.views import COLUMNS
from tests.cli.conftest import ROOT

PROCEDURES = (*MGWADM, *older.SUBSCRIBERS, *older.HQADM)
#: What rows name that the code does not have yet; each such row says what to use until then.
AHEAD: set[str] = set()
#: In backquotes, and no names of the gateway: what they refer to stands next to them.
OTHERS = {"latency", "/", "+", "#", ">", "*", "exchange/pattern", "VARRAY(n) OF NUMBER"}
OTHERS |= {"MGW_JOB", "MGW_JOB_<agent>", "max_retries: 100", "mgw.transforms.lcr", "/etc/mgw", "mgw"}
OTHERS |= {"QUEUE", "TOPIC", "FORCE", "NO_FORCE", "NO_CHANGE", "DEFAULT_AGENT", "SHUTDOWN_NORMAL", "*"}
OTHERS |= {"AGENT_JAVA_PROP", "MSGLINK_OPTION", "JOB_OPTION", "OUTBOUND_PROPAGATION", "settings.log"}
OTHERS |= {"MGW_ADMIN", "MGW_LOG_LEVEL", "log_directory", "--option NAME="}
OTHERS |= {"field", "x-delivery-count", "application/octet-stream", "text/plain"}


def _texts() -> Iterator[str]:
    for each in PROCEDURES:
        yield from (each.note, each.instead, *(one.note for one in each.parameters))
    for row in rows():
        yield row.here
    for view in VIEWS:
        yield view.instead


def _is_known(name: str, reference: str) -> bool:
    """Whether a command with its options exists, or the code or a reference page has the name."""
    words = name.split()
    if words[0] == "mgw" and len(words) > 1:
        path = words[1:]
        while path and ours.command(" ".join(path)) is None:
            path.pop()
        rest = [word for word in words[1 + len(path) :] if word.startswith("--")]
        return bool(path) and set(rest) <= ours.places(" ".join(path))
    return ours.there(name) or f"`{name}`" in reference


def test_every_name_of_ours_exists() -> None:
    reference = "".join(path.read_text("utf-8") for path in (ROOT / "docs/reference").glob("*.md"))  # made of the code
    named = {name for text in _texts() for name in re.findall(r"`([^`]+)`", text)}
    assert len(named) > 100
    unknown = {name for name in named - OTHERS - AHEAD if not _is_known(name, reference)}
    assert unknown == set()
    assert not _is_known("mgw jobs create --colour", reference)
    assert not _is_known("mgw joobs", reference)


def test_nothing_is_excused_that_needs_no_excuse() -> None:
    named = {name for text in _texts() for name in re.findall(r"`([^`]+)`", text)}
    assert OTHERS - named == set(), "no row names these any more"
    assert {name for name in AHEAD if ours.method(name) is not None or ours.there(name)} == set(), "these exist by now"
    assert {each.python for each in PROCEDURES if each.instead} >= AHEAD


@pytest.mark.parametrize("procedure", PROCEDURES, ids=lambda each: each.name)
def test_a_procedure_has_its_place_or_says_what_to_use(procedure: Procedure) -> None:
    if ours.method(procedure.python) is None:
        assert procedure.python in AHEAD, f"there is no {procedure.python}"
        assert procedure.instead
        return
    signature = ours.method(procedure.python)
    assert signature is not None
    if ours.command(procedure.command) is None:
        assert procedure.command == "", f"there is no mgw {procedure.command}"
    for given in procedure.parameters:
        assert given.python == "-" or (given.python or given.name) in signature.parameters or given.note, given.name
        if ours.command(procedure.command) is not None:
            assert given.option in {"", *ours.places(procedure.command)}, given.option
    # nothing that a caller may give is left out
    taken = {given.python or given.name for given in procedure.parameters}
    extra = {"self", "link_type", "username", "password", "max_connections", "inbound_log_queue", "outbound_log_queue"}
    extra |= {"require_guarantee", "move_to", "drop_messages", "options", "encrypted_options"}
    assert set(signature.parameters) - taken <= extra


@pytest.mark.parametrize("procedure", [each for each in PROCEDURES if each.command], ids=lambda each: each.name)
def test_a_parameter_has_an_option_or_says_why_not(procedure: Procedure) -> None:
    for given in procedure.parameters:
        assert given.option in ours.places(procedure.command) or given.note, given.name
    signature = ours.method(procedure.python)
    assert signature is not None
    only_here = set(signature.parameters) & {"require_guarantee", "move_to", "drop_messages", "encrypted_options"}
    options = {name.rstrip("s") if name == "encrypted_options" else name for name in only_here}
    assert {f"--{name.replace('_', '-')}" for name in options} <= ours.places(procedure.command)


@pytest.mark.parametrize("procedure", [*MGWADM, *older.SUBSCRIBERS], ids=lambda each: each.name)
def test_a_parameter_is_in_sql_or_the_row_says_why_not(procedure: Procedure) -> None:
    signature = ours.method(procedure.python)
    assert signature is not None
    (function,) = [each for each in SQL_FUNCTIONS if each.name == procedure.name.lower()]
    left_out = set(signature.parameters) - {"self"} - {each.name for each in function.parameters}
    if "set_option" not in procedure.note:
        assert {name for name in left_out if f"`{name}`" not in procedure.note} == set()
    else:
        assert left_out == {"options", "encrypted_options"}


def test_what_is_different_says_how() -> None:
    for row in rows():
        assert row.verdict in {"yes", "differs", "no"}, row.name
        assert row.here, row.name
    for view in VIEWS:
        for column in view.columns:
            place = dict(view.other).get(column, f"MGW_JOBS.{column}")
            assert column in COLUMNS.get(view.ours, ()) or place in ours.column_names() or " " in place, column


def test_everything_that_is_ours_is_on_the_page() -> None:
    page = compatibility_page()
    assert [name for name in ours.methods() if f"`{name}`" not in page] == []
    assert [name for name in COLUMNS if f"`{name}`" not in page] == []
    for view in VIEWS:
        part = page.partition(f"### {view.name}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        assert [column for column in COLUMNS.get(view.name, ()) if f"`{column}`" not in part] == []
    options = ours.option_names() | {field.name for field in AGENT_OPTIONS}
    assert [name for name in options if f"`{name}`" not in page] == []


def test_a_row_says_yes_as_soon_as_the_code_has_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [each for each in running.JOB_STATUS if each.coming]
    assert waiting
    monkeypatch.setattr(ours, "there", lambda name: name == waiting[0].coming.name)  # type: ignore[union-attr]
    assert f"| {waiting[0].name} | yes |" in compatibility_page()


def test_numbers_that_are_said_to_be_the_same_are_in_the_code() -> None:
    places = (ROOT / "gateway", ROOT / "links", ROOT / "transforms")
    texts = (path.read_text("utf-8") for place in places for path in place.rglob("*.py") if "guide" not in path.parts)
    found = {number for text in texts for number in re.findall(r"(?:number=|= )(\d{3})\b", text)}
    assert [row.name for row in ENGINE if row.verdict == "yes" and row.name not in found] == []
