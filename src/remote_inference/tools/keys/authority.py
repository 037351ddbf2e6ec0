# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fleet's certificate authority: one key signs one certificate per member.

The access control list identifies a member by its certificate's common name. Only a router's certificate may
be used to listen, so no robot can pose as a router.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from remote_inference.base.errors import UserError

CERTIFICATE_FILE = "ca.pem"
KEY_FILE = "ca_key.pem"
BACKDATED = datetime.timedelta(hours=1)  # a robot's clock may lag


@dataclass(frozen=True)
class Authority:
    """The key that signs and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> bytes:
        """The authority's certificate in PEM; every member needs it to recognise the others."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, name: str, now: datetime.datetime, lifetime: datetime.timedelta, hosts: Sequence[str] = ()
    ) -> tuple[bytes, bytes]:
        """Return a new key and certificate in PEM, valid no longer than the authority's own.

        hosts: names and addresses at which others dial a router; empty for every other role.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(now + lifetime, valid_until(self.certificate))
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(name, key, now, until)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return key_pem(key, None), certificate.public_bytes(serialization.Encoding.PEM)


def create_authority(name: str, now: datetime.datetime, lifetime: datetime.timedelta) -> Authority:
    """Return a new, self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, key, now, now + lifetime)
        .issuer_name(_name(name))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def load_authority(folder: Path, ask_passphrase: Callable[[], bytes], now: datetime.datetime) -> Authority:
    """Read an authority that can sign.

    ask_passphrase: called if the key is encrypted. Raises UserError if a file is missing, unreadable or
    malformed, if key and certificate do not match, if the passphrase is wrong or the certificate has expired.
    """
    certificate = read_certificate(folder / CERTIFICATE_FILE)
    key = _read_key(folder / KEY_FILE, ask_passphrase)
    if key.public_key() != certificate.public_key():
        raise UserError(f"{folder / KEY_FILE}: found a key that does not match {CERTIFICATE_FILE}")
    if now >= (until := valid_until(certificate)):
        expired = f"{until:%Y-%m-%d}"
        raise UserError(f"{folder / CERTIFICATE_FILE}: expired on {expired}, expected a valid authority")
    return Authority(key, certificate)


def read_certificate(path: Path) -> x509.Certificate:
    """Return a certificate. Raises UserError for a file that is missing, unreadable or malformed."""
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise UserError(f"{path}: found no certificate, expected one in PEM") from error


def valid_until(certificate: x509.Certificate) -> datetime.datetime:
    """Return when a certificate expires, in UTC."""
    if hasattr(certificate, "not_valid_after_utc"):
        return certificate.not_valid_after_utc
    return certificate.not_valid_after.replace(tzinfo=datetime.timezone.utc)  # cryptography below 42


def _read_key(path: Path, ask_passphrase: Callable[[], bytes]) -> ec.EllipticCurvePrivateKey:
    content = _read(path)
    is_encrypted = b"ENCRYPTED" in content
    try:
        key = serialization.load_pem_private_key(content, ask_passphrase() if is_encrypted else None)
    except (ValueError, TypeError) as error:  # TypeError: the passphrase is empty
        found = "a key that this passphrase does not open" if is_encrypted else "no key"
        raise UserError(f"{path}: found {found}, expected a private key in PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{path}: found another kind of key, expected one on an elliptic curve")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, now: datetime.datetime, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> bytes:
    """Return a key in PEM, encrypted if a passphrase is given."""
    encryption = (
        serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
