"""Contexts of `ssl` from Kafka's settings: each pair of a server and a client shakes hands in memory, or does not."""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
from pathlib import Path

import pytest
from support.certificates import Authority, Issued

from minikafka.client.security.cipher_suites import TLS13_SUITES, openssl_name
from minikafka.client.security.tls_contexts import client_context, server_context
from minikafka.client.security.tls_settings import InvalidTlsSetting, TlsSettings

AUTHORITY, STRANGER = Authority(), Authority("CN=another authority")
SERVER = AUTHORITY.issue("CN=server")
SUITE_12 = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


def own(issued: Issued) -> dict[str, object]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_pem(),
        "ssl.keystore.certificate.chain": issued.chain_pem,
    }


def trusting(issued: Issued) -> dict[str, object]:
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": issued.authority_pem}


SERVING = own(SERVER)
TRUSTING = trusting(SERVER)


def shake_hands(server: dict[str, object], client: dict[str, object], name: str = "localhost") -> ssl.SSLObject:
    """The server's side of the connection after the handshake. Raises ssl.SSLError of either side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server_context(TlsSettings.from_names(server)).wrap_bio(up, down, server_side=True)
    asking = client_context(TlsSettings.from_names(client)).wrap_bio(down, up, server_hostname=name)
    for _ in range(5):
        for side in (asking, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    serving.do_handshake()
    return serving


def test_a_client_that_trusts_the_authority_connects() -> None:
    done = shake_hands(SERVING, TRUSTING)
    assert done.version() == "TLSv1.3"
    assert done.getpeercert(binary_form=True) is None


def test_a_client_refuses_strangers_and_other_names() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate in certificate chain"):
        shake_hands(SERVING, trusting(STRANGER.issue("CN=x")))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(SERVING, TRUSTING, "elsewhere")
    shake_hands(SERVING, {**TRUSTING, "ssl.endpoint.identification.algorithm": ""}, "elsewhere")


def test_without_a_trust_store_the_systems_authorities_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda context: loaded.append(context))
    client_context(TlsSettings())
    assert len(loaded) == 1


def test_client_certificates_are_asked_for() -> None:
    carol, stranger = own(AUTHORITY.issue("CN=carol")), own(STRANGER.issue("CN=carol"))
    over = own(AUTHORITY.issue("CN=carol", end=datetime.datetime(2021, 1, 1)))
    for auth in ("requested", "required"):
        serving = {**SERVING, **TRUSTING, "ssl.client.auth": auth}
        certificate = shake_hands(serving, {**TRUSTING, **carol}).getpeercert()
        assert certificate is not None
        assert certificate["subject"] == ((("commonName", "carol"),),)
        for refused in (stranger, over):
            with pytest.raises(ssl.SSLCertVerificationError):
                shake_hands(serving, {**TRUSTING, **refused})
    assert not shake_hands({**SERVING, **TRUSTING, "ssl.client.auth": "requested"}, TRUSTING).getpeercert()
    with pytest.raises(ssl.SSLError, match="did not return a certificate"):
        shake_hands({**SERVING, **TRUSTING, "ssl.client.auth": "required"}, TRUSTING)


def test_a_certificate_in_the_trust_store_need_not_be_an_authority() -> None:
    end = "-----END CERTIFICATE-----"
    only_own = SERVER.chain_pem.split(end)[0] + end
    shake_hands(SERVING, {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": only_own})


@pytest.mark.parametrize(
    ("settings", "version", "suite"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "TLSv1.3", None),
        ({"ssl.enabled.protocols": ("TLSv1.3", "TLSv1.2")}, "TLSv1.3", None),
        ({"ssl.cipher.suites": SUITE_12}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"ssl.cipher.suites": ",".join(TLS13_SUITES)}, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ({"ssl.cipher.suites": f"{SUITE_12},{','.join(TLS13_SUITES)}"}, "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_versions_and_suites_are_those_of_the_settings(
    settings: dict[str, object], version: str, suite: str | None
) -> None:
    done = shake_hands({**SERVING, **settings}, TRUSTING)
    cipher = done.cipher()
    assert done.version() == version
    assert cipher is not None
    assert suite in (None, cipher[0])


def test_a_version_that_is_not_enabled_is_not_used() -> None:
    with pytest.raises(ssl.SSLError, match="unsupported protocol"):
        shake_hands({**SERVING, "ssl.enabled.protocols": "TLSv1.3"}, {**TRUSTING, "ssl.enabled.protocols": "TLSv1.2"})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: TLSv1.1 is not supported"),
        ({"ssl.cipher.suites": "TLS_NOTHING_WITH_AES_128_GCM_SHA256"}, "ssl.cipher.suites: TLS_NOTHING_WITH_AES_128"),
        ({"ssl.cipher.suites": f"{SUITE_12},RUBBISH"}, "ssl.cipher.suites: RUBBISH is not a cipher suite"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "either all or none can be enabled"),
        ({"ssl.cipher.suites": SUITE_12, "ssl.enabled.protocols": "TLSv1.3"}, "names no suite of a version"),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth: perhaps is not supported"),
        ({"ssl.keystore.key": None, "ssl.keystore.certificate.chain": None}, "needs a key store"),
    ],
)
def test_settings_that_do_not_work_are_named(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(InvalidTlsSetting, match=expected):
        server_context(TlsSettings.from_names({**SERVING, **settings}))


def test_an_unknown_algorithm_of_names_is_refused() -> None:
    with pytest.raises(InvalidTlsSetting, match="is not supported"):
        client_context(TlsSettings(endpoint_identification_algorithm="LDAPS"))


def test_javas_names_of_suites_are_openssls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    known = {cipher["name"] for cipher in context.get_ciphers()}
    for name in (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
    ):
        assert openssl_name(name) in known, name
    assert openssl_name("ECDHE-RSA-AES128-GCM-SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"


@pytest.mark.parametrize("has_memory_files", [True, False])
def test_no_key_is_left_in_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_memory_files: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not has_memory_files:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    server_context(TlsSettings.from_names(SERVING))
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_in_no_repr() -> None:
    names = ("ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.truststore.password")
    settings = TlsSettings.from_names(dict.fromkeys(names, "very-secret"))
    assert "very-secret" not in repr(settings)
