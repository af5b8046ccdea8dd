"""The TLS set-up of a Kafka link."""

from __future__ import annotations

from mgw.links.tls import Context, Tls, cure_for
from mgw.transforms.errors import ConfigInvalid, LinkRefused

__all__ = ["handshake_cure", "tls_context"]


def tls_context(tls: Tls, place: str) -> Context:
    """The TLS set-up of a link, from the files as they are now.

    Raises:
        ConfigInvalid: a file cannot be read or used.
    """
    try:
        return tls.context(place)
    except LinkRefused as error:
        raise ConfigInvalid(error.what, cause=error.cause, cure=error.cure) from error


def handshake_cure(reason: str) -> str:
    """What to do after a TLS handshake failed for ``reason``, the text of the error."""
    no_tls = (
        "check whether this listener speaks TLS: set bootstrap_servers to the port of one that does, or "
        "security_protocol to PLAINTEXT or SASL_PLAINTEXT"
    )
    return cure_for(reason, host="bootstrap_servers", no_tls=no_tls)
