"""When the certificates of a link end: the one that it shows, and those of its broker."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from mgw.links.tls import Tls
from mgw.transforms.errors import LinkError

__all__ = ["WARNING_SECONDS", "Certificate", "ShowsCertificates", "certificates_of"]

WARNING_SECONDS = 14 * 86_400.0  # before the end of a certificate, somebody is told

_SECONDS = 5.0  # for the connection to a broker, and for each answer of its handshake


class Certificate(NamedTuple):
    """A certificate as it is now; ``expires`` in epoch seconds."""

    owner: str  # LINK: our own; BROKER
    place: str  # the file; host and port of the broker
    subject: str
    expires: float


@runtime_checkable
class ShowsCertificates(Protocol):
    """A link that can tell of its certificates."""

    def certificates(self) -> Sequence[Certificate]:
        """Those of the link and of the brokers that answer now; empty without TLS. Connects; never raises."""
        ...


def certificates_of(tls: Tls, servers: Iterable[tuple[str, int]]) -> list[Certificate]:
    """See :meth:`ShowsCertificates.certificates`. Nothing is verified: a certificate that has ended is told of, too."""
    if not tls.on:
        return []
    found = [] if tls.cert_file is None else _own(tls.cert_file)
    for host, port in servers:
        found += _broker(tls, host, port)
    return found


def _own(file: str) -> list[Certificate]:
    from cryptography import x509

    try:
        first = x509.load_pem_x509_certificates(Path(file).read_bytes())[0]
    except (OSError, ValueError):
        return []
    return [_told("LINK", file, first)]


def _broker(tls: Tls, host: str, port: int) -> list[Certificate]:
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        tls.show_own(context)
        with (
            socket.create_connection((host, port), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=tls.server_name or host) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
        return [] if der is None else [_told("BROKER", f"{host}:{port}", x509.load_der_x509_certificate(der))]
    except (OSError, ValueError, LinkError):
        return []


def _told(owner: str, place: str, certificate: object) -> Certificate:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)  # noqa: S101  made above
    return Certificate(owner, place, certificate.subject.rfc4514_string(), certificate.not_valid_after_utc.timestamp())
