"""Secrets at rest: the key, what is encrypted with it, and hiding both from texts.

Passwords, and attributes and options that a link calls secret, are stored as Fernet tokens (AES-128-CBC with
HMAC-SHA-256).
The key comes from, in this order:

1. ``MGW_SECRET_KEY``: one or more keys separated by commas; the first encrypts, all decrypt (so keys are rotated),
2. ``MGW_SECRET_KEY_FILE``: a file with one key per line, same meaning,
3. a key file, made with mode 0600 when the first secret is stored: ``<hub>.key`` next to a SQLite hub,
   ``$XDG_CONFIG_HOME/mgw/secret.key`` (``~/.config/mgw/secret.key``) for another database.

A key is 32 random bytes in base64, as ``openssl rand -base64 32`` prints them. A token has the id of its key.
A file of keys is read again when a key is missing, and before a secret is stored: a running process learns of a new key
without a restart. :mod:`mgw.gateway.services.key_rotation` changes keys.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sqlalchemy import make_url

from mgw.gateway.state.keys import KeySource, NoKey
from mgw.transforms.errors import ConfigInvalid

__all__ = ["HIDDEN", "Secrets", "redact"]

HIDDEN = "***"
_BETWEEN = ":"  # a key id and what is encrypted

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
        self._environ = os.environ if environ is None else environ
        self.keys = KeySource(key_file, self._environ)
        self._ring: Mapping[str, bytes] = {}
        self._seen: set[str] = set()
        self._shown: set[str] = set()

    def __repr__(self) -> str:
        return f"Secrets({self.keys!r})"

    @classmethod
    def for_hub(cls, url: str, environ: Mapping[str, str] | None = None) -> Secrets:
        """The secrets of the hub at ``url`` (a database URL, or the path of a SQLite file)."""
        environ = os.environ if environ is None else environ
        return cls(_default_key_file(url, environ), environ)

    def encrypt(self, clear: str) -> str:
        """``clear`` as a token to store, encrypted with the key that is the first one now.

        Raises:
            ConfigInvalid: the key cannot be read or made.
        """
        from cryptography.fernet import Fernet

        self._seen.add(clear)
        self._ring = self.keys.read(create=True)
        first = next(iter(self._ring))
        return f"{first}{_BETWEEN}{Fernet(self._ring[first]).encrypt(clear.encode()).decode('ascii')}"

    def decrypt(self, token: str, owner: str) -> str:
        """The clear text of a stored token; ``owner`` names the object for the error ("link PLANT").

        Raises:
            ConfigInvalid: no key, or not the key it was encrypted with.
        """
        clear = self._decrypted(token)
        if clear is None:  # another process may have changed the key
            self._ring = self._read(owner)
            clear = self._decrypted(token)
        if clear is None:
            wanted, known = _parts(token)[0], ", ".join(self._ring)
            told = f"it was encrypted with key {wanted}, and the keys in {self.keys.name} are {known}" if wanted else ""
            raise ConfigInvalid(
                f"the stored secret of {owner} cannot be decrypted",
                cause=told or f"the key in {self.keys.name} is not the one it was encrypted with",
                cure=f"set MGW_SECRET_KEY to the former key (several: new,old){_anew(owner)}",
            )
        self._seen.add(clear)
        return clear

    def key_of(self, token: str) -> str | None:
        """Id of the key with which this can be read; None: none of those that are there now.

        Raises:
            ConfigInvalid: the keys cannot be read.
        """
        self._ring = self._read("the hub")
        return next((known for known in self._ring if self._decrypted(token, known) is not None), None)

    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys that secrets can be read with now, the one that encrypts first; empty where there is none.

        Raises:
            ConfigInvalid: the keys cannot be read.
        """
        return tuple(self.keys.read_if_there())

    def _read(self, owner: str) -> Mapping[str, bytes]:
        try:
            return self.keys.read(create=False)
        except NoKey as error:
            raise ConfigInvalid(
                f"the stored secret of {owner} cannot be decrypted",
                cause=error.cause,
                cure=f"{error.cure}{_anew(owner)}",
            ) from None

    def _decrypted(self, token: str, only: str | None = None) -> str | None:
        """With the keys that were last read, or one of them."""
        from cryptography.fernet import Fernet, InvalidToken

        wanted, secret = _parts(token)
        for known, key in self._ring.items():
            if (wanted and known != wanted) or (only and known != only):
                continue
            with contextlib.suppress(InvalidToken, UnicodeDecodeError):
                return Fernet(key).decrypt(secret.encode("ascii", "replace")).decode()
        return None

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


def _parts(token: str) -> tuple[str, str]:
    """Id of the key, empty for a token of an older release, and what is encrypted."""
    found, between, secret = token.partition(_BETWEEN)
    return (found, secret) if between else ("", token)


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
