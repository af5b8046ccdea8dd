"""What of a configuration can be used although an object of it is refused: the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mgw.gateway.config.findings import Finding, errors
from mgw.gateway.config.lint import check
from mgw.gateway.config.models import NOUNS, SECTIONS, Document

__all__ = ["Usable", "usable"]


@dataclass(frozen=True, slots=True)
class Usable:
    """A configuration without the objects that are refused.

    ``findings`` are those of all files; ``refused`` names each object, as ``link rabbit``, with its first error. ``ok``
    False: an error belongs to no object (YAML, settings, a section), so nothing can be used.
    """

    document: Document
    findings: Sequence[Finding]
    refused: Mapping[str, Finding]
    ok: bool


def usable(paths: Sequence[str | Path], environ: Mapping[str, str] | None = None, *, existing: Document) -> Usable:
    """Check files, and leave out what is refused, and what then refers to something that exists nowhere.

    Args:
        existing: what the hub holds: an object that is refused stays as it is there, and may be referred to.
    """
    without: set[str] = set()
    found: list[Finding] = []
    refused: dict[str, Finding] = {}
    while True:
        checked = check(paths, environ, existing=existing, without=without)
        wrong = errors(checked.findings)
        names = {finding.object for finding in wrong}
        if not all(_named(name) for name in names):
            return Usable(Document(), [*found, *checked.findings], {}, ok=False)
        if not wrong:
            return Usable(checked.document, [*found, *checked.findings], refused, ok=True)
        found += wrong
        for finding in wrong:
            section, _, name = finding.object.partition(" ")
            refused.setdefault(f"{NOUNS[section]} {name}", finding)
        without |= names


def _named(name: str) -> bool:
    section, space, _ = name.partition(" ")
    return bool(space) and section in SECTIONS
