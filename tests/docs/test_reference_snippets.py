"""Configuration shown in the documentation is configuration that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mgw.gateway.config.lint import lint
from mgw.gateway.config.models import SECTIONS
from tests.cli.conftest import ROOT

_BLOCK = re.compile(r"^( *)```ya?ml\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
#: A snippet may leave out what the text around it has: the objects it refers to, and the reader's own variables.
_ELSEWHERE = {
    "unknown-agent",
    "unknown-link",
    "unknown-transformation",
    "unknown-queue-table",
    "undefined-queue",
    "undefined-foreign-queue",
    "missing-variable",
    "missing-file",
    "refused",
}


def _snippets() -> list[tuple[str, str]]:
    found = []
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for number, match in enumerate(_BLOCK.finditer(page.read_text("utf-8")), 1):
            text = re.sub(rf"^{match.group(1)}", "", match.group(2), flags=re.MULTILINE)
            if any(re.search(rf"^{section}:", text, re.MULTILINE) for section in SECTIONS):
                found.append((f"{page.relative_to(ROOT)} {number}", text))
    return found


@pytest.mark.parametrize(("place", "text"), _snippets() or [("none", "version: 1\n")])
def test_snippet_has_no_error_of_its_own(place: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "snippet.yaml"
    path.write_text(text, "utf-8")
    errors = [each for each in lint([path], {}) if each.severity == "error" and each.name not in _ELSEWHERE]
    errors = [each for each in errors if "cannot be imported" not in each.message]  # the reader's own module
    assert [str(each) for each in errors] == [], place
