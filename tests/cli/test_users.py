"""``mgw users``: who may use the web face."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Mgw

PASSWORD = "correct horse battery"


@pytest.fixture
def mgw(tmp_path: Path) -> Mgw:
    made = Mgw(tmp_path)
    made.ok("apply", made.file("queues: {H: {}}\n"))
    (tmp_path / "password").write_text(f"{PASSWORD}\nsecond line\n")
    return made


def _add(mgw: Mgw, name: str, role: str) -> None:
    mgw.ok("users", "add", name, "--role", role, "--password-file", "password")


def test_the_first_user_is_an_administrator_and_the_last_one_stays(mgw: Mgw) -> None:
    refused = mgw("users", "add", "eva", "--role", "viewer", "--password-file", "password")
    assert (refused.code, "user eva cannot be the first one" in refused.err) == (1, True)
    _add(mgw, "Ada", "administrator")
    _add(mgw, "eva", "viewer")
    assert "exists" in mgw("users", "add", "ADA", "--password-file", "password").err
    for words in (("role", "ada", "operator"), ("remove", "ada")):
        refused = mgw("users", *words)
        assert (refused.code, "user Ada must stay an administrator" in refused.err) == (1, True)
    assert mgw.ok("users", "role", "eva", "administrator") == "user eva is administrator now\n"
    assert mgw.ok("users", "remove", "ada") == "user Ada removed\n"
    assert "there are no users" in mgw.ok("users", "remove", "eva")


def test_passwords_and_tokens_are_kept_as_digests_and_shown_by_nobody(mgw: Mgw) -> None:
    _add(mgw, "ada", "administrator")
    token = mgw.ok("users", "token", "ada", "--role", "viewer", "--days", "1", "--comment", "for scraping").strip()
    assert token.startswith("mgw_")
    whole = b"".join(path.read_bytes() for path in mgw.folder.glob("hub.db*"))
    assert b"$argon2id$" in whole
    assert PASSWORD.encode() not in whole
    assert token[len("mgw_0123456789abcdef_") :].encode() not in whole
    assert PASSWORD not in mgw.ok("users", "list", "--json") + mgw.ok("users", "tokens", "--json")
    (row,) = json.loads(mgw.ok("users", "tokens", "--json"))
    assert (row["user"], row["role"], row["comment"], row["used"]) == ("ada", "VIEWER", "for scraping", None)
    with sqlite3.connect(mgw.folder / "hub.db") as hub:
        shown = hub.execute("SELECT user_name, role, password, tokens, sessions FROM mgw_users").fetchall()
    assert shown == [("ADA", "ADMINISTRATOR", "YES", 1, 0)]
    mgw.ok("users", "revoke", row["id"])
    assert "does not exist" in mgw("users", "revoke", row["id"]).err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("1st", PASSWORD, "a name is a letter"),
        ("ada", "too short", "it must have 12 to 1024 characters"),
        ("administrator", "ADMINISTRATOR", "and not be the name"),
    ],
)
def test_names_and_passwords_that_cannot_be_used(mgw: Mgw, name: str, content: str, said: str) -> None:
    (mgw.folder / "password").write_text(content)
    done = mgw("users", "add", name, "--role", "administrator", "--password-file", "password")
    assert (done.code, said in done.err) == (1, True), done


def test_every_change_is_an_event(mgw: Mgw) -> None:
    _add(mgw, "ada", "administrator")
    mgw.ok("users", "add", "robot", "--no-password")
    mgw.ok("users", "token", "robot")
    mgw.ok("users", "password", "robot", "--password-file", "password")
    mgw.ok("users", "remove", "robot")
    said = [row["event_text"] for row in json.loads(mgw.ok("events", "--json"))]
    for part in ("ada created as administrator", "robot created as viewer", "robot has token", "robot has another"):
        assert any(part in text for text in said), said
    assert all("; by " in text for text in said if text.startswith("user "))


def test_nobody_is_asked_where_nobody_can_answer(mgw: Mgw) -> None:
    done = mgw("users", "add", "ada", "--role", "administrator")
    assert (done.code, "--password-file" in done.err) == (2, True)
    assert mgw("users", "add", "ada", "--password-file", "nowhere").code == 1
    assert mgw("users", "add", "ada", "--password-file", "password", "--no-password").code == 2
    assert "user 'nobody' does not exist" in mgw("users", "password", "nobody", "--no-password").err
