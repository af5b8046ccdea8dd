"""The TLS set-up of a Kafka link."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from transforms.errors import ConfigInvalid
from transforms.openfiles import shortage

__all__ = ["tls_context"]


def tls_context(link: str, attributes: Mapping[str, Any]) -> ssl.SSLContext:
    """The TLS set-up of a link: certificate and host name are always verified.

    Raises:
        ConfigInvalid: a file cannot be read or used.
    """
    try:
        context = ssl.create_default_context(cafile=attributes["tls_ca_file"])
        if attributes["tls_cert_file"]:
            context.load_cert_chain(attributes["tls_cert_file"], attributes["tls_key_file"])
    except (OSError, ssl.SSLError) as error:
        if shortage(error, guess=False):
            raise
        raise ConfigInvalid(
            f"link {link}: the TLS files cannot be used",
            cause=str(error),
            cure="check tls_ca_file, tls_cert_file and tls_key_file",
        ) from error
    return context
