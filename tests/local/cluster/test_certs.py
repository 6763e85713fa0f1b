"""The authority's certificates are judged by OpenSSL (Python's ssl): real handshakes with the files on disk."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from ipaddress import IPv4Address
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from kubernetes import client, config

from local.cluster import certs
from local.cluster.certs import Authority, KeyPair, Leaf

SERVER = Leaf(
    name="server",
    common_name="kube-apiserver",
    dns_names=("kubernetes.default.svc",),
    addresses=(IPv4Address("127.0.0.1"),),
)
CLIENT = Leaf(name="admin", common_name="someone", organization="system:masters")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def _handshake(server: KeyPair, trusted: Path, client_pair: KeyPair | None, name: str) -> dict[str, object]:
    """Connect over TLS, both sides checking the other; returns the client certificate that the server saw."""
    here = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(trusted))
    here.load_cert_chain(server.certificate, server.key)
    here.verify_mode = ssl.CERT_REQUIRED
    there = ssl.create_default_context(cafile=str(trusted))
    if client_pair:
        there.load_cert_chain(client_pair.certificate, client_pair.key)
    seen: dict[str, object] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            raw, _ = listener.accept()
            try:
                with here.wrap_socket(raw, server_side=True) as accepted:
                    seen.update(accepted.getpeercert() or {})
                    accepted.sendall(b"ok")
            except (ssl.SSLError, OSError) as error:
                seen["error"] = str(error)
                raw.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=10) as raw,
                there.wrap_socket(raw, server_hostname=name) as connected,
            ):
                assert connected.recv(2) == b"ok"
        finally:
            thread.join()
    return seen


@pytest.mark.parametrize("name", ["127.0.0.1", "kubernetes.default.svc"])
def test_both_sides_trust_each_other_by_the_authority_alone(authority: Authority, name: str) -> None:
    seen = _handshake(authority.issue(SERVER), authority.pair.certificate, authority.issue(CLIENT), name)
    assert seen["subject"] == ((("organizationName", "system:masters"),), (("commonName", "someone"),))


def test_a_server_of_another_name_is_not_trusted(authority: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(authority.issue(SERVER), authority.pair.certificate, authority.issue(CLIENT), "example.com")


def test_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        _handshake(other.issue(SERVER), authority.pair.certificate, authority.issue(CLIENT), "127.0.0.1")


def test_a_client_certificate_cannot_serve(authority: Authority) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"(unsuitable|unsupported) certificate purpose"):
        _handshake(authority.issue(CLIENT), authority.pair.certificate, authority.issue(CLIENT), "127.0.0.1")


def test_files_that_are_right_are_kept(authority: Authority) -> None:
    first = authority.issue(SERVER).certificate.read_bytes()
    again = Authority(authority.folder)
    assert again.issue(SERVER).certificate.read_bytes() == first


@pytest.mark.parametrize(
    "changed",
    [
        Leaf(
            name="server",
            common_name="kube-apiserver",
            dns_names=SERVER.dns_names,
            addresses=(IPv4Address("10.0.0.1"),),
        ),
        Leaf(name="server", common_name="other", dns_names=SERVER.dns_names, addresses=SERVER.addresses),
        Leaf(
            name="server",
            common_name="kube-apiserver",
            organization="g",
            dns_names=SERVER.dns_names,
            addresses=SERVER.addresses,
        ),
    ],
)
def test_a_certificate_for_something_else_is_made_again(authority: Authority, changed: Leaf) -> None:
    before = authority.issue(SERVER).certificate.read_bytes()
    assert authority.issue(changed).certificate.read_bytes() != before


def test_a_certificate_near_its_end_is_made_again(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certs, "_LEAF_DAYS", 29)
    short = authority.issue(SERVER).certificate.read_bytes()
    monkeypatch.undo()
    renewed = x509.load_pem_x509_certificate(authority.issue(SERVER).certificate.read_bytes())
    assert renewed.public_bytes(certs.serialization.Encoding.PEM) != short
    assert renewed.not_valid_after_utc - datetime.datetime.now(datetime.UTC) > datetime.timedelta(days=364)


def test_certificates_of_a_lost_authority_are_made_again(authority: Authority) -> None:
    before = authority.issue(SERVER).certificate.read_bytes()
    authority.pair.key.write_bytes(b"broken")
    again = Authority(authority.folder)
    assert again.issue(SERVER).certificate.read_bytes() != before
    _handshake(again.issue(SERVER), again.pair.certificate, again.issue(CLIENT), "127.0.0.1")


def test_a_key_without_its_certificate_is_made_again(authority: Authority) -> None:
    pair = authority.issue(SERVER)
    pair.key.unlink()
    _handshake(authority.issue(SERVER), authority.pair.certificate, authority.issue(CLIENT), "127.0.0.1")


def test_private_keys_and_kubeconfigs_are_readable_by_their_owner_alone(authority: Authority, tmp_path: Path) -> None:
    authority.issue(SERVER)
    authority.signing_key("service-account")
    path = authority.kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:6443", CLIENT, context="local")
    private = [*authority.folder.glob("*.key"), path]
    assert len(private) == 5
    assert {file.stat().st_mode & 0o777 for file in private} == {0o600}


def test_the_official_client_reads_the_kubeconfig(authority: Authority, tmp_path: Path) -> None:
    path = authority.kubeconfig(tmp_path / "kubeconfig", "https://127.0.0.1:6443", CLIENT, context="local")
    read = client.Configuration()
    config.load_kube_config(str(path), client_configuration=read)
    assert read.host == "https://127.0.0.1:6443"
    assert Path(str(read.ssl_ca_cert)).read_bytes() == authority.pair.certificate.read_bytes()
    _handshake(
        authority.issue(SERVER), Path(str(read.ssl_ca_cert)), KeyPair(Path(str(read.cert_file)), Path(str(read.key_file))), "127.0.0.1"
    )  # fmt: skip


def test_writing_the_same_kubeconfig_changes_nothing(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    authority.kubeconfig(path, "https://127.0.0.1:6443", CLIENT, context="local")
    before = path.stat().st_mtime_ns
    authority.kubeconfig(path, "https://127.0.0.1:6443", CLIENT, context="local")
    assert path.stat().st_mtime_ns == before
    authority.kubeconfig(path, "https://127.0.0.1:7443", CLIENT, context="local")
    assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7443"
