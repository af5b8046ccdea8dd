"""What keeps a connection to an MQTT broker from being made, in the gateway's terms."""

from __future__ import annotations

import socket
import ssl

from mgw.links.mqtt.codec import reason_text
from mgw.links.mqtt.settings import Settings
from mgw.links.tls import cause_of, cure_for
from mgw.transforms.errors import LinkError, LinkRefused, LinkUnavailable
from mgw.transforms.open_files import shortage

__all__ = ["closed_early", "refused", "translate", "unavailable"]

_NO_TLS = "check whether the port is a TLS listener"


def refused(settings: Settings, code: int) -> LinkError:
    """The broker refused the login with this reason code."""
    name = "5" if settings.version >= 5 else "3.1.1"
    what = f"link {settings.link}: the broker at {settings.place} refused the login"
    cause = reason_text(code)
    cure = "check the broker's log"
    kind: type[LinkError] = LinkRefused
    if code in (0x86, 0x87):
        user = f"user {settings.username!r}" if settings.username else "a client without user name"
        cause += f" for {user}"
        cure = "check user name and password of the link, and the broker's password file and access rules"
    elif code in (0x84, 0x82):
        cause = f"the broker does not speak MQTT {name} [{cause}]"
        cure = f"set protocol_version to {4 if settings.version >= 5 else 5}"
    elif code == 0x85:
        cure = "set client_id_prefix to what the broker's rules allow"
    elif code in (0x88, 0x89, 0x8B, 0x97, 0x9F):
        kind = LinkUnavailable
    return kind(what, link=settings.link, operation="connect", cause=cause, cure=cure)


def closed_early(settings: Settings) -> LinkUnavailable:
    """The broker closed the connection before it answered the login."""
    other = "without" if settings.tls.on else "with"
    certificate = "whether the broker requires another client certificate (tls_cert_file), " if settings.tls.on else ""
    return unavailable(
        settings,
        "it closed the connection before it answered the login",
        f"check {certificate}whether the port is a listener {other} TLS, and whether the broker speaks MQTT "
        f"{'5' if settings.version >= 5 else '3.1.1'} (protocol_version); the broker's log says more",
    )


def unavailable(settings: Settings, cause: str, cure: str = "") -> LinkUnavailable:
    """There is no connection, for this cause."""
    return LinkUnavailable(
        f"link {settings.link}: no connection to {settings.place}",
        link=settings.link,
        operation="connect",
        cause=cause,
        cure=cure or "check that the broker runs, and hostname and port of the link",
    )


def translate(error: Exception, settings: Settings) -> LinkError:
    """What went wrong while a connection was made, from an error of the socket or of TLS."""
    if found := shortage(error, guess=not isinstance(error, ssl.SSLError)):
        return unavailable(settings, *found)
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkRefused(
            f"link {settings.link}: the certificate of {settings.place} is not trusted",
            link=settings.link,
            operation="connect",
            cause=cause_of(error),
            cure=cure_for(cause_of(error), host="hostname", no_tls=_NO_TLS),
        )
    if isinstance(error, ssl.SSLError):
        return LinkRefused(
            f"link {settings.link}: no TLS connection to {settings.place}",
            link=settings.link,
            operation="connect",
            cause=cause_of(error),
            cure=cure_for(cause_of(error), host="hostname", no_tls=_NO_TLS),
        )
    if isinstance(error, socket.gaierror):
        return unavailable(settings, f"the name {settings.host!r} cannot be resolved", "check hostname of the link")
    cause = f"its answer cannot be understood: {type(error).__name__}: {error}"
    if isinstance(error, TimeoutError):
        cause = f"no answer within {settings.connect_timeout:g} s"
    elif isinstance(error, OSError):
        cause = error.strerror or str(error)
    return unavailable(settings, cause)
