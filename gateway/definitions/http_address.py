"""Where a running agent answers over HTTP: ``HOST:PORT``, ``auto`` or ``off``."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from mgw.transforms.errors import ConfigInvalid

__all__ = ["DEFAULT_HTTP", "HttpAddress", "behind_a_proxy", "chosen"]

ADDRESS_VARIABLE = "MGW_HTTP"
PROXY_VARIABLE = "MGW_HTTP_BEHIND_PROXY"

DEFAULT_PORT = 8787
DEFAULT_HTTP = f"127.0.0.1:{DEFAULT_PORT}"
AUTO_PORTS = 100  # how many ports `auto` tries


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """An address to listen on.

    Attributes:
        ports: those that may be taken, the first that is free.
        proxied: whether callers come through a proxy, or from outside of a container.
    """

    host: str
    ports: range
    proxied: bool = False

    @property
    def shown(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.ports[0]}"

    @classmethod
    def parse(cls, text: str, *, behind_proxy: bool = False) -> HttpAddress | None:
        """The address behind ``HOST:PORT``, ``PORT`` or ``auto``; None for ``off``.

        Raises:
            ConfigInvalid: the text is not an address, or not one of this machine alone and ``behind_proxy`` is not set.
        """
        word = text.strip()
        if word.lower() == "off":
            return None
        if word.lower() == "auto":
            return cls("127.0.0.1", range(DEFAULT_PORT, DEFAULT_PORT + AUTO_PORTS), behind_proxy)
        host, _, digits = word.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
        port = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 5 else 0
        if not 1 <= port <= 65535:
            raise ConfigInvalid(
                f"HTTP address {text!r} cannot be used",
                cause="it is not HOST:PORT with a port from 1 to 65535",
                cure=f"write {DEFAULT_HTTP}, auto (the next free port) or off",
            )
        if not behind_proxy and not _is_loopback(host):
            raise ConfigInvalid(
                f"HTTP address {text!r} is refused",
                cause="other machines could reach it, and there is no authentication",
                cure=f"use {DEFAULT_HTTP}; or, behind a proxy or in a container of its own, set behind_proxy: true "
                f"under settings.http, or {PROXY_VARIABLE}=true",
            )
        return cls(host, range(port, port + 1), behind_proxy)


def chosen(
    option: str | None, environ: Mapping[str, str], listen: str = DEFAULT_HTTP, *, behind_proxy: bool = False
) -> HttpAddress | None:
    """The address of the command line, else of the environment, else of the configuration file; None: off.

    Raises:
        ConfigInvalid: as :meth:`HttpAddress.parse`, or the variable is neither true nor false.
    """
    proxied = behind_a_proxy(environ, behind_proxy)
    return HttpAddress.parse(option or environ.get(ADDRESS_VARIABLE) or listen, behind_proxy=proxied)


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
