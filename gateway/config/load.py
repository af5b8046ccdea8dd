"""Reads configuration files: YAML to plain data that remembers where every value stood.

Texts may hold variables: ``${NAME}`` and ``${NAME:-default}``; ``$${`` stands for a plain ``${``. One that is not set
but whose ``NAME_FILE`` is takes the contents of that file, and a key ``password_file`` gives the value of
``password`` (the same for every secret), so that secrets can come from files that an orchestrator mounts.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from mgw.gateway.config.findings import Finding, Mark, Path
from mgw.gateway.config.nodes import Nodes, Unreadable, compose
from mgw.gateway.config.overrides import place_of

__all__ = [
    "OVERRIDES",
    "STANDARD_INPUT",
    "Source",
    "configured_hub",
    "load",
    "load_text",
    "no_file",
    "read_secret",
    "shown_file",
]

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{[^}]*\}?")
#: YAML forbids ``{ } , :`` and ``#`` in many places where people write variables; while the file is parsed they are
#: hidden behind characters that mean nothing, one for one, so that lines and columns stay true.
_HIDDEN = str.maketrans("{},:#[]", "\uf8f0\uf8f1\uf8f2\uf8f3\uf8f4\uf8f5\uf8f6")
_SHOWN = {hidden: chr(number) for number, hidden in _HIDDEN.items()}
#: Variable that holds the values of ``--set``, a line each: they hold again when the files are read again.
OVERRIDES = "MGW_SET"
_TESTS = re.compile(r"^[\"']?tests[\"']?\s*:", re.MULTILINE)
_CHECK_PATH = "check path and permissions"
#: What stands for a value that is not there where the values of connections do not matter: a name, a number, a secret.
_STAND_IN = "1"
#: The file of that name is standard input.
STANDARD_INPUT = "-"
#: Folders whose entries are files that the process has open, such as ``/dev/stdin``.
_OPEN_FILES = frozenset(map(FilePath, ("/dev", "/dev/fd", "/proc/self/fd")))
_MAX_FILE = 4 * 1024 * 1024  # bytes; a configuration is never near it, a mistaken path may be


@dataclass(slots=True)
class Source:
    """The merged files: plain data, the place of every key and value, and what went wrong on the way."""

    tree: dict[str, Any] = field(default_factory=dict)
    marks: dict[Path, Mark] = field(default_factory=dict)
    variables: set[Path] = field(default_factory=set)  # values that held a variable
    unresolved: set[Path] = field(default_factory=set)  # ... that is not set
    blank: dict[Path, str] = field(default_factory=dict)  # ... that gave nothing, ${NAME:-}: the variable
    kept: dict[Path, str] = field(default_factory=dict)  # secrets among these: as if their key were missing
    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    secret_files: set[FilePath] = field(default_factory=set)  # that values were read from
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    lenient: bool = False  # variables that are not set and files that are not there are no errors
    remote: bool = False  # it came from another machine: no file and no variable of this one is read for it

    def mark(self, path: Path) -> Mark:
        """Place of a value, or of the nearest mapping around it."""
        while path:
            if path in self.marks:
                return self.marks[path]
            path = path[:-1]
        return Mark(self.files[0]) if self.files else Mark("")

    def error(self, name: str, path: Path, message: str, cure: str = "", *, mark: Mark | None = None) -> None:
        """Add an error about the value at ``path``."""
        self.findings.append(Finding("error", name, mark or self.mark(path), _object(path), _brief(message), cure))

    def missing(self, name: str, path: Path, message: str, cure: str) -> str:
        """Add an error about a variable or a secret that is not there; gives what stands for it."""
        if self.lenient:
            return _STAND_IN
        self.unresolved.add(path)
        self.error(name, path, message, cure)
        return ""

    def warning(self, name: str, path: Path, message: str, cure: str = "") -> None:
        """Add a warning about the value at ``path``."""
        self.findings.append(Finding("warning", name, self.mark(path), _object(path), _brief(message), cure))


def load(paths: Sequence[str | FilePath], environ: Mapping[str, str], *, lenient: bool = False) -> Source:
    """Read and merge files. Never raises for bad contents: what is wrong is in ``findings``.

    Args:
        lenient: a variable that is not set, or a secret whose file is not there, is ``1`` and no error.
    """
    source = Source(environ=environ, lenient=lenient)
    for path in _files(source, paths):
        source.files.append(shown_file(path))
        _Reader(source, path, environ).read()
    for line in environ.get(OVERRIDES, "").splitlines():
        _override(source, line, environ)
    return source


def load_text(text: str, origin: str, environ: Mapping[str, str] | None = None) -> Source:
    """Read YAML that came from another machine, as :func:`load` reads a file; files are not read.

    Args:
        environ: variables; None: there are none, so that one without a default is an error.
    """
    source = Source(files=[origin], remote=True)
    _Reader(source, FilePath(origin), environ or {}).read(text)
    return source


def _files(source: Source, paths: Sequence[str | FilePath]) -> Iterator[FilePath]:
    """The files; a folder stands for those in it whose name ends in .yaml, by name, without tests of mappings."""
    for path in map(FilePath, paths):
        if _is_standard_input(path) or not path.is_dir():
            yield path
            continue
        found = sorted(each for each in path.glob("*.yaml") if each.is_file() and not _holds_tests(each))
        if not found:
            mark = Mark(str(path))
            source.error("missing-file", (), "the folder holds no *.yaml", "name another folder", mark=mark)
        yield from found


def shown_file(path: FilePath) -> str:
    """A file as people are told of it."""
    return "standard input" if _is_standard_input(path) else str(path)


def _is_standard_input(path: FilePath) -> bool:
    return str(path) == STANDARD_INPUT


def _contents(path: FilePath) -> bytes:
    """What is in a file, one byte more than it may have at most.

    Raises:
        OSError: it cannot be read.
    """
    if _is_standard_input(path) or (path.exists() and not path.is_file()):
        return _read_once(str(path))
    with path.open("rb") as file:
        return file.read(_MAX_FILE + 1)


@functools.cache
def _read_once(path: str) -> bytes:
    """The same of standard input or a pipe, which can be read once: a command reads its files several times."""
    with open(0, "rb", closefd=False) if path == STANDARD_INPUT else open(path, "rb") as file:
        return file.read(_MAX_FILE + 1)


def _holds_tests(path: FilePath) -> bool:
    """Whether a file is one of tests of mappings: ``*_test.yaml`` with a key ``tests``. Others may be named so, too."""
    if not path.name.endswith("_test.yaml"):
        return False
    try:
        if path.stat().st_size > _MAX_FILE:
            return False
        text = path.read_text("utf-8")
        root = compose(_hide(text), str(path))
    except (OSError, UnicodeDecodeError):
        return False
    except Unreadable:  # who runs the tests is told what is wrong
        return _TESTS.search(text) is not None
    return isinstance(root, MappingNode) and any(key.value == "tests" for key, _ in root.value)


def _override(source: Source, line: str, environ: Mapping[str, str]) -> None:
    """Replace one value of the files by what the command line says: ``links.rabbit.port=5673``."""
    names, equals, text = line.partition("=")
    origin = f"--set {names}"
    source.files.append(origin)
    place = place_of(source.tree, names.strip())
    if not equals or place is None:
        cure = "write section.object.key=value, of an object that the files define, or settings.key=value"
        source.error("bad-value", (), f"{names!r} names no setting of the files", cure, mark=Mark(origin))
        return
    if names.lower().endswith("password"):
        source.error("plain-password", place, "others can see it here", "use password_file", mark=Mark(origin))
        return
    value = _Reader(source, FilePath(origin), environ).value(place, text)
    held: Any = source.tree
    for name in place[:-1]:
        held = held.setdefault(name, {})
    held[place[-1]] = value
    source.marks[place] = Mark(origin)


def read_secret(path: FilePath) -> str:
    """A secret from a file, without the line end that editors add.

    Raises:
        OSError: the file cannot be read.
        UnicodeDecodeError: it is not UTF-8 text.
    """
    return path.read_text("utf-8").rstrip("\r\n")


def no_file(source: Source, path: Path) -> str:
    """Refuse a key that names a file of this machine; gives what stands for the secret."""
    name = str(path[-1])
    cure = f"write {name[: -len('_file')]} with the secret itself"
    return source.missing("no-files", path, f"{name} cannot be used here: files of this machine are not read", cure)


def _hide(text: str) -> str:
    if "${" not in text or any(hidden in text for hidden in map(chr, _SHOWN)):
        return text
    parts, done, end = [], 0, 0
    start = text.find("${")
    while start >= 0:
        if end < start:
            end = text.find("}", start)
        if end < 0:
            break
        line = text.find("\n", start, end)
        if line < 0:
            parts += [text[done:start], text[start : end + 1].translate(_HIDDEN)]
            done = end + 1
        start = text.find("${", done if line < 0 else line)
    return "".join([*parts, text[done:]])


def _brief(message: str) -> str:
    """A message that shows a value of any length."""
    return message if len(message) <= 600 else f"{message[:300]} ... {message[-200:]}"


def _object(path: Path) -> str:
    """``links rabbit`` for every path below the link."""
    return " ".join(str(part) for part in path[:2])


class _Reader:
    """Reads one file into the source."""

    def __init__(self, source: Source, path: FilePath, environ: Mapping[str, str]) -> None:
        self._source = source
        self._path = path
        self._environ = environ
        self._name = shown_file(path)
        self._nodes = Nodes(self._name)
        self._hidden = False

    def read(self, given: str | None = None) -> None:
        """Add the file, or the text that is given in its place, to the source, or the reason why it cannot be read."""
        before = {name: dict(part) if isinstance(part, dict) else part for name, part in self._source.tree.items()}
        try:
            text = self._text() if given is None else given
            hidden = _hide(text)
            self._hidden = hidden is not text
            root = compose(hidden, self._name)
            if root is None:
                message = "the file is empty"
                raise Unreadable("bad-yaml", Mark(self._name), message, "start with 'version: 1' and sections")
            if not isinstance(root, MappingNode):
                message = "the file does not contain a mapping"
                raise Unreadable("bad-yaml", self._nodes.mark(root), message, "start with 'version: 1' and sections")
            self._merge(root)
        except Unreadable as problem:
            self._source.tree = before
            self._source.error(problem.name, (), self._show(problem.message), problem.cure, mark=problem.mark)

    def value(self, path: Path, text: str) -> Any:
        """One value in YAML as plain data; None where it cannot be read, after adding the reason."""
        hidden = _hide(text)
        self._hidden = hidden is not text
        try:
            node = compose(hidden, self._name)
            return None if node is None else self._plain(path, node)
        except Unreadable as problem:
            self._source.error(problem.name, path, self._show(problem.message), problem.cure, mark=problem.mark)
            return None

    @property
    def _folder(self) -> FilePath:
        """What paths in the file are relative to: its folder; of standard input, the folder of the process."""
        return FilePath() if self._path.parent in _OPEN_FILES else self._path.parent

    def _text(self) -> str:
        file = Mark(self._name)
        try:
            given = _contents(self._path)
            if len(given) > _MAX_FILE:
                raise Unreadable("bad-yaml", file, f"larger than {_MAX_FILE} bytes", "give another file")
            return given.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start}"
            raise Unreadable("bad-yaml", file, message, "save the file as UTF-8") from error
        except OSError as error:
            raise Unreadable("missing-file", file, f"cannot be read: {error.strerror}", _CHECK_PATH) from error

    def _merge(self, root: MappingNode) -> None:
        source = self._source
        for key, value in self._nodes.entries(root):
            section = self._show(key.value)
            path: Path = (section,)
            source.marks.setdefault(path, self._nodes.mark(key))
            if not isinstance(value, MappingNode):
                plain = self._plain(path, value)
                if plain is not None or section not in source.tree:
                    source.tree[section] = plain
                continue
            held = source.tree.setdefault(section, {})
            if not isinstance(held, dict):  # the other file has a scalar here
                held = source.tree[section] = {}
            names = {name.upper(): name for name in held}
            for name, entry in self._nodes.entries(value):
                spelled, mark = self._show(name.value), self._nodes.mark(name)
                if spelled.upper() in names:
                    self._duplicate(section, names[spelled.upper()], spelled, mark)
                    continue
                names[spelled.upper()] = spelled
                source.marks[*path, spelled] = mark
                held[spelled] = self._plain((*path, spelled), entry)

    def _duplicate(self, section: str, first: str, second: str, mark: Mark) -> None:
        path: Path = (section, first)
        other = self._source.mark(path)
        spelling = "" if first == second else f" as {first!r} (names ignore case)"
        self._source.error(
            "duplicate-name",
            path,
            f"{section} {second!r} is already defined at {other.file}:{other.line}{spelling}",
            "keep one of them",
            mark=mark,
        )

    def _plain(self, path: Path, node: Node) -> Any:
        """The value as plain data, its variables replaced, everything marked."""
        self._nodes.count(node)
        if isinstance(node, MappingNode):
            result: dict[str, Any] = {}
            with self._nodes.within(node):
                for key, value in self._nodes.entries(node):
                    name = self._show(key.value)
                    below = (*path, name)
                    self._source.marks[below] = self._nodes.mark(key)
                    result[name] = self._plain(below, value)
            return self._with_secret_files(path, result)
        if isinstance(node, SequenceNode):
            with self._nodes.within(node):
                return [self._plain((*path, index), each) for index, each in enumerate(node.value)]
        value = self._nodes.scalar(node)
        return self._substitute(path, self._show(value)) if isinstance(value, str) else value

    def _show(self, text: str) -> str:
        return text.translate(_SHOWN) if self._hidden else text

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
            self._source.error(
                "bad-variable",
                path,
                f"{whole!r} is not a variable",
                "write ${NAME} or ${NAME:-value}; $${ for a plain ${",
            )
            return ""
        self._source.variables.add(path)
        value = self._environ.get(name) or ""
        if not value and self._environ.get(f"{name}_FILE"):
            value = self._from_file(path, FilePath(self._environ[f"{name}_FILE"]), f"variable {name}_FILE")
        elif not value and default is not None:
            value = str(default)
        elif name not in self._environ:
            cure = f"set {name} or {name}_FILE, or write ${{{name}:-default}}"
            if self._source.remote:
                cure = "variables of this machine are not read: write the value; for a plain ${ write $${"
            value = self._source.missing("missing-variable", path, f"variable {name} is not set", cure)
        if not value:
            self._source.blank[path] = name
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
        if self._source.remote:
            return no_file(self._source, path)
        self._source.secret_files.add((self._folder / file).absolute())
        try:
            return read_secret(self._folder / file)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            message = f"{origin}: {file} cannot be read: {reason}"
            return self._source.missing("missing-file", path, message, _CHECK_PATH)


def configured_hub(paths: Sequence[str | FilePath], environ: Mapping[str, str] | None = None) -> str | None:
    """``settings.hub`` of the files, if it is there; what is wrong with them is found by others."""
    settings = load(paths, os.environ if environ is None else environ).tree.get("settings")
    hub = settings.get("hub") if isinstance(settings, dict) else None
    return hub if isinstance(hub, str) and hub else None
