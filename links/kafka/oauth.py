"""Tokens for the login OAUTHBEARER: fetched with the client-credentials flow (RFC 6749 §4.4), or read from a file.

A token is fetched again before it ends, by whichever connection asks next; it is never shown.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mgw.links.contract import LinkConfig
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import ConfigInvalid, LinkError, LinkRefused, LinkUnavailable

__all__ = ["Token", "Tokens"]

_LOGGER = logging.getLogger("mgw.links.kafka")

_UNKNOWN_LIFE: Final = 300.0  # seconds that a token counts for when nobody says how long it is valid
_RENEW_AT: Final = 0.8  # of its life
_MOST: Final = 1 << 20  # bytes of an answer
_SECONDS: Final = 10.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token; ``expires`` in epoch seconds."""

    value: str = field(repr=False)
    subject: str
    expires: float


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the client's secret to somewhere else."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Tokens:
    """Where the connections of one link get their token. Any thread may ask.

    Args:
        attributes: of the link, parsed.

    Raises:
        ConfigInvalid: settings that cannot work together.
    """

    def __init__(self, config: LinkConfig, attributes: Mapping[str, Any], clock: Clock = SYSTEM_CLOCK) -> None:
        self._link = config.name
        self._url: str | None = attributes["oauth_token_url"]
        self._file: str | None = attributes["oauth_token_file"]
        self._scope: str | None = attributes["oauth_scope"]
        self._ca_file: str | None = attributes["oauth_ca_file"]
        self._client, self._secret = config.username or "", config.password or ""
        self.extensions = _extensions(config.name, attributes["oauth_extensions"])
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renew = 0.0  # epoch seconds
        self._check()

    def __repr__(self) -> str:
        return f"Tokens({self._link!r}, {self._url or self._file!r})"

    def _check(self) -> None:
        if (self._url is None) == (self._file is None):
            raise self._invalid(
                "needs one of oauth_token_url and oauth_token_file",
                "OAUTHBEARER takes its token from there",
                "set oauth_token_url, or oauth_token_file, not both",
            )
        if self._url is None:
            return
        try:
            url = urllib.parse.urlsplit(self._url)
            host = url.hostname
        except ValueError:
            url, host = urllib.parse.urlsplit(""), None
        if url.scheme not in ("https", "http") or not host or url.username or url.password:
            raise self._invalid(
                "oauth_token_url cannot be used",
                "it is not an address https://host/path without a login",
                "correct it; client id and secret are username and password of the link",
            )
        if url.scheme == "http" and host not in _LOOPBACK:
            raise self._invalid(
                "oauth_token_url is refused",
                "http would send the client's secret unencrypted",
                "use https; oauth_ca_file names the authority to trust",
            )
        if not self._client or not self._secret:
            raise self._invalid(
                "username or password is missing",
                "they are client id and secret at oauth_token_url",
                "set username and password of the link",
            )

    def _invalid(self, what: str, cause: str, cure: str) -> ConfigInvalid:
        return ConfigInvalid(f"link {self._link}: {what}", cause=cause, cure=cure)

    def token(self) -> Token:
        """The token to show now; another one is fetched when the last has lived for four fifths of its time.

        Raises:
            LinkError: none can be had, and the last one has ended.
        """
        with self._lock:
            now = self._clock.now()
            if self._token is not None and now < self._renew:
                return self._token
            try:
                found = self._from_file(now) if self._url is None else self._from_server(self._url, now)
            except LinkError as error:
                if self._token is None or self._token.expires <= now:
                    raise
                _LOGGER.warning("the token in use ends in %.0f s: %s", self._token.expires - now, error)
                return self._token
            self._token, self._renew = found, now + _RENEW_AT * (found.expires - now)
            return found

    def _from_file(self, now: float) -> Token:
        assert self._file is not None  # noqa: S101  checked
        try:
            text = Path(self._file).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            cause = f"{self._file}: {getattr(error, 'strerror', None) or 'it is not a token'}"
            raise self._refused(cause, "set oauth_token_file to a file with a token that the agent may read") from error
        if not text or any(c.isspace() for c in text):
            raise self._refused(f"{self._file} does not hold one token", "write the token alone into that file")
        return self._checked(text, None, now, f"{self._file} holds a token that", "renew the file")

    def _from_server(self, url: str, now: float) -> Token:
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        login = ":".join(urllib.parse.quote(each, safe="") for each in (self._client, self._secret))
        headers = {
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        request = urllib.request.Request(  # noqa: S310  http or https, as checked
            url, urllib.parse.urlencode(form).encode(), headers, method="POST"
        )
        try:
            handler = urllib.request.HTTPSHandler(context=self._context())
            with urllib.request.build_opener(handler, _NoRedirect).open(request, timeout=_SECONDS) as answer:
                told = json.loads(answer.read(_MOST))
            value, life = told["access_token"], told.get("expires_in")
            expires = None if life is None else now + float(life)
            if not isinstance(value, str) or not value.isascii():
                raise TypeError("access_token")
        except urllib.error.HTTPError as error:
            raise self._denied(url, error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(url, error) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._refused(f"{url} answers with something else than a token", "check oauth_token_url") from error
        return self._checked(value, expires, now, f"{url} gave a token that", "check the clocks of both machines")

    def _context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ValueError) as error:
            raise self._refused(f"{self._ca_file}: {error}", "set oauth_ca_file to a PEM file") from error

    def _checked(self, value: str, expires: float | None, now: float, what: str, cure: str) -> Token:
        """The token with what it says of itself, where it is a JSON web token."""
        claims = _claims(value)
        if expires is None:
            end = claims.get("exp")
            expires = float(end) if isinstance(end, int | float) else now + _UNKNOWN_LIFE
        if expires <= now:
            raise self._refused(f"{what} has ended", cure)
        return Token(value, str(claims.get("sub") or self._client or "mgw"), expires)

    def _denied(self, url: str, error: urllib.error.HTTPError) -> LinkError:
        try:
            told = json.loads(error.read(_MOST))
            reason = str(told.get("error_description") or told.get("error"))[:200]
        except (ValueError, AttributeError, OSError):
            reason = error.reason
        cause = f"{url} answers {error.code} ({reason}) to client {self._client!r}"
        if 300 <= error.code < 400:
            return self._refused(f"{cause}; redirects are not followed", "set oauth_token_url to the final address")
        if error.code >= 500 or error.code == 429:
            return self._unavailable(cause, "check the token server")
        return self._refused(cause, "check username (client id), password (secret), oauth_scope and oauth_token_url")

    def _unreachable(self, url: str, error: Exception) -> LinkError:
        inner = getattr(error, "reason", error)
        if isinstance(inner, ssl.SSLError):
            cause = f"{url}: {getattr(inner, 'verify_message', '') or inner.reason or inner}"
            return self._refused(cause, "set oauth_ca_file to the authority that signed the token server's certificate")
        reason = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
        return self._unavailable(f"{url}: {reason}", "check oauth_token_url, and that the token server runs")

    def _refused(self, cause: str, cure: str) -> LinkRefused:
        what = f"link {self._link}: there is no token to log in with"
        return LinkRefused(what, link=self._link, operation="connect", cause=cause, cure=cure)

    def _unavailable(self, cause: str, cure: str) -> LinkUnavailable:
        what = f"link {self._link}: there is no token to log in with"
        return LinkUnavailable(what, link=self._link, operation="connect", cause=cause, cure=cure)


def _claims(value: str) -> Mapping[str, Any]:
    """What a JSON web token says; nothing of a token of another kind. Its signature is for the broker to check."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _extensions(link: str, text: str | None) -> dict[str, str]:
    """``name=value,name=value``."""
    found: dict[str, str] = {}
    for pair in (text or "").split(","):
        name, separator, value = pair.strip().partition("=")
        if not pair.strip():
            continue
        if not separator or not name.isalpha() or name == "auth" or not value.isprintable():
            raise ConfigInvalid(
                f"link {link}: oauth_extensions cannot have {pair.strip()!r}",
                cause="an extension is name=value, its name made of letters",
                cure="write for example logicalCluster=lkc-1,identityPoolId=pool-2",
            )
        found[name] = value
    return found
