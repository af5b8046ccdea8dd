"""The description of job states: what the hub may store, and what the page can draw."""

from __future__ import annotations

import re
from pathlib import Path

from mgw.gateway.definitions.job_words import ACTIVITIES, JOB_WORDS, LEAVING, activity_text, word_of
from mgw.gateway.definitions.objects import Activity, JobStatus

TEMPLATES = Path(__file__).resolve().parents[2] / "gateway" / "http" / "web" / "templates"


def test_every_activity_is_described_and_nothing_else_is() -> None:
    assert sorted(ACTIVITIES) == sorted(Activity)
    assert all(f"{word}: " in activity_text() for word in Activity)


def test_every_state_a_job_can_have_is_described() -> None:
    found = {word_of(status, activity, on) for status in JobStatus for activity in Activity for on in (True, False)}
    assert found == {each.word for each in JOB_WORDS}


def test_the_states_of_a_job_that_is_being_removed_are_listed_once() -> None:
    assert [status for status in JobStatus if status.leaving] == list(LEAVING)
    listed = re.compile(r"""["']DELETE_PENDING["'], *["']SUBSCRIBER_DELETE_PENDING["']""")
    sources = [each for kind in ("*.py", "*.sql") for each in (TEMPLATES.parents[2]).rglob(kind)]
    found = sorted(each.name for each in sources if listed.search(each.read_text("utf-8")))
    assert found == ["__init__.py", "job_words.py"], "the description, and a migration step, which never changes"


def test_the_page_has_the_symbol_of_every_state() -> None:
    drawn = set(re.findall(r'id="s-(\w+)"', (TEMPLATES / "shapes.html").read_text("utf-8")))
    assert {each.shape for each in JOB_WORDS} <= drawn


def test_what_is_wrong_has_a_cure() -> None:
    assert all(each.cure for each in JOB_WORDS if each.trouble)
