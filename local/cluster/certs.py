"""The cluster's certificate authority, the certificates it issues and the kubeconfigs that use them.

A real authority, since clients inside Pods check the API server against it. Files are kept as long as they are right:
issued by this authority, for the wanted names, valid for another month.
"""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.files import write_private

_CA_YEARS = 10
_LEAF_DAYS = 365
_RENEW_DAYS = 30


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A certificate wanted: who it is for and where it may be shown."""

    name: str
    """File name without ending."""
    common_name: str
    """User name to Kubernetes, or the server's name."""
    organization: str = ""
    """Group to Kubernetes; "" for none."""
    dns_names: tuple[str, ...] = ()
    addresses: tuple[IPv4Address, ...] = ()

    @property
    def is_server(self) -> bool:
        """Whether anything is to be served with it."""
        return bool(self.dns_names or self.addresses)


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority kept in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.pair = KeyPair(folder / "ca.crt", folder / "ca.key")
        if not self._usable():
            self._create()
        self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
        self._key = _load_key(self.pair.key)

    def _usable(self) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
            key = _load_key(self.pair.key)
        except (OSError, ValueError):
            return False
        return certificate.public_key() == key.public_key() and _days_left(certificate) > _LEAF_DAYS

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "llm-serving-stack local cluster")])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=365 * _CA_YEARS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(ca=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(self.pair.key, _key_pem(key))
        write_private(self.pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, leaf: Leaf) -> KeyPair:
        """The certificate for `leaf`; the one on disk when it is still right."""
        pair = KeyPair(self.folder / f"{leaf.name}.crt", self.folder / f"{leaf.name}.key")
        if not self._still_right(pair, leaf):
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(pair.key, _key_pem(key))
            certificate = self._sign(leaf, key.public_key())
            write_private(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        return pair

    def _still_right(self, pair: KeyPair, leaf: Leaf) -> bool:
        try:
            certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
            key = _load_key(pair.key)
            certificate.verify_directly_issued_by(self._certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return (
            certificate.public_key() == key.public_key()
            and certificate.subject == _subject(leaf)
            and _alternative_names(certificate) == _wanted_names(leaf)
            and _days_left(certificate) > _RENEW_DAYS
        )

    def _sign(self, leaf: Leaf, public_key: ec.EllipticCurvePublicKey) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if leaf.is_server else [])]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_subject(leaf))
            .issuer_name(self._certificate.subject)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=_LEAF_DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if leaf.is_server:
            builder = builder.add_extension(x509.SubjectAlternativeName(_wanted_names(leaf)), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def signing_key(self, name: str) -> KeyPair:
        """A key pair of no certificate (service account tokens): public key as `certificate`, private as `key`."""
        pair = KeyPair(self.folder / f"{name}.pub", self.folder / f"{name}.key")
        if not (pair.key.exists() and pair.certificate.exists()):
            key = ec.generate_private_key(ec.SECP256R1())
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            write_private(pair.key, _key_pem(key))
            write_private(pair.certificate, public)
        return pair

    def kubeconfig(self, path: Path, server: str, leaf: Leaf, *, context: str) -> Path:
        """Write a kubeconfig for `leaf`'s user, certificates inside, readable by its owner alone."""
        pair = self.issue(leaf)

        def encoded(file: Path) -> str:
            return base64.b64encode(file.read_bytes()).decode()

        cluster = {"server": server, "certificate-authority-data": encoded(self.pair.certificate)}
        user = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": cluster}],
            "users": [{"name": context, "user": user}],
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "current-context": context,
        }
        data = yaml.safe_dump(document, sort_keys=True).encode()
        if not path.exists() or path.read_bytes() != data:
            write_private(path, data)
        return path


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} holds no elliptic-curve key")
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(leaf: Leaf) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, leaf.common_name)]
    if leaf.organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, leaf.organization))
    return x509.Name(attributes)


def _wanted_names(leaf: Leaf) -> list[x509.GeneralName]:
    return [*map(x509.DNSName, leaf.dns_names), *map(x509.IPAddress, leaf.addresses)]


def _alternative_names(certificate: x509.Certificate) -> list[x509.GeneralName]:
    try:
        return list(certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _days_left(certificate: x509.Certificate) -> float:
    return (certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).total_seconds() / 86400
