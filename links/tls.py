"""TLS of links: the same attributes with the same meaning for every messaging system.

The files are read each time a set-up is asked for, which every connection does: a renewed certificate is used by the
next connection, without a restart.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mgw.links.contract import Field
from mgw.transforms.errors import ConfigInvalid, LinkRefused
from mgw.transforms.open_files import shortage

__all__ = ["Context", "Tls", "alert_in", "cause_of", "cure_for", "tls_fields"]

_LOGGER = logging.getLogger("mgw.links.tls")


def tls_fields(switch: Field, host: str) -> tuple[Field, ...]:
    """The attributes of a link that concern TLS.

    Args:
        switch: the one that turns it on.
        host: the attribute that names the broker.
    """
    return (
        switch,
        Field(
            "tls_ca_file",
            "PEM file of the certificate authorities to trust; default: the system's. All TLS files are read again at "
            "every connect.",
        ),
        Field("tls_cert_file", "PEM file of the client certificate, if the broker requires one, with its chain."),
        Field("tls_key_file", "PEM file of the client certificate's key; default: tls_cert_file holds it, too."),
        Field("tls_key_password", "Password of the key, if it is encrypted.", secret=True),
        Field(
            "tls_verify",
            "Verify the broker's certificate and its name. FALSE accepts any certificate, so somebody in between can "
            "read everything, the login included; it is logged at every connect and shown with the link.",
            bool,
            True,
            shown=True,
        ),
        Field(
            "tls_server_name",
            f"Name that the broker's certificate must have, also told to the broker (SNI); default: {host}.",
            shown=True,
        ),
    )


class Context(ssl.SSLContext):
    """A set-up that checks, and tells the broker, one name whatever host a client connects to."""

    server_name: str | None = None

    def wrap_socket(self, *args: Any, server_hostname: Any = None, **more: Any) -> ssl.SSLSocket:
        """See :meth:`ssl.SSLContext.wrap_socket`."""
        more["server_hostname"] = self.server_name or server_hostname
        return super().wrap_socket(*args, **more)


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS attributes of a link."""

    link: str
    on: bool
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    server_name: str | None = None

    @classmethod
    def of(cls, link: str, attributes: Mapping[str, Any], *, on: bool) -> Tls:
        """From parsed attributes.

        Raises:
            ConfigInvalid: a key without a certificate.
        """
        if attributes["tls_key_file"] and not attributes["tls_cert_file"]:
            raise ConfigInvalid(
                f"link {link}: tls_key_file is given without tls_cert_file",
                cause="a key alone proves nothing",
                cure="set tls_cert_file to the certificate of this key, or leave both out",
            )
        names = ("ca_file", "cert_file", "key_file", "key_password", "server_name")
        found = {name: attributes[f"tls_{name}"] or None for name in names}
        return cls(link, on, verify=attributes["tls_verify"], **found)

    @property
    def state(self) -> str:
        """In words: on, off, or on without verification."""
        if not self.on:
            return "without TLS"
        return "with TLS, certificate verified" if self.verify else "with TLS, certificate NOT verified"

    def context(self, place: str, *, named: bool = True) -> Context:
        """The set-up, from the files as they are now; ``place`` is the broker, for the warning where nothing is
        verified. ``named`` False: tls_server_name does not concern what is connected to.

        Raises:
            LinkRefused: a file cannot be read or used.
            OSError: no more files can be opened.
        """
        context = Context(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.server_name = self.server_name if named else None
        if not self.verify:
            _LOGGER.warning(
                "link %s: the certificate of %s is not verified; cause: tls_verify is FALSE; cure: set it to TRUE, and "
                "tls_ca_file to the authority that signed the certificate",
                self.link,
                place,
            )
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.ca_file:
            self._read("tls_ca_file", self.ca_file)
            self._load("tls_ca_file", self.ca_file, lambda: context.load_verify_locations(self.ca_file))
        elif self.verify:
            context.load_default_certs()
        self.show_own(context)
        return context

    def show_own(self, context: ssl.SSLContext) -> None:
        """Load the client certificate, where the link has one.

        Raises:
            LinkRefused: a file cannot be read or used.
        """
        if self.cert_file:
            self._load_own(context, self.cert_file)

    def _load_own(self, context: ssl.SSLContext, file: str) -> None:
        self._read("tls_cert_file", file)
        if self.key_file:
            self._read("tls_key_file", self.key_file)
        shown = f"{file}, {self.key_file}" if self.key_file else file
        # Without a password of ours, OpenSSL would ask for one on the terminal.
        password = self.key_password or ""
        self._load("tls_cert_file", shown, lambda: context.load_cert_chain(file, self.key_file, lambda: password))

    def _read(self, name: str, file: str) -> None:
        """See that a file can be read: what OpenSSL says later does not tell which it is."""
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            if shortage(error, guess=False):
                raise
            cure = f"set {name} to a PEM file that the agent's user may read, or correct its permissions"
            raise self._unusable(f"{file}: {error.strerror or error}", cure) from error

    def _load(self, name: str, shown: str, load: Any) -> None:
        try:
            load()
        except (OSError, ValueError) as error:
            if shortage(error, guess=False):
                raise
            cause, cure = self._meant(name, error)
            raise self._unusable(f"{shown}: {cause}", cure) from error

    def _meant(self, name: str, error: Exception) -> tuple[str, str]:
        reason = str(getattr(error, "reason", "") or error)
        if name == "tls_ca_file":
            return f"no certificate of an authority is there ({reason})", "set tls_ca_file to a PEM file with some"
        if "KEY_VALUES_MISMATCH" in reason or "key values mismatch" in reason:
            return "the key does not belong to the certificate", "set tls_key_file to the key of tls_cert_file"
        if self._encrypted():
            told = "is not the password of the key" if self.key_password else "is missing, and the key is encrypted"
            return f"tls_key_password {told}", "set tls_key_password to the password of the key"
        if not self.key_file:
            return f"no certificate with its key is there ({reason})", "set tls_key_file to the key of tls_cert_file"
        cure = "check tls_cert_file and tls_key_file: PEM files of a certificate and of its key"
        return f"no certificate, or no key, is there ({reason})", cure

    def _encrypted(self) -> bool:
        """Whether the key is; OpenSSL does not say that its password is the trouble."""
        text = Path(self.key_file or self.cert_file or "").read_bytes()
        return b"BEGIN ENCRYPTED PRIVATE KEY" in text or b"Proc-Type: 4,ENCRYPTED" in text

    def _unusable(self, cause: str, cure: str) -> LinkRefused:
        what = f"link {self.link}: the TLS files cannot be used"
        return LinkRefused(what, link=self.link, operation="connect", cause=cause, cure=cure)


_ALERT: Final = re.compile(r"\[SSL: (\w*ALERT\w*)\]")


def alert_in(text: str) -> str:
    """What the broker said about our certificate after the handshake, by the text of an error of a client library;
    empty if it said nothing."""
    found = _ALERT.search(text)
    return found[1] if found else ""


def cause_of(error: BaseException) -> str:
    """Why a handshake failed, in the words of the library."""
    return str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error)


#: What a broker says about our certificate, by a part of the text of the error, with the cure.
_ABOUT_OURS: Final = (
    (
        ("certificate required", "handshake failure"),
        "set tls_cert_file and tls_key_file to a certificate that the broker accepts: it requires one",
    ),
    (("alert certificate expired",), "renew the certificate in tls_cert_file: it has expired"),
    (
        ("alert unknown ca", "alert bad certificate", "alert certificate unknown", "alert unsupported certificate"),
        "set tls_cert_file to a valid certificate of an authority that the broker trusts, and tls_key_file to its key",
    ),
)
_NO_TLS: Final = (
    "eof occurred",
    "unexpected eof",
    "wrong version number",
    "record layer",
    "packet length too long",
    "disconnected",
    "connection reset",
    "timed out",
)


def cure_for(reason: str, *, host: str, no_tls: str) -> str:
    """What to do after a TLS handshake failed.

    Args:
        reason: the text of the error.
        host: the attribute that names the broker.
        no_tls: what to do where the port does not speak TLS.
    """
    text = reason.lower().replace("_", " ")
    for signs, cure in _ABOUT_OURS:
        if any(sign in text for sign in signs):
            return cure
    if any(sign in text for sign in _NO_TLS):
        return f"{no_tls}; some brokers end the connection like this when tls_cert_file is missing"
    if "mismatch" in text or "not valid for" in text:
        return f"set tls_server_name to a name in the broker's certificate, or use such a name in {host}"
    if "could not be verified" in text:  # librdkafka says no more
        return (
            "set tls_ca_file to the authority that signed the broker's certificate; if that is right, use a name of "
            f"the certificate in {host}, or client kafka-python with tls_server_name"
        )
    if "expired" in text or "not yet valid" in text:
        return "renew the broker's certificate, or set the clock of this machine"
    return "set tls_ca_file to the authority that signed the broker's certificate"
