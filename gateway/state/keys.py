"""The keys of secrets: where they come from, and the file that holds them.

A file has one key a line. The first encrypts, all decrypt. A comment ``# next`` in the line above marks a key that is
about to become the first, ``# former`` one that was.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import itertools
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from mgw.transforms.errors import ConfigInvalid

__all__ = ["KeySource", "NoKey", "key_id", "new_key"]

_NEXT, _FORMER = "# next", "# former"


class NoKey(ConfigInvalid):
    """There is no key at all."""


def key_id(key: bytes) -> str:
    """What a key is called: eight hexadecimal digits that say nothing about it."""
    return sha256(b"mgw key id\0" + base64.urlsafe_b64decode(key)).hexdigest()[:8]


def new_key() -> bytes:
    """A key that nobody has."""
    return base64.urlsafe_b64encode(os.urandom(32))


class KeySource:
    """Where the keys are: the environment, a file that it names, or the file next to the hub.

    Args:
        made: the file where a key is made when the environment names none; None: there is no such file.
    """

    def __init__(self, made: Path | None, environ: Mapping[str, str]) -> None:
        self._made = made
        self._environ = environ

    def __repr__(self) -> str:
        return f"KeySource({self.name!r})"

    @property
    def file(self) -> Path | None:
        """The file with the keys; None where the environment has them, or nothing does."""
        if self._environ.get("MGW_SECRET_KEY", "").strip():
            return None
        named = self._environ.get("MGW_SECRET_KEY_FILE", "").strip()
        return Path(named) if named else self._made

    @property
    def name(self) -> str:
        """The place, for people."""
        return "MGW_SECRET_KEY" if self._environ.get("MGW_SECRET_KEY", "").strip() else str(self.file)

    def read(self, *, create: bool) -> Mapping[str, bytes]:
        """The keys by their ids, the one that encrypts first.

        Raises:
            NoKey: there is none, and none is to be made.
            ConfigInvalid: they cannot be read or made.
        """
        if given := self._environ.get("MGW_SECRET_KEY", "").strip():
            return _ring(_parse_keys(given.split(","), "MGW_SECRET_KEY"))
        if named := self._environ.get("MGW_SECRET_KEY_FILE", "").strip():
            return _ring(_parse_keys(_read_text(Path(named), "MGW_SECRET_KEY_FILE").splitlines(), named))
        path = self._made
        if path is not None and (path.exists() or create):
            if not path.exists():
                _make_key_file(path)
            _check_mode(path)
            return _ring(_parse_keys(_read_text(path, "secret key file").splitlines(), str(path)))
        missing = f": {path} does not exist" if path is not None else ""
        raise NoKey(
            "a secret cannot be stored",
            cause=f"there is no secret key{missing}",
            cure="set MGW_SECRET_KEY or MGW_SECRET_KEY_FILE, or put the key file back from the backup",
        )

    def read_if_there(self) -> Mapping[str, bytes]:
        """The keys by their ids; none where there is no key yet.

        Raises:
            ConfigInvalid: they cannot be read.
        """
        try:
            return self.read(create=False)
        except NoKey:
            return {}

    def coming(self) -> str | None:
        """Id of the key that is about to become the first one, as the file says."""
        path = self.file
        lines = [] if path is None or not path.exists() else _read_text(path, "secret key file").splitlines()
        for mark, line in itertools.pairwise(lines):
            if mark.strip() == _NEXT:
                return next(iter(_ring(_parse_keys([line], str(path)))))
        return None

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else on this host changes the file in the block: of two who do, one would drop the other's key, and
        every secret with it. Ends with the process.

        Raises:
            ConfigInvalid: somebody does, or the folder cannot be opened.
        """
        path = self.file
        if path is None:
            yield
            return
        folder = path.resolve().parent
        try:
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            _lock(handle, path)
            yield
        finally:
            os.close(handle)

    def write(self, first: bytes, *, coming: Sequence[bytes] = (), former: Sequence[bytes] = ()) -> None:
        """Write the file again, whole or not at all; its mode and owner stay.

        Raises:
            ConfigInvalid: it cannot be written.
        """
        path = self.file
        assert path is not None  # noqa: S101  keys of the environment are not written
        lines = [first, *(line for key in coming for line in (_NEXT.encode(), key))]
        lines += [line for key in former for line in (_FORMER.encode(), key)]
        _replace(path.resolve(), b"\n".join(lines) + b"\n")


def _ring(keys: Iterable[bytes]) -> dict[str, bytes]:
    return {key_id(key): key for key in keys}


def _replace(path: Path, content: bytes) -> None:
    try:
        was = path.stat()
        handle, name = tempfile.mkstemp(prefix=".key-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                os.chown(name, was.st_uid, was.st_gid)
            os.chmod(name, stat.S_IMODE(was.st_mode))
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigInvalid(
            f"secret key file {path} is not changed",
            cause="another process changes it now",
            cure="wait until that is done, and look at what it did before you run this again",
        ) from None
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> ConfigInvalid:
    return ConfigInvalid(
        f"secret key file {path} cannot be written",
        cause=error.strerror or type(error).__name__,
        cure="run this as a user who may write it; or write the new key into its first line, keep the former one in "
        "the second, and run this again",
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _parse_keys(texts: Iterable[str], origin: str) -> list[bytes]:
    keys = []
    for text in texts:
        entry = text.strip()
        if not entry or entry.startswith("#"):
            continue
        try:
            raw = base64.b64decode(entry.translate(str.maketrans("-_", "+/")) + "=" * (-len(entry) % 4), validate=True)
        except binascii.Error:
            raw = b""
        if len(raw) != 32:
            raise ConfigInvalid(
                f"the secret key in {origin} cannot be used",
                cause="a key is 32 bytes in base64",
                cure="create one with: openssl rand -base64 32",
            )
        keys.append(base64.urlsafe_b64encode(raw))
    if not keys:
        raise ConfigInvalid(
            f"the secret key in {origin} cannot be used",
            cause="no key is there",
            cure="create one with: openssl rand -base64 32",
        )
    return keys


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(
            f"{what} {path} cannot be read",
            cause=error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not plain text",
            cure="check the path and its permissions",
        ) from error


def _check_mode(path: Path) -> None:
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigInvalid(
            f"secret key file {path} is not used",
            cause="others may read it",
            cure=f"chmod 600 {path}",
        )


def _make_key_file(path: Path) -> None:
    """Make the key file complete or not at all; of two processes the first wins and both use its key."""
    key = new_key() + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".key-", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigInvalid(
            f"secret key file {path} cannot be created",
            cause=error.strerror or type(error).__name__,
            cure="make the folder writable, or set MGW_SECRET_KEY",
        ) from error
