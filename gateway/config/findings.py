"""What a check of a configuration found, and where."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

__all__ = ["NOWHERE", "Finding", "Mark", "Path", "Severity", "errors", "nearest"]

Severity = Literal["error", "warning"]

#: Place of a value in the document: section, object name, key, ... (list items by number).
Path = tuple[str | int, ...]


class Mark(NamedTuple):
    """A place in a file; lines and columns count from 1, 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0


NOWHERE = Mark("")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: ``name`` is stable and meant for machines and searches, ``message`` and ``cure`` are for people."""

    severity: Severity
    name: str
    mark: Mark
    object: str
    message: str
    cure: str = ""

    def __str__(self) -> str:
        place = self.mark.file or "(configuration)"
        if self.mark.line:
            place += f":{self.mark.line}:{self.mark.column}"
        text = f"{place}: {self.severity} {self.name}: {self.message}"
        return f"{text}; {self.cure}" if self.cure else text

    @property
    def where(self) -> str:
        """The place without the file: line and column, or the keys that lead there; empty for the object itself."""
        return f"line {self.mark.line}, column {self.mark.column}" if self.mark.line else self.mark.file

    def as_json(self) -> dict[str, Any]:
        """A flat mapping: severity, name, file, line, column, object, message, cure."""
        values = asdict(self)
        file, line, column = values.pop("mark")
        return {"severity": self.severity, "name": self.name, "file": file, "line": line, "column": column} | {
            key: values[key] for key in ("object", "message", "cure")
        }


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """Those that forbid using the configuration."""
    return [finding for finding in findings if finding.severity == "error"]


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or an empty text."""
    by_key = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_key, n=1, cutoff=0.6)
    return by_key[found[0]] if found else ""
