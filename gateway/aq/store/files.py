"""The files of an SQLite hub: still those that are open, or moved, deleted or replaced behind the connections.

A connection keeps the file that it opened, whatever happens to the name: what it commits to a file that nobody can name
any more is lost with the process. So every transaction looks before it begins, and again before its commit is
acknowledged; those that may be forgotten look at their beginning a few times in a second only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic

import sqlalchemy as sa

from mgw.transforms.errors import HubMoved

__all__ = ["HubFiles", "existing", "files_of"]

_Identity = tuple[int, int]  # device and inode
_LOOK_SECONDS = 0.1
_OPEN_FILES = "/proc/self/fd"
_CURE = (
    "stop every program that has this hub open and put the file back, with its -wal; then start again. "
    "Next time stop them first: the latest commits are in the -wal"
)


class HubFiles:
    """The database file, its write-ahead log and the index of that.

    Args:
        path: of the database.
        where: the hub as shown to people.
    """

    def __init__(self, path: str, where: str) -> None:
        self._named = os.path.abspath(path)
        self._path = os.path.realpath(path)  # next to which SQLite keeps the others
        self._where = where
        self._mutex = threading.Lock()
        self._file: _Identity | None = None
        self._log = f"{self._path}-wal"
        self._beside: dict[str, _Identity | None] = {self._log: None, f"{self._path}-shm": None}
        self._next = 0.0

    def opened(self) -> None:
        """A connection was made: the first one decides which file the hub is.

        Raises:
            HubMoved: it is another file than before.
        """
        if self._file is None:
            self._file = _identity(self._named)
        self.look()

    def require(self) -> None:
        """Refuse to begin where the files are not those that are open; looks a few times in a second at most.

        Raises:
            HubMoved: they are not.
        """
        moment = monotonic()
        if moment >= self._next:
            self.look()
            self._next = moment + _LOOK_SECONDS

    def look(self) -> None:
        """Refuse to work where the files are not those that are open, at this moment.

        Raises:
            HubMoved: they are not.
        """
        self._look(self._beside, committed=False)

    def committed(self) -> None:
        """Refuse to acknowledge what was committed where the files are not those that are open.

        Raises:
            HubMoved: they are not.
        """
        self._look((self._log,), committed=True)

    def _look(self, beside: Iterable[str], *, committed: bool) -> None:
        if self._file is None:
            return
        found = _identity(self._named)
        if found != self._file and not self._is_the_same(found):
            happened = "was moved or deleted" if found is None else "was replaced by another file"
            raise self._moved(f"{self._named} {happened} while this program has it open", committed=committed)
        for path in beside:
            found, known = _identity(path), self._beside[path]
            if found != known and not self._may_be(path, known, found):
                raise self._moved(f"{path} was removed or replaced while this program has it open", committed=committed)

    def _is_the_same(self, found: _Identity | None) -> bool:
        """Whether a file system only numbers its files again."""
        with self._mutex:
            held = found is not None and os.path.realpath(self._named) == self._path
            held = held and any(name == self._path for _, name in _open_files())
            if not held or _stale(self._file, self._path):
                return False
            self._file = found
            return True

    def _may_be(self, path: str, known: _Identity | None, found: _Identity | None) -> bool:
        """Whether it is another one for a good reason: it goes with the last connection of all programs."""
        with self._mutex:
            if _stale(known, path):
                return False
            self._beside[path] = found
            return True

    def _moved(self, cause: str, *, committed: bool) -> HubMoved:
        self._next = 0.0  # every call looks, until the files are back
        what = f"hub {self._where} is not where it was"
        if committed:
            what += ", and whether the last transaction is kept is not known"
        return HubMoved(what, cause=cause, cure=_CURE)


def files_of(address: sa.URL, where: str) -> HubFiles | None:
    """The files of the hub at an address; None: it is not an SQLite database."""
    return HubFiles(address.database or "", where) if address.get_backend_name() == "sqlite" else None


def existing(path: str, mode: str = "rw") -> str:
    """The URI that opens a database and never makes one; ``mode`` is ``rw`` or ``ro``."""
    return "file:" + path.replace("%", "%25").replace("?", "%3f").replace("#", "%23") + f"?mode={mode}"


def _identity(path: str) -> _Identity | None:
    """Which file has this name; None: none has."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _stale(known: _Identity | None, path: str) -> bool:
    """Whether this process has a file open that does not bear this name any more."""
    return known is not None and any(each == known and name != path for each, name in _open_files())


def _open_files() -> list[tuple[_Identity, str]]:
    """Every open file of this process and its name of now; empty where the system does not tell."""
    found = []
    with suppress(OSError):
        for number in os.listdir(_OPEN_FILES):
            with suppress(OSError):  # the listing itself
                link = f"{_OPEN_FILES}/{number}"
                state = os.stat(link)
                found.append(((state.st_dev, state.st_ino), os.readlink(link)))
    return found
