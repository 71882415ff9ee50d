"""Key stores and trust stores: of keytool (in `stores/`, password store-secret), of `cryptography`, and bad ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from support.certificates import PASSWORD, Authority, Issued

from minikafka.client.security import jks
from minikafka.client.security.key_stores import STORE_SIZE_BYTES_MAX, Identity, read_identity, read_trusted
from minikafka.client.security.tls_settings import InvalidTlsSetting, KeyStore, TrustStore

STORES = Path(__file__).parent / "stores"
SUBJECT = "CN=carol,OU=hr,O=acme"


@pytest.fixture(scope="module")
def issued() -> Issued:
    return Authority().issue(SUBJECT)


def subjects(identity: Identity | None) -> list[str]:
    assert identity is not None
    return [certificate.subject.rfc4514_string() for certificate in identity.chain]


@pytest.mark.parametrize(
    ("name", "type_", "key_password"),
    [
        ("identity.jks", "JKS", "key-secret"),
        ("identity.jks", "PKCS12", "key-secret"),
        ("identity-pkcs12.jks", "JKS", None),
        ("identity-pkcs12.jks", "PKCS12", PASSWORD),
        ("identity-and-trust.p12", "PKCS12", None),
    ],
)
def test_keytools_key_stores_are_read(name: str, type_: str, key_password: str | None) -> None:
    identity = read_identity(KeyStore(type_, str(STORES / name), PASSWORD, key_password))
    assert subjects(identity) == [SUBJECT, "CN=test CA"]


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "trust-legacy.p12"])
def test_keytools_trust_stores_are_read(name: str) -> None:
    trusted = read_trusted(TrustStore("JKS", str(STORES / name), PASSWORD))
    assert trusted is not None
    assert [one.subject.rfc4514_string() for one in trusted] == ["CN=test CA"]


def test_a_jks_trust_store_needs_no_password() -> None:
    assert read_trusted(TrustStore("JKS", str(STORES / "trust.jks")))


def test_of_a_key_entry_only_its_own_certificate_is_trusted() -> None:
    for name in ("identity.jks", "identity-pkcs12.jks"):
        trusted = read_trusted(TrustStore("JKS", str(STORES / name), PASSWORD))
        assert [one.subject.rfc4514_string() for one in trusted or ()] == [SUBJECT]
    trusted = read_trusted(TrustStore("JKS", str(STORES / "identity-and-trust.p12"), PASSWORD))
    assert [one.subject.rfc4514_string() for one in trusted or ()] == [SUBJECT, "CN=test CA"]


@pytest.mark.parametrize("password", [None, "key-secret"])
def test_pem_is_read_from_files_and_inline(issued: Issued, tmp_path: Path, password: str | None) -> None:
    path = issued.write_pem(tmp_path / "own.pem", password)
    of_file = read_identity(KeyStore("PEM", str(path), key_password=password))
    inline = KeyStore("PEM", key_password=password, key=issued.key_pem(password), certificate_chain=issued.chain_pem)
    assert subjects(of_file) == subjects(read_identity(inline)) == [SUBJECT, "CN=test authority"]
    assert read_trusted(TrustStore("PEM", certificates=issued.authority_pem)) == (issued.authority,)
    of_trust = TrustStore("pem", str(issued.write_authority_pem(tmp_path / "ca.pem")))
    assert read_trusted(of_trust) == (issued.authority,)


def test_pem_in_one_line_is_read_as_in_a_properties_file(issued: Issued) -> None:
    key, chain = (text.replace("\n", " ") for text in (issued.key_pem(), issued.chain_pem))
    in_one_line = KeyStore("PEM", key=key, certificate_chain="CN=carol\n" + chain)
    assert subjects(read_identity(in_one_line)) == [SUBJECT, "CN=test authority"]


def test_keys_of_older_pem_formats_are_read(issued: Issued) -> None:
    old = serialization.PrivateFormat.TraditionalOpenSSL, serialization.BestAvailableEncryption(b"key-secret")
    key = issued.key.private_bytes(serialization.Encoding.PEM, *old).decode()
    store = KeyStore("PEM", key_password="key-secret", key=key, certificate_chain=issued.chain_pem)
    assert subjects(read_identity(store))[0] == SUBJECT


def test_pkcs12_of_other_programs_is_read(issued: Issued, tmp_path: Path) -> None:
    path = issued.write_pkcs12(tmp_path / "own.p12")
    assert subjects(read_identity(KeyStore("PKCS12", str(path), PASSWORD))) == [SUBJECT, "CN=test authority"]


def test_no_store_is_none() -> None:
    assert read_identity(KeyStore()) is None
    assert read_trusted(TrustStore()) is None


INVALID_KEY_STORES = {
    "no such file": (
        KeyStore("JKS", "/no/such.jks", PASSWORD),
        "ssl.keystore.location: /no/such.jks cannot be read: No such file or directory",
    ),
    "a folder": (KeyStore("JKS", "/", PASSWORD), "ssl.keystore.location: / cannot be read: Is a directory"),
    "an impossible path": (KeyStore("JKS", "a\0b", PASSWORD), "embedded null byte"),
    "unknown type": (
        KeyStore("JCEKS", str(STORES / "identity.jceks"), PASSWORD),
        "ssl.keystore.type: JCEKS is not supported (allowed: JKS, PKCS12, PEM)",
    ),
    "another format": (KeyStore("JKS", str(STORES / "identity.jceks"), PASSWORD), "is no usable key store"),
    "PEM under another type": (KeyStore("JKS", str(STORES / "ca.pem"), PASSWORD), "set ssl.keystore.type=PEM"),
    "wrong password": (KeyStore("JKS", str(STORES / "identity.jks"), "wrong"), "ssl.keystore.password: is wrong for"),
    "wrong password of PKCS12": (
        KeyStore("JKS", str(STORES / "identity-pkcs12.jks"), "wrong"),
        "ssl.keystore.password: is wrong for",
    ),
    "wrong key password": (
        KeyStore("JKS", str(STORES / "identity.jks"), PASSWORD),
        "ssl.key.password: is wrong for the private key",
    ),
    "another key password of PKCS12": (
        KeyStore("JKS", str(STORES / "identity-pkcs12.jks"), PASSWORD, "other"),
        "ssl.key.password: must equal ssl.keystore.password",
    ),
    "no private key": (KeyStore("JKS", str(STORES / "trust.jks"), PASSWORD), "has no private key"),
    "no private key in PKCS12": (KeyStore("JKS", str(STORES / "trust.p12"), PASSWORD), "has no private key"),
    "no private key in PEM": (KeyStore("PEM", str(STORES / "ca.pem")), "has no private key in PEM format"),
    "no password": (KeyStore("JKS", str(STORES / "identity.jks")), "ssl.keystore.password: is missing"),
    "a password alone": (KeyStore(password=PASSWORD), "ssl.keystore.location: is missing"),
    "a password for PEM": (KeyStore("PEM", "x.pem", PASSWORD), "ssl.keystore.password: must not be set for PEM"),
    "a key that is not PEM": (KeyStore("JKS", key="x"), "ssl.keystore.key: is only for ssl.keystore.type=PEM"),
    "a key without certificates": (KeyStore("PEM", key="x"), "ssl.keystore.certificate.chain: is missing"),
    "certificates without a key": (KeyStore("PEM", certificate_chain="x"), "ssl.keystore.key: is missing"),
    "a key in two places": (
        KeyStore("PEM", "x.pem", key="x", certificate_chain="x"),
        "ssl.keystore.location: must not be set beside ssl.keystore.key",
    ),
    "PEM of something else": (KeyStore("PEM", key="x", certificate_chain="x"), "ssl.keystore.key: has no private key"),
}


@pytest.mark.parametrize("name", INVALID_KEY_STORES)
def test_an_error_names_the_setting_and_what_is_wrong(name: str) -> None:
    store, expected = INVALID_KEY_STORES[name]
    with pytest.raises(InvalidTlsSetting) as caught:
        read_identity(store)
    assert expected in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in repr(store)


INVALID_TRUST_STORES = {
    "wrong password": (TrustStore("JKS", str(STORES / "trust.p12"), "wrong"), "ssl.truststore.password: is wrong for"),
    "a password for PEM": (TrustStore("PEM", "x", "y"), "ssl.truststore.password: must not be set for PEM"),
    "a password alone": (TrustStore(password="y"), "ssl.truststore.location: is missing"),
    "certificates that are not PEM": (TrustStore(certificates="x"), "ssl.truststore.certificates: is only for"),
    "certificates in two places": (TrustStore("PEM", "x", certificates="y"), "must not be set beside"),
    "no certificate": (TrustStore("PEM", certificates="y"), "ssl.truststore.certificates: it has no certificate"),
    "unknown type": (TrustStore("BCFKS", "x", "y"), "ssl.truststore.type: BCFKS is not supported"),
}


@pytest.mark.parametrize("name", INVALID_TRUST_STORES)
def test_so_does_that_of_a_trust_store(name: str) -> None:
    store, expected = INVALID_TRUST_STORES[name]
    with pytest.raises(InvalidTlsSetting) as caught:
        read_trusted(store)
    assert expected in str(caught.value)


def test_passwords_of_pem_keys_are_checked(issued: Issued) -> None:
    for given, needed, expected in [
        ("key-secret", None, "ssl.key.password: is missing"),
        ("key-secret", "wrong", "ssl.key.password: is wrong"),
        (None, "key-secret", "ssl.key.password: must not be set"),
    ]:
        store = KeyStore("PEM", key=issued.key_pem(given), certificate_chain=issued.chain_pem, key_password=needed)
        with pytest.raises(InvalidTlsSetting, match=expected):
            read_identity(store)


def test_the_certificate_must_belong_to_the_key(issued: Issued) -> None:
    store = KeyStore("PEM", key=Authority().issue("CN=other").key_pem(), certificate_chain=issued.chain_pem)
    with pytest.raises(InvalidTlsSetting, match=r"\(CN=carol,OU=hr,O=acme\) does not belong to the private key"):
        read_identity(store)


def test_large_and_empty_files_are_refused(tmp_path: Path) -> None:
    large, empty = tmp_path / "large", tmp_path / "empty"
    with large.open("wb") as file:
        file.truncate(STORE_SIZE_BYTES_MAX + 1)
    empty.touch()
    with pytest.raises(InvalidTlsSetting, match="has more than 16,777,216 bytes"):
        read_identity(KeyStore("JKS", str(large), PASSWORD))
    with pytest.raises(InvalidTlsSetting, match="is empty"):
        read_identity(KeyStore("JKS", str(empty), PASSWORD))


def test_every_damage_of_a_jks_store_is_noticed() -> None:
    """Ends anywhere, has bytes changed anywhere, or sizes of 4 GiB: an error, and no memory is taken for them."""
    whole = (STORES / "identity.jks").read_bytes()
    for end in range(len(whole)):
        with pytest.raises((jks.DamagedStore, jks.WrongPassword)):
            jks.read_jks(whole[:end], PASSWORD)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        with pytest.raises((jks.DamagedStore, jks.WrongPassword)):
            jks.read_jks(bytes(changed), PASSWORD)
    with pytest.raises(jks.DamagedStore):
        jks.read_jks(jks.MAGIC + struct.pack(">II", 2, 0xFFFFFFFF) + bytes(64), PASSWORD)


def test_a_malformed_protected_key_is_damage() -> None:
    for data in (b"", b"\x30", b"\x30\x02\x30\x00", b"\x30\x84\xff\xff\xff\xff", bytes(50)):
        with pytest.raises(jks.DamagedStore):
            jks.PrivateKeyEntry(data, ()).key("x")
