"""The address on which a running agent answers over HTTP, for the faces that open and use it."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.gateway.config.models import SettingsModel
from mgw.gateway.definitions.http_address import HttpAddress, chosen

__all__ = ["HttpAddress", "http_address"]


def http_address(option: str | None, environ: Mapping[str, str], settings: SettingsModel | None) -> HttpAddress | None:
    """The address of the command line, else of the environment, else of the configuration file; None: off.

    Raises:
        ConfigInvalid: it cannot be used, or not without TLS or ``behind_proxy``.
    """
    http = (settings or SettingsModel()).http
    return chosen(
        option,
        environ,
        http.listen,
        behind_proxy=http.behind_proxy,
        certificate_file=http.certificate_file,
        key_file=http.key_file,
    )
