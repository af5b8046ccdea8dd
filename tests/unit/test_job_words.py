"""The description of job states: what the hub may store, and what the page can draw."""

from __future__ import annotations

import re
from pathlib import Path

from mgw.gateway.definitions.job_words import ACTIVITIES, JOB_WORDS, activity_text, word_of
from mgw.gateway.definitions.objects import Activity, JobStatus

TEMPLATES = Path(__file__).resolve().parents[2] / "gateway" / "http" / "web" / "templates"


def test_every_activity_is_described_and_nothing_else_is() -> None:
    assert sorted(ACTIVITIES) == sorted(Activity)
    assert all(f"{word}: " in activity_text() for word in Activity)


def test_every_state_a_job_can_have_is_described() -> None:
    found = {word_of(status, activity, on) for status in JobStatus for activity in Activity for on in (True, False)}
    assert found == {each.word for each in JOB_WORDS}


def test_the_page_has_the_symbol_of_every_state() -> None:
    drawn = set(re.findall(r'id="s-(\w+)"', (TEMPLATES / "shapes.html").read_text("utf-8")))
    assert {each.shape for each in JOB_WORDS} <= drawn


def test_what_is_wrong_has_a_cure() -> None:
    assert all(each.cure for each in JOB_WORDS if each.trouble)
