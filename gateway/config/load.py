"""Reads configuration files: YAML to plain data that remembers where every value stood.

Texts may hold variables: ``${NAME}`` and ``${NAME:-default}``; ``$${`` stands for a plain ``${``. One that is not set
but whose ``NAME_FILE`` is takes the contents of that file, and a key ``password_file`` gives the value of
``password`` (the same for every secret), so that secrets can come from files that an orchestrator mounts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from gateway.config.findings import Finding, Mark, Path

__all__ = ["Source", "configured_hub", "load", "read_secret"]

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")
_BRACED = re.compile(r"\$\{[^}\n]*\}")
#: YAML forbids ``{ } , :`` and ``#`` in many places where people write variables; while the file is parsed they are
#: hidden behind characters that mean nothing, one for one, so that lines and columns stay true.
_HIDDEN = str.maketrans("{},:#[]", "\uf8f0\uf8f1\uf8f2\uf8f3\uf8f4\uf8f5\uf8f6")
_SHOWN = {hidden: chr(number) for number, hidden in _HIDDEN.items()}
_CHECK_PATH = "check path and permissions"
_MAX_FILE = 16 * 1024 * 1024  # bytes; a configuration is never near it, a mistaken path may be


@dataclass(slots=True)
class Source:
    """The merged files: plain data, the place of every key and value, and what went wrong on the way."""

    tree: dict[str, Any] = field(default_factory=dict)
    marks: dict[Path, Mark] = field(default_factory=dict)
    variables: set[Path] = field(default_factory=set)  # values that held a variable
    unresolved: set[Path] = field(default_factory=set)  # ... that is not set
    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def mark(self, path: Path) -> Mark:
        """Place of a value, or of the nearest mapping around it."""
        while path:
            if path in self.marks:
                return self.marks[path]
            path = path[:-1]
        return Mark(self.files[0]) if self.files else Mark("")

    def error(self, name: str, path: Path, message: str, cure: str = "", *, mark: Mark | None = None) -> None:
        """Add an error about the value at ``path``."""
        self.findings.append(Finding("error", name, mark or self.mark(path), _object(path), message, cure))

    def warning(self, name: str, path: Path, message: str, cure: str = "") -> None:
        """Add a warning about the value at ``path``."""
        self.findings.append(Finding("warning", name, self.mark(path), _object(path), message, cure))


def load(paths: Sequence[str | FilePath], environ: Mapping[str, str]) -> Source:
    """Read and merge files. Never raises for bad contents: what is wrong is in ``findings``."""
    source = Source()
    for path in paths:
        source.files.append(str(path))
        _Reader(source, FilePath(path), environ).read()
    return source


def read_secret(path: FilePath) -> str:
    """A secret from a file, without the line end that editors add.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: it is not UTF-8 text.
    """
    return path.read_text("utf-8").rstrip("\r\n")


def _hide(text: str) -> str:
    if "${" not in text or any(hidden in text for hidden in map(chr, _SHOWN)):
        return text
    return _BRACED.sub(lambda match: match.group(0).translate(_HIDDEN), text)


def _show(text: str) -> str:
    return text.translate(_SHOWN)


def _object(path: Path) -> str:
    """``links rabbit`` for every path below the link."""
    return " ".join(str(part) for part in path[:2])


class _Unreadable(Exception):
    """A file that cannot be used at all."""

    def __init__(self, name: str, mark: Mark, message: str, cure: str) -> None:
        super().__init__(message)
        self.name, self.mark, self.message, self.cure = name, mark, message, cure


def _unreadable(file: str, error: MarkedYAMLError) -> _Unreadable:
    """Where and why the YAML is wrong."""
    place = error.problem_mark or error.context_mark
    mark = Mark(file, place.line + 1, place.column + 1) if place else Mark(file)
    problem = _show(str(error.problem or error.context or "not YAML").splitlines()[0])
    duplicate = re.match(r'found duplicate key "([^"]*)"', problem)
    if duplicate:
        return _Unreadable("duplicate-key", mark, f"key {duplicate.group(1)!r} occurs twice", "keep one of them")
    return _Unreadable("bad-yaml", mark, problem, "check indentation and quotes on this line and the one above")


class _Reader:
    """Reads one file into the source."""

    def __init__(self, source: Source, path: FilePath, environ: Mapping[str, str]) -> None:
        self._source = source
        self._path = path
        self._environ = environ

    def read(self) -> None:
        """Add the file to the source, or the reason why it cannot be read."""
        try:
            root = self._parse(self._text())
        except _Unreadable as problem:
            self._source.error(problem.name, (), problem.message, problem.cure, mark=problem.mark)
            return
        if root is not None:
            self._merge(root)

    def _text(self) -> str:
        file = Mark(str(self._path))
        try:
            if self._path.stat().st_size > _MAX_FILE:
                raise _Unreadable("bad-yaml", file, f"larger than {_MAX_FILE} bytes", "give another file")
            return self._path.read_text("utf-8")
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start}"
            raise _Unreadable("bad-yaml", file, message, "save the file as UTF-8") from error
        except OSError as error:
            raise _Unreadable("missing-file", file, f"cannot be read: {error.strerror}", _CHECK_PATH) from error

    def _parse(self, text: str) -> CommentedMap | None:
        file = str(self._path)
        try:
            root = YAML(typ="rt").load(_hide(text))
        except MarkedYAMLError as error:
            raise _unreadable(file, error) from error
        except (YAMLError, ValueError, RecursionError) as error:
            message = (str(error) or type(error).__name__).splitlines()[0]
            raise _Unreadable("bad-yaml", Mark(file), message, "correct the YAML") from error
        if root is None or isinstance(root, CommentedMap):
            return root
        message = "the file does not hold a mapping"
        raise _Unreadable("bad-yaml", Mark(file, 1, 1), message, "start with 'version: 1' and sections")

    def _merge(self, root: CommentedMap) -> None:
        source = self._source
        for section, value in root.items():
            path: Path = (_show(str(section)),)
            source.marks.setdefault(path, self._key_mark(root, section))
            if not isinstance(value, CommentedMap):
                if value is not None or str(section) not in source.tree:
                    source.tree[str(section)] = self._plain(path, value)
                continue
            held = source.tree.setdefault(str(section), {})
            if not isinstance(held, dict):  # the other file has a scalar here
                held = source.tree[str(section)] = {}
            names = {name.upper(): name for name in held}
            for name, entry in value.items():
                spelled, mark = _show(str(name)), self._key_mark(value, name)
                if spelled.upper() in names:
                    self._duplicate(section, names[spelled.upper()], spelled, mark)
                    continue
                names[spelled.upper()] = spelled
                source.marks[(*path, spelled)] = mark
                held[spelled] = self._plain((*path, spelled), entry)

    def _duplicate(self, section: Any, first: str, second: str, mark: Mark) -> None:
        path: Path = (str(section), first)
        other = self._source.mark(path)
        spelling = "" if first == second else f" as {first!r} (names ignore case)"
        self._source.error(
            "duplicate-name",
            path,
            f"{section} {second!r} is already defined at {other.file}:{other.line}{spelling}",
            "keep one of them",
            mark=mark,
        )

    def _key_mark(self, parent: CommentedMap, key: Any) -> Mark:
        try:
            line, column = parent.lc.key(key)
        except (KeyError, AttributeError, TypeError):  # merged in with << from an anchor
            line, column = parent.lc.line or 0, parent.lc.col or 0
        return Mark(str(self._path), line + 1, column + 1)

    def _plain(self, path: Path, value: Any) -> Any:
        """The value as plain data, its variables replaced, everything marked."""
        if isinstance(value, CommentedMap):
            result: dict[str, Any] = {}
            for name, entry in value.items():
                below = (*path, _show(str(name)))
                self._source.marks[below] = self._key_mark(value, name)
                result[str(below[-1])] = self._plain(below, entry)
            return self._with_secret_files(path, result)
        if isinstance(value, CommentedSeq):
            return [self._plain((*path, index), entry) for index, entry in enumerate(value)]
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        return self._substitute(path, _show(str(value)))

    def _substitute(self, path: Path, text: str) -> str:
        if "${" not in text:
            return text

        return _VARIABLE.sub(lambda match: self._variable(path, match), text)

    def _variable(self, path: Path, match: re.Match[str]) -> str:
        whole, name, default = match.group(0), match.group(1), match.group(2)
        if whole == "$${":
            return "${"
        if name is None:
            self._source.unresolved.add(path)
            self._source.error("bad-variable", path, f"{whole!r} is no variable", "write ${NAME} or ${NAME:-value}")
            return ""
        self._source.variables.add(path)
        value = self._environ.get(name) or ""
        if not value and self._environ.get(f"{name}_FILE"):
            value = self._from_file(path, FilePath(self._environ[f"{name}_FILE"]), f"variable {name}_FILE")
        elif not value and default is not None:
            value = str(default)
        elif name not in self._environ:
            self._source.unresolved.add(path)
            cure = f"set {name} or {name}_FILE, or write ${{{name}:-default}}"
            self._source.error("missing-variable", path, f"variable {name} is not set", cure)
        return value

    def _with_secret_files(self, path: Path, values: dict[str, Any]) -> dict[str, Any]:
        """``password_file: /run/secrets/x`` becomes ``password``; other keys that end in ``_file`` stay."""
        for name in [name for name in values if name.lower() == "password_file"]:
            below = (*path, name)
            target = name[: -len("_file")]
            if target in values:
                self._source.error("conflicting-keys", below, f"{target} and {name} are both given", "keep one of them")
                continue
            file = values.pop(name)
            if below in self._source.unresolved:
                self._source.unresolved.add((*path, target))
            elif isinstance(file, str) and file:
                values[target] = self._from_file(below, FilePath(file), name)
                self._source.variables.add((*path, target))
                self._source.marks[(*path, target)] = self._source.marks[below]
            else:
                self._source.error("bad-value", below, f"{name} must be the path of a file", "give a path")
        return values

    def _from_file(self, path: Path, file: FilePath, origin: str) -> str:
        try:
            return read_secret(self._path.parent / file)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            self._source.unresolved.add(path)
            self._source.error("missing-file", path, f"{origin}: {file} cannot be read: {reason}", _CHECK_PATH)
            return ""


def configured_hub(paths: Sequence[str | FilePath], environ: Mapping[str, str] | None = None) -> str | None:
    """``settings.hub`` of the files, if it is there; what is wrong with them is found by others."""
    settings = load(paths, os.environ if environ is None else environ).tree.get("settings")
    hub = settings.get("hub") if isinstance(settings, dict) else None
    return hub if isinstance(hub, str) and hub else None
