"""The initialization file of an agent, ``mgw.ora`` (AQ guide 12.2 §18.6).

One entity a line: ``name = value`` (a parameter), ``set NAME=value`` or ``setenv NAME=value`` (a variable of the
process), ``setJavaProp name=value`` (a property). Blanks around are ignored; a line that begins with ``#`` is a
comment. The file is read once, when the agent starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mgw.gateway.definitions.agent_options import check_option, option_refusal
from mgw.gateway.definitions.objects import DEFAULT_AGENT, key
from mgw.transforms.errors import GatewayError

__all__ = ["ADMIN_FOLDER", "FOLDER_VARIABLE", "MISSING", "UNREADABLE", "InitFile", "find", "read"]

ADMIN_FOLDER = Path("/etc/mgw")
FOLDER_VARIABLE = "MGW_ADMIN"  # names another folder for the files that no agent names
UNREADABLE, MISSING = -2, -19  # result codes

_GRAMMAR = "write a line as name = value, set NAME=value, setJavaProp name=value, or # comment"
_LINE = re.compile(r"(?:(?P<verb>set|setenv|setjavaprop)\s+)?(?P<name>[^\s=]+)\s*=\s*(?P<value>.*)", re.IGNORECASE)
#: Variables of the documentation that mean nothing to a process without Java and without an Oracle database.
_FOREIGN_VARIABLES = frozenset(
    ("CLASSPATH", "LD_LIBRARY_PATH", "MGW_PRE_PATH", "ORACLE_HOME", "ORACLE_SID", "SHLIB_PATH", "TNS_ADMIN")
)


@dataclass(frozen=True, slots=True)
class InitFile:
    """What the file says.

    Attributes:
        path: of the file; None: there is none.
        log_directory: where log files go.
        log_level: 0..4, of a run that begins.
        variables: of the environment, for this process and its workers.
        properties: agent options, for an agent that has no such option in the hub.
        without_effect: what the file sets and nothing reads, with its line and the reason.
    """

    path: Path | None = None
    log_directory: Path | None = None
    log_level: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()


def find(agent: str, initfile: str | None, environ: Mapping[str, str]) -> Path | None:
    """The file that an agent reads; None: there is none.

    Args:
        initfile: attribute of the agent. Without it the file is ``mgw_<AGENT>.ora`` of a named agent, or ``mgw.ora``,
            in the folder that MGW_ADMIN names, or in ``/etc/mgw``.

    Raises:
        GatewayError: ``initfile`` does not exist (result -19).
    """
    if initfile is not None:
        path = Path(initfile)
        if not path.is_file():
            raise GatewayError(
                f"initialization file {path} of agent {agent} does not exist",
                cause="no file has that name on this host",
                cure=f"create it, or have the agent use the default file: mgw agents alter {agent} --initfile ''",
                number=MISSING,
            )
        return path
    folder = Path(environ.get(FOLDER_VARIABLE) or ADMIN_FOLDER)
    names = ["mgw.ora"] if key(agent) == DEFAULT_AGENT else [f"mgw_{key(agent)}.ora", "mgw.ora"]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read(agent: str, initfile: str | None, environ: Mapping[str, str]) -> InitFile:
    """What the initialization file of the agent says; nothing where it has none.

    Raises:
        GatewayError: a file that the agent names does not exist (result -19); the file cannot be read, or a line of it
            says nothing that an agent could understand (result -2).
    """
    path = find(agent, initfile, environ)
    if path is None:
        return InitFile()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise _unreadable(path, cause, "make it a text file that the user of the process may read") from error
    reader = _Reader(path)
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            reader.take(number, text)
    return reader.said()


class _Reader:
    """Takes a line after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._directory: Path | None = None
        self._level: int | None = None
        self._variables: dict[str, str] = {}
        self._properties: dict[str, str] = {}
        self._without_effect: list[str] = []

    def take(self, number: int, text: str) -> None:
        found = _LINE.fullmatch(text)
        if found is None:
            raise self._refused(number, "it is no entity", _GRAMMAR)  # the text is not told: any file may be named
        verb, name, value = (found["verb"] or "").lower(), found["name"], found["value"].strip()
        if not verb:
            self._take_parameter(number, name, value)
        elif verb == "setjavaprop":
            self._take_property(number, name, value)
        elif name.upper() in _FOREIGN_VARIABLES:
            self._ignore(number, name, "it is for Java or an Oracle database")
        else:
            self._variables[name] = value

    def said(self) -> InitFile:
        return InitFile(
            self._path,
            self._directory,
            self._level,
            self._variables,
            self._properties,
            tuple(self._without_effect),
        )

    def _take_parameter(self, number: int, name: str, value: str) -> None:
        if name.lower() == "log_directory":
            if not value:
                raise self._refused(number, "log_directory has no value", "name a folder, or remove the line")
            self._directory = Path(value)
        elif name.lower() == "log_level":
            if value not in {"0", "1", "2", "3", "4"}:
                raise self._refused(
                    number,
                    f"log_level cannot be {value!r}: it is a whole number from 0 to 4",
                    "give one in that range, or remove the line",
                )
            self._level = int(value)
        else:
            self._ignore(number, name, "the parameters are log_directory and log_level")

    def _take_property(self, number: int, name: str, value: str) -> None:
        if refusal := option_refusal(name):
            self._ignore(number, name, refusal[0])
            return
        try:
            check_option(name, value, "agent")
        except GatewayError as error:
            raise self._refused(number, f"{error.what}: {error.cause}", error.cure) from error
        self._properties[name.lower()] = value

    def _ignore(self, number: int, name: str, reason: str) -> None:
        self._without_effect.append(f"{name} (line {number}: {reason})")

    def _refused(self, number: int, why: str, cure: str) -> GatewayError:
        return _unreadable(self._path, f"line {number}: {why}", cure)


def _unreadable(path: Path, cause: str, cure: str) -> GatewayError:
    return GatewayError(f"initialization file {path} cannot be read", cause=cause, cure=cure, number=UNREADABLE)
