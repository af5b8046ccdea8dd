"""A certificate authority of the tests' own, with a server certificate for localhost and a client certificate."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
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
    ``client_key``: common name ``mgw-client``; ``other_ca``: an authority that signed none of them, unless
    :meth:`issue` is told to let it.
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
        other_key = ec.generate_private_key(ec.SECP256R1())
        other = _authority("Another authority", other_key)
        self.other_ca.write_bytes(_pem(other))
        self.folder = folder
        self._authorities = {False: (authority, authority_key), True: (other, other_key)}
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

    def issue(
        self,
        name: str,
        *,
        names: Sequence[str] = (),
        valid: dt.timedelta = _VALID,
        password: str | None = None,
        other: bool = False,
        server: bool = False,
    ) -> tuple[Path, Path]:
        """Another certificate and its key, in files of this name; those that were there are replaced.

        Args:
            names: host names that it is valid for.
            valid: how long from now; less than nothing: until then, it has expired.
            password: encrypts the key.
            other: the authority ``other_ca`` signs it.
            server: it is for a server.
        """
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        key = ec.generate_private_key(ec.SECP256R1())
        made = _leaf(name, key, usage, *self._authorities[other], names=names, valid=valid)
        path, key_path = self.folder / f"{name}.pem", self.folder / f"{name}-key.pem"
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        for file, content in ((path, _pem(made)), (key_path, text)):
            file.write_bytes(content)
            file.chmod(0o600)
        return path, key_path


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, valid: dt.timedelta = _VALID
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1) + min(valid, dt.timedelta()))
        .not_valid_after(now + valid)
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
    *,
    names: Sequence[str] = (),
    valid: dt.timedelta = _VALID,
) -> x509.Certificate:
    addresses: list[x509.GeneralName] = [x509.DNSName(each) for each in names or ("localhost",)]
    if not names:
        addresses.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    return (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, valid)
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
