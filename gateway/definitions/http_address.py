"""Where a process answers over HTTP: ``HOST:PORT``, ``auto`` or ``off``; and who can reach it there."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mgw.transforms.errors import ConfigInvalid

__all__ = ["DEFAULT_HTTP", "HttpAddress", "behind_a_proxy", "certificate_of", "chosen"]

ADDRESS_VARIABLE = "MGW_HTTP"
PROXY_VARIABLE = "MGW_HTTP_BEHIND_PROXY"
CERTIFICATE_VARIABLE, KEY_VARIABLE = "MGW_HTTP_CERTIFICATE_FILE", "MGW_HTTP_KEY_FILE"

DEFAULT_PORT = 8787
DEFAULT_HTTP = f"127.0.0.1:{DEFAULT_PORT}"
AUTO_PORTS = 100  # how many ports `auto` tries


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """An address to listen on.

    Attributes:
        ports: those that may be taken, the first that is free.
        proxied: whether callers come through a proxy, or from outside of a container.
        certificate: files of a certificate and of its key; None: no TLS.
    """

    host: str
    ports: range
    proxied: bool = False
    certificate: tuple[Path, Path] | None = None

    @property
    def local(self) -> bool:
        """Whether only programs of this machine can reach it."""
        return not self.proxied and _is_loopback(self.host)

    @property
    def everywhere(self) -> bool:
        """Whether it is every address of this machine: nobody can go to it as it is written."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.ports[0]}"

    @classmethod
    def parse(
        cls, text: str, *, behind_proxy: bool = False, certificate: tuple[Path, Path] | None = None
    ) -> HttpAddress | None:
        """The address behind ``HOST:PORT``, ``PORT`` or ``auto``; None for ``off``.

        Raises:
            ConfigInvalid: the text is not an address; or not one of this machine alone, and there is neither a
                certificate nor ``behind_proxy``.
        """
        word = text.strip()
        if word.lower() == "off":
            return None
        if word.lower() == "auto":
            return cls("127.0.0.1", range(DEFAULT_PORT, DEFAULT_PORT + AUTO_PORTS), behind_proxy, certificate)
        host, _, digits = word.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
        if not 1 <= port <= 65535:
            raise ConfigInvalid(
                f"HTTP address {text!r} cannot be used",
                cause="it is not HOST:PORT with a port from 1 to 65535",
                cure=f"write {DEFAULT_HTTP}, auto (the next free port) or off",
            )
        if not behind_proxy and certificate is None and not _is_loopback(host):
            raise ConfigInvalid(
                f"HTTP address {text!r} is refused",
                cause="other machines could reach it, and there is no TLS",
                cure=f"use {DEFAULT_HTTP}; or set certificate_file and key_file under settings.http; or, behind a "
                f"proxy or in a container of its own, set behind_proxy: true, or {PROXY_VARIABLE}=true",
            )
        return cls(host, range(port, port + 1), behind_proxy, certificate)


def chosen(
    option: str | None,
    environ: Mapping[str, str],
    listen: str = DEFAULT_HTTP,
    *,
    behind_proxy: bool = False,
    certificate_file: str | None = None,
    key_file: str | None = None,
) -> HttpAddress | None:
    """The address of the command line, else of the environment, else of the configuration file; None: off.

    Raises:
        ConfigInvalid: as :meth:`HttpAddress.parse`; the variable is neither true nor false; of certificate and key
            one is missing.
    """
    proxied = behind_a_proxy(environ, behind_proxy)
    pair = certificate_of(environ, certificate_file, key_file)
    text = option or environ.get(ADDRESS_VARIABLE) or listen
    return HttpAddress.parse(text, behind_proxy=proxied, certificate=pair)


def certificate_of(
    environ: Mapping[str, str], certificate_file: str | None, key_file: str | None
) -> tuple[Path, Path] | None:
    """The files of a certificate and of its key: as the environment says, or else the configuration file; None: no TLS.

    Raises:
        ConfigInvalid: one of them is missing.
    """
    files = (environ.get(CERTIFICATE_VARIABLE) or certificate_file, environ.get(KEY_VARIABLE) or key_file)
    if (files[0] is None) != (files[1] is None):
        raise ConfigInvalid(
            "the web face cannot use TLS",
            cause="of certificate_file and key_file one is missing",
            cure="set both under settings.http, or neither",
        )
    return None if files[0] is None or files[1] is None else (Path(files[0]), Path(files[1]))


def behind_a_proxy(environ: Mapping[str, str], configured: bool) -> bool:
    """Whether other machines may reach the address: the environment says so, or else the configuration file.

    Raises:
        ConfigInvalid: the variable is neither true nor false.
    """
    word = environ.get(PROXY_VARIABLE, "").strip().lower()
    if word not in ("", "true", "false"):
        raise ConfigInvalid(
            f"{PROXY_VARIABLE} cannot be {word!r}", cause="it is neither true nor false", cure="set it to true or false"
        )
    return word == "true" if word else configured


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
