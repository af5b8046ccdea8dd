"""The TLS set-up of a Kafka link."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.open_files import shortage

__all__ = ["handshake_cure", "tls_context"]

_FILES = ("tls_ca_file", "tls_cert_file", "tls_key_file")


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
        files = ", ".join(attributes[name] for name in _FILES if attributes[name])
        raise ConfigInvalid(
            f"link {link}: the TLS files cannot be used",
            cause=f"{files}: {error}",
            cure="check tls_ca_file, tls_cert_file and tls_key_file",
        ) from error
    return context


_NO_TLS = (
    "EOF occurred",
    "UNEXPECTED_EOF",
    "WRONG_VERSION_NUMBER",
    "wrong version number",
    "RECORD_LAYER",
    "packet length too long",
    "Disconnected",
    "Connection reset",
    "timed out",
)


def handshake_cure(reason: str) -> str:
    """What to do after a TLS handshake failed for ``reason``, the text of the error."""
    if "certificate required" in reason.lower() or "CERTIFICATE_REQUIRED" in reason or "handshake failure" in reason:
        return "set tls_cert_file and tls_key_file to a certificate that the listener accepts"
    if any(sign in reason for sign in _NO_TLS):
        return (
            "check whether this listener speaks TLS: set bootstrap_servers to the port of one that does, or "
            "security_protocol to PLAINTEXT or SASL_PLAINTEXT; some listeners end the connection like this when "
            "tls_cert_file is missing"
        )
    if "Hostname mismatch" in reason or "IP address mismatch" in reason:
        return "use the server name of the certificate in bootstrap_servers"
    if "expired" in reason or "not yet valid" in reason:
        return "renew the listener's certificate, or set the clock of this machine"
    return "set tls_ca_file to the authority that signed the listener's certificate"
