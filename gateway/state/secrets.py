"""Secrets at rest: the key, what is encrypted with it, and hiding both from texts.

Passwords, and attributes and options that a link calls secret, are stored as Fernet tokens (AES-128-CBC with
HMAC-SHA-256).
The key comes from, in this order:

1. ``MGW_SECRET_KEY``: one or more keys separated by commas; the first encrypts, all decrypt (so keys are rotated),
2. ``MGW_SECRET_KEY_FILE``: a file with one key per line, same meaning,
3. a key file, made with mode 0600 when the first secret is stored: ``<hub>.key`` next to a SQLite hub,
   ``$XDG_CONFIG_HOME/mgw/secret.key`` (``~/.config/mgw/secret.key``) for another database.

A key is 32 random bytes in base64, as ``openssl rand -base64 32`` prints them.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import make_url

from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

__all__ = ["HIDDEN", "Secrets", "redact"]

HIDDEN = "***"

_URL_USER = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<user>[^\s:/@]*):(?P<password>[^\s/]*)@", re.IGNORECASE)
_SETTING = re.compile(
    r"(?P<name>\b[\w.-]*(?:password|passwd|secret|token)\b[\"']?\s*[=:]\s*)(?P<value>\"[^\"]*\"|'[^']*'|[^\s,;&\"'}\])]+)",
    re.IGNORECASE,
)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """``text`` with passwords in URLs, ``password=...`` settings and every secret in ``known`` replaced by ``***``."""
    for secret in sorted(filter(None, known), key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN)
        else:  # a very short one is hidden where it stands alone, or every text would turn to asterisks
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    text = _URL_USER.sub(rf"\g<scheme>\g<user>:{HIDDEN}@", text)
    return _SETTING.sub(rf"\g<name>{HIDDEN}", text)


class Secrets:
    """Encrypts and decrypts with one set of keys, and remembers what it saw so that texts can be redacted.

    Nothing is read or made before it is needed: a hub without passwords has no key.

    Args:
        key_file: where the key is made when the environment names none; None: encrypting without a key is an error.
        environ: the environment, for tests.
    """

    def __init__(self, key_file: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._key_file = key_file
        self._environ = os.environ if environ is None else environ
        self._cipher: MultiFernet | None = None
        self._origin = ""
        self._seen: set[str] = set()
        self._shown: set[str] = set()

    def __repr__(self) -> str:
        return f"Secrets(key_file={str(self._key_file)!r})"

    @classmethod
    def for_hub(cls, url: str, environ: Mapping[str, str] | None = None) -> Secrets:
        """The secrets of the hub at ``url`` (a database URL, or the path of a SQLite file)."""
        environ = os.environ if environ is None else environ
        return cls(_default_key_file(url, environ), environ)

    def encrypt(self, clear: str) -> str:
        """``clear`` as a token to store.

        Raises:
            ConfigInvalid: the key cannot be read or made.
        """
        self._seen.add(clear)
        return self._keys(create=True, owner="").encrypt(clear.encode()).decode("ascii")

    def decrypt(self, token: str, owner: str) -> str:
        """The clear text of a stored token; ``owner`` names the object for the error ("link PLANT").

        Raises:
            ConfigInvalid: no key, or not the key it was encrypted with.
        """
        from cryptography.fernet import InvalidToken

        cipher = self._keys(create=False, owner=owner)
        try:
            clear = cipher.decrypt(token.encode("ascii", "replace")).decode()
        except InvalidToken:
            raise ConfigInvalid(
                f"the stored secret of {owner} cannot be decrypted",
                cause=f"the key in {self._origin} is not the one it was encrypted with",
                cure=f"set MGW_SECRET_KEY to the former key (several: new,old){_anew(owner)}",
            ) from None
        self._seen.add(clear)
        return clear

    def remember(self, *clear: str | None) -> None:
        """Let :meth:`redact` hide these as well."""
        self._seen.update(filter(None, clear))

    def show(self, *names: str | None) -> None:
        """Let :meth:`redact` leave these user names: a password that is the same word is hidden only where it is given
        as a password, or nobody could read whose login failed."""
        self._shown.update(filter(None, names))

    def redact(self, text: str) -> str:
        """``text`` without any secret seen so far; see :func:`redact`."""
        return redact(text, self._seen - self._shown)

    def rotate(self, token: str, owner: str) -> str:
        """The token encrypted again with the first key.

        Raises:
            ConfigInvalid: as :meth:`decrypt`.
        """
        return self.encrypt(self.decrypt(token, owner))

    def _keys(self, *, create: bool, owner: str) -> MultiFernet:
        if self._cipher is None:
            from cryptography.fernet import Fernet, MultiFernet

            keys, self._origin = self._read_keys(create=create, owner=owner)
            self._cipher = MultiFernet([Fernet(key) for key in keys])
        return self._cipher

    def _read_keys(self, *, create: bool, owner: str) -> tuple[list[bytes], str]:
        if given := self._environ.get("MGW_SECRET_KEY", "").strip():
            return _parse_keys(given.split(","), "MGW_SECRET_KEY"), "MGW_SECRET_KEY"
        if named := self._environ.get("MGW_SECRET_KEY_FILE", "").strip():
            return _parse_keys(_read_text(Path(named), "MGW_SECRET_KEY_FILE").splitlines(), named), named
        path = self._key_file
        if path is not None and (path.exists() or create):
            if not path.exists():
                _make_key_file(path)
            _check_mode(path)
            return _parse_keys(_read_text(path, "secret key file").splitlines(), str(path)), str(path)
        raise ConfigInvalid(
            f"the stored secret of {owner} cannot be decrypted" if owner else "a secret cannot be stored",
            cause="there is no secret key" + (f": {path} does not exist" if path is not None else ""),
            cure=f"set MGW_SECRET_KEY or MGW_SECRET_KEY_FILE, or put the key file back from the backup{_anew(owner)}",
        )


def _anew(owner: str) -> str:
    """The way out where the key is lost for good."""
    kind, _, name = owner.partition(" ")
    return f"; if it is lost: mgw links alter {name} --password-file FILE" if kind == "link" else ""


def _default_key_file(url: str, environ: Mapping[str, str]) -> Path | None:
    address = make_url(url) if "://" in url else None
    if address is None or address.get_backend_name() == "sqlite":
        database = address.database if address is not None else url
        return Path(f"{database}.key") if database not in {None, "", ":memory:"} else None
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    if base:
        return Path(base) / "mgw" / "secret.key"
    home = environ.get("HOME", "").strip()
    return Path(home) / ".config" / "mgw" / "secret.key" if home else None


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
    key = base64.urlsafe_b64encode(os.urandom(32)) + b"\n"
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
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigInvalid(
            f"secret key file {path} cannot be created",
            cause=error.strerror or type(error).__name__,
            cure="make the folder writable, or set MGW_SECRET_KEY",
        ) from error
