"""Keys and stores whose decryption would take for ever, or end the process, are refused before it begins."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from support.certificates import PASSWORD, Authority, Issued

from minikafka.client.security.key_derivations import ITERATIONS_MAX, STEPS_MAX, CostlyDerivation, check_key
from minikafka.client.security.key_stores import read_identity, read_trusted
from minikafka.client.security.tls_settings import InvalidTlsSetting, KeyStore, TrustStore

PBES2, PBKDF2, SCRYPT = "2a864886f70d01050d", "2a864886f70d01050c", "2b06010401da47040b"
AES256 = "60864801650304012a"
PBES1 = [f"2a864886f70d0105{last:02x}" for last in (1, 3, 4, 6, 10, 11)]
PKCS12 = [f"2a864886f70d010c01{last:02x}" for last in range(1, 7)]
COSTLY = (ITERATIONS_MAX + 1, 2**31 - 1, 2**31, 2**40, 2**64, -1 - ITERATIONS_MAX)


@pytest.fixture(scope="module")
def issued() -> Issued:
    return Authority().issue("CN=node")


def der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    size = len(content)
    head = bytes([size]) if size < 0x80 else bytes([0x82, *size.to_bytes(2, "big")])
    return bytes([tag]) + head + content


def sequence(*contents: bytes) -> bytes:
    return der(0x30, *contents)


def identifier(oid: str) -> bytes:
    return der(0x06, bytes.fromhex(oid))


def octets(data: bytes) -> bytes:
    return der(0x04, data)


def integer(number: int) -> bytes:
    return der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def derivation(oid: str, *numbers: int) -> bytes:
    return sequence(identifier(oid), sequence(octets(b"saltsalt"), *map(integer, numbers)))


def by_pbes2(inner: bytes) -> bytes:
    """An EncryptedPrivateKeyInfo whose key is derived by `inner`."""
    cipher = sequence(identifier(AES256), octets(bytes(16)))
    return sequence(sequence(identifier(PBES2), sequence(inner, cipher)), octets(bytes(64)))


def pem_of(info: bytes) -> str:
    text = base64.b64encode(info).decode()
    return f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{text}\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.mark.parametrize("iterations", COSTLY)
def test_a_key_that_asks_for_too_many_iterations_is_refused_and_named(issued: Issued, iterations: int) -> None:
    key = pem_of(by_pbes2(derivation(PBKDF2, iterations)))
    with pytest.raises(InvalidTlsSetting, match=r"^ssl\.keystore\.key: .* iterations; allowed: at most"):
        read_identity(KeyStore("PEM", key=key, key_password="x", certificate_chain=issued.chain_pem))


@pytest.mark.parametrize("oid", [PBKDF2, *PBES1, *PKCS12])
def test_each_derivation_counts(oid: str) -> None:
    with pytest.raises(CostlyDerivation):
        check_key(sequence(derivation(oid, 2**40), octets(b"x")))
    check_key(sequence(derivation(oid, ITERATIONS_MAX), octets(b"x")))


@pytest.mark.parametrize("numbers", [(STEPS_MAX, 2, 1), (2, STEPS_MAX, 1), (2, 1, STEPS_MAX), (2**62, 8, 1)])
def test_scrypt_counts_with_its_memory(numbers: tuple[int, ...]) -> None:
    with pytest.raises(CostlyDerivation, match="steps of scrypt"):
        check_key(by_pbes2(derivation(SCRYPT, *numbers)))
    check_key(by_pbes2(derivation(SCRYPT, 16384, 8, 1, 32)))


def test_a_key_with_headers_is_refused_as_nobody_can_say_what_it_costs(issued: Issued) -> None:
    key = pem_of(by_pbes2(derivation(PBKDF2, 2**40))).replace("KEY-----\n", "KEY-----\nProc-Type: 4\n\n", 1)
    with pytest.raises(InvalidTlsSetting, match="private key cannot be used"):
        read_identity(KeyStore("PEM", key=key, key_password="x", certificate_chain=issued.chain_pem))


def store_with(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "store.p12"
    path.write_bytes(data)
    return path


def expect_costly(path: Path) -> None:
    for read in (
        lambda: read_identity(KeyStore("PKCS12", str(path), PASSWORD)),
        lambda: read_trusted(TrustStore("PKCS12", str(path), PASSWORD)),
    ):
        with pytest.raises(InvalidTlsSetting, match=r"store\.location: .* iterations; allowed: at most"):
            read()


def test_a_store_that_asks_for_too_many_iterations_is_refused(issued: Issued, tmp_path: Path) -> None:
    few, many = integer(0x10001), integer(0x7FFFFF)
    encryption = (
        serialization.PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(0x10001)
        .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
        .hmac_hash(hashes.SHA256())
        .build(PASSWORD.encode())
    )
    store = pkcs12.serialize_key_and_certificates(b"node", issued.key, issued.certificate, None, encryption)
    assert store.count(few) == 2, "the key and the certificate are encrypted"
    assert read_identity(KeyStore("PKCS12", str(store_with(tmp_path, store)), PASSWORD))
    expect_costly(store_with(tmp_path, store.replace(few, many, 1)))
    expect_costly(store_with(tmp_path, many.join(store.rsplit(few, 1))))


def test_the_authentication_code_of_a_store_counts(tmp_path: Path) -> None:
    contents = sequence(identifier("2a864886f70d010701"))
    for iterations in COSTLY:
        mac = sequence(sequence(octets(b"digest")), octets(b"saltsalt"), integer(iterations))
        expect_costly(store_with(tmp_path, sequence(integer(3), contents, mac)))


def test_what_the_library_writes_itself_is_read(issued: Issued) -> None:
    encrypted = issued.key_pem(PASSWORD)
    assert read_identity(KeyStore("PEM", key=encrypted, key_password=PASSWORD, certificate_chain=issued.chain_pem))
