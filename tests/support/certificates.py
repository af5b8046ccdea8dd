"""A certificate authority of the tests' own, with a server certificate for localhost and a client certificate."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates"]

_VALID = dt.timedelta(days=7)


class Certificates:
    """PEM files below ``folder``, made at once and valid for a week.

    ``ca``: the authority's certificate; ``server``/``server_key``: for localhost and 127.0.0.1; ``client`` and
    ``client_key``: common name ``mgw-client``; ``other_ca``: an authority that signed none of them.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ca = folder / "ca.pem"
        self.other_ca = folder / "other-ca.pem"
        self.server = folder / "server.pem"
        self.server_key = folder / "server-key.pem"
        self.client = folder / "client.pem"
        self.client_key = folder / "client-key.pem"
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = _authority("MGW test authority", authority_key)
        self.ca.write_bytes(_pem(authority))
        self.other_ca.write_bytes(_pem(_authority("Another authority", ec.generate_private_key(ec.SECP256R1()))))
        for path, key_path, name, usage in (
            (self.server, self.server_key, "localhost", ExtendedKeyUsageOID.SERVER_AUTH),
            (self.client, self.client_key, "mgw-client", ExtendedKeyUsageOID.CLIENT_AUTH),
        ):
            key = ec.generate_private_key(ec.SECP256R1())
            path.write_bytes(_pem(_leaf(name, key, usage, authority, authority_key)))
            key_path.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            )
            key_path.chmod(0o600)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _authority(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(subject, key)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _leaf(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    addresses = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        .issuer_name(authority.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
