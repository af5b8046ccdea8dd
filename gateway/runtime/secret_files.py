"""Notices that a file was renewed from which the configuration takes a password."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ReadFiles", "SecretFiles"]

_LOGGER = logging.getLogger("mgw.engine")

_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """What a configuration was read from: its own files, and those that hold secrets."""

    own: frozenset[Path] = frozenset()
    secret: frozenset[Path] = frozenset()


class SecretFiles:
    """Asks for the configuration to be read again when a password in a file of its own is another one.

    Args:
        read: what the configuration is read from now; may take as long as the files do.
        ask: have it read again.
    """

    def __init__(self, read: Callable[[], ReadFiles], ask: Callable[[], None]) -> None:
        self._read = read
        self._ask = ask
        self._stale = True
        self._own: Mapping[Path, _Stamp] = {}
        self._secret: Mapping[Path, _Stamp] = {}

    def about_to_read(self) -> None:
        """The configuration is read next, by any thread: what is renewed from now on is not in it."""
        self._own, self._secret, self._stale = _stamps(self._own), _stamps(self._secret), True

    def look(self) -> None:
        """Compare, and ask where a password was renewed. A configuration that was changed itself waits for SIGHUP.
        Called by one thread, on which nothing else waits for the files."""
        if self._stale:
            self._stale = False
            found = self._read()
            self._own = _stamps(found.own) | {path: self._own[path] for path in found.own if path in self._own}
            known = {path: self._secret[path] for path in found.secret if path in self._secret}
            self._secret = _stamps(found.secret) | known
        now = _stamps(self._secret)
        renewed = [path for path, stamp in now.items() if stamp is not None and stamp != self._secret[path]]
        if not renewed:
            return
        names = ", ".join(map(str, renewed))
        self._secret = now
        if _stamps(self._own) != self._own:
            _LOGGER.warning(
                "%s was renewed and is not read yet; cause: the configuration was changed as well; cure: send SIGHUP, "
                "which reads both again",
                names,
            )
            return
        _LOGGER.info("%s was renewed: reading it again", names)
        self._ask()


def _stamps(paths: Iterable[Path]) -> dict[Path, _Stamp]:
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
