"""Whatever is wrong with keys and certificates, the error names a setting: a node logs it and goes on.

The libraries below have many kinds of errors. The damage is random, of a fixed seed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from support.certificates import PASSWORD, Authority, Issued

from minikafka.broker.security.tls_listener import TlsListener
from minikafka.broker.settings.listeners import Listener
from minikafka.client.security.tls_settings import InvalidTlsSetting

LISTENER = Listener("OUTSIDE", "127.0.0.1", 9093, "SSL")
STORES = Path(__file__).parent / "stores"
MUTANTS = 400
Damage = Callable[[bytes], bytes]
Texts = dict[str, str]


@pytest.fixture(scope="module")
def issued() -> Issued:
    return Authority().issue("CN=node,O=acme", hosts=("node.example",))


def texts_of(issued: Issued) -> Texts:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_pem(),
        "ssl.keystore.certificate.chain": issued.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": issued.authority_pem,
        "ssl.allow.dn.changes": "true",
    }


def damaged(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(changed))
        if random.random() < 0.8:
            changed[at] = random.choice((0, 1, 2, 4, 6, 0x30, 0x7F, 0x80, 0x82, 0xFF, random.randrange(256)))
        elif random.random() < 0.5:
            del changed[at : at + random.randint(1, 4)]
        else:
            changed[at:at] = random.randbytes(random.randint(1, 4))
    return bytes(changed)


def damaged_pem(text: str, random: Random) -> str:
    """The first block of a PEM text, damaged."""
    begin, *body, end = text[: text.index("-----END") + text[text.index("-----END") :].index("\n")].splitlines()
    damage = damaged(base64.b64decode("".join(body)), random)
    return "\n".join((begin, base64.b64encode(damage).decode(), end, ""))


@pytest.mark.parametrize("name", ["ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"])
def test_damaged_texts_are_errors_of_a_setting(issued: Issued, name: str) -> None:
    random, texts = Random(name), texts_of(issued)
    listener = TlsListener(LISTENER, texts)
    for _ in range(MUTANTS):
        with suppress(InvalidTlsSetting):
            listener.renewed({**texts, name: damaged_pem(texts[name], random)})


@pytest.mark.parametrize("name", ["identity.jks", "identity-pkcs12.jks", "identity-and-trust.p12", "trust-legacy.p12"])
def test_damaged_files_are_errors_of_a_setting(tmp_path: Path, issued: Issued, name: str) -> None:
    random, data, path = Random(name), (STORES / name).read_bytes(), tmp_path / name
    own = {"ssl.keystore.type": "JKS", "ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD}
    trusted = {"ssl.truststore.type": "JKS", "ssl.truststore.location": str(path)}
    listener = TlsListener(LISTENER, texts_of(issued))
    for _ in range(MUTANTS // 4):
        path.write_bytes(damaged(data, random))
        for texts in (own, {**texts_of(issued), **trusted, "ssl.truststore.certificates": ""}):
            with suppress(InvalidTlsSetting):
                listener.renewed({name: text for name, text in texts.items() if text})


@pytest.mark.parametrize("version", [3, 9, 200])
def test_a_certificate_of_an_unknown_version_is_an_error_of_its_setting(issued: Issued, version: int) -> None:
    texts = texts_of(issued)
    for name in ("ssl.keystore.certificate.chain", "ssl.truststore.certificates"):
        begin, *body, end = [*texts[name].split("-----END")[0].splitlines(), "-----END CERTIFICATE-----"]
        other = base64.b64decode("".join(body)).replace(b"\xa0\x03\x02\x01\x02", bytes([0xA0, 3, 2, 1, version]), 1)
        changed = "\n".join((begin, base64.b64encode(other).decode(), end, ""))
        with pytest.raises(InvalidTlsSetting, match=name.replace(".", r"\.")):
            TlsListener(LISTENER, {**texts, name: changed})
