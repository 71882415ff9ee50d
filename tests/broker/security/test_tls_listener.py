"""The TLS of a listener: which settings it has, and which principals."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from support.certificates import Authority
from support.node import NodeProcess, StartError
from support.tls import AUTHORITY, SERVER, certificate_of, own, trusting, write_stores

from minikafka.broker.security.tls_listener import TlsListener, settings_of_listener
from minikafka.broker.settings.listeners import Listener
from minikafka.client.security.tls_settings import InvalidTlsSetting
from minikafka.controller.security.access import ANONYMOUS, NAME_BYTES_MAX, Principal

OUTSIDE = Listener("OUTSIDE", "h", 1, "SSL")
WITH_SASL = Listener("OUTSIDE", "h", 1, "SASL_SSL")
CAROL = certificate_of("CN=carol,OU=hr").certificate.public_bytes(Encoding.DER)


def prefixed(settings: dict[str, str]) -> dict[str, str]:
    return {f"listener.name.outside.{name}": value for name, value in settings.items()}


def test_settings_of_the_listener_override_those_of_the_node() -> None:
    texts = {"ssl.client.auth": "required", "ssl.keystore.type": "PEM", "num.partitions": "1"}
    found = settings_of_listener(OUTSIDE, texts | prefixed({"ssl.client.auth": "none"}))
    assert found["ssl.client.auth"] == "none"
    assert found["ssl.keystore.type"] == "PEM"
    assert found["ssl.enabled.protocols"] == "TLSv1.2,TLSv1.3"
    assert "num.partitions" not in found


def test_another_listener_has_its_own() -> None:
    found = settings_of_listener(Listener("INSIDE", "h", 1, "SSL"), prefixed({"ssl.client.auth": "required"}))
    assert found["ssl.client.auth"] == "none"


def test_a_listener_with_sasl_asks_for_certificates_only_by_its_own_setting() -> None:
    texts = {**own(SERVER), **trusting(SERVER), "ssl.client.auth": "required"}
    assert TlsListener(OUTSIDE, texts).context.verify_mode is ssl.CERT_REQUIRED
    assert TlsListener(WITH_SASL, texts).context.verify_mode is ssl.CERT_NONE
    texts |= prefixed({"ssl.client.auth": "required"})
    assert TlsListener(WITH_SASL, texts).context.verify_mode is ssl.CERT_REQUIRED


def test_the_principal_is_mapped_by_the_rules() -> None:
    texts = {**own(SERVER), "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U"}
    listener = TlsListener(OUTSIDE, texts)
    assert listener.principal_of(CAROL) == Principal("User", "CAROL")
    assert listener.principal_of(None) == ANONYMOUS
    assert TlsListener(OUTSIDE, own(SERVER)).principal_of(CAROL) == Principal("User", "CN=carol,OU=hr")
    other = certificate_of("CN=other").certificate.public_bytes(Encoding.DER)
    with pytest.raises(ValueError, match=r"no rule of ssl.principal.mapping.rules applies to CN=other"):
        listener.principal_of(other)


def test_a_certificate_of_too_long_a_name_is_refused() -> None:
    texts = {**own(SERVER), "ssl.principal.mapping.rules": f"RULE:^CN=(.*?),.*$/{'n' * NAME_BYTES_MAX}$1/"}
    with pytest.raises(ValueError, match="the name in the certificate has more than 8192 bytes"):
        TlsListener(OUTSIDE, texts).principal_of(CAROL)


def test_a_certificate_is_never_the_principal_of_a_listener_with_sasl() -> None:
    assert TlsListener(WITH_SASL, own(SERVER)).principal_of(CAROL) == ANONYMOUS


def test_an_error_names_the_setting_as_it_was_given() -> None:
    with pytest.raises(InvalidTlsSetting, match=r"^ssl.keystore.location: is missing: a listener with TLS"):
        TlsListener(OUTSIDE, {})
    inherited = {"ssl.keystore.location": "/inherited", "ssl.keystore.type": "PEM"}
    with pytest.raises(InvalidTlsSetting, match=r"^ssl.keystore.location: must not be set beside ssl.keystore.key"):
        TlsListener(OUTSIDE, inherited | prefixed(own(SERVER)))
    with pytest.raises(InvalidTlsSetting, match=r"^listener.name.outside.ssl.keystore.location: /no/file cannot"):
        TlsListener(OUTSIDE, {"ssl.keystore.type": "PEM"} | prefixed({"ssl.keystore.location": "/no/file"}))


def test_rules_that_cannot_be_read_are_named() -> None:
    texts = own(SERVER) | prefixed({"ssl.principal.mapping.rules": "RULE:x"})
    with pytest.raises(InvalidTlsSetting, match=r"^listener.name.outside.ssl.principal.mapping.rules: Invalid rule: R"):
        TlsListener(OUTSIDE, texts)


def test_a_node_whose_key_store_cannot_be_read_does_not_start(tmp_path: Path) -> None:
    settings = {"listeners": "SSL://127.0.0.1:0", **write_stores(tmp_path), "ssl.keystore.password": "wrong-secret"}
    with pytest.raises(StartError) as caught, NodeProcess(tmp_path / "data", settings=settings):
        pass
    log = str(caught.value).split("its log ends:")[1]
    assert f"ssl.keystore.password: is wrong for {tmp_path}" in log
    assert "Traceback" not in log
    assert "wrong-secret" not in log


def issued_again(name: str, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> dict[str, str]:
    return own(AUTHORITY.issue(name, hosts=hosts))


def test_a_new_certificate_of_the_same_name_is_taken() -> None:
    listener = TlsListener(OUTSIDE, own(SERVER))
    before = listener.context
    listener.take(listener.renewed(issued_again("CN=server", ("localhost", "127.0.0.1", "example.org"))))
    assert listener.context is not before


@pytest.mark.parametrize(
    ("settings", "setting", "expected"),
    [
        (issued_again("CN=other"), "ssl.allow.dn.changes", "the new certificate is of CN=other instead of CN=server"),
        (issued_again("CN=server", ("localhost",)), "ssl.allow.san.changes", "the new certificate lacks 127.0.0.1"),
    ],
)
def test_a_certificate_of_another_name_is_taken_only_if_that_is_allowed(
    settings: dict[str, str], setting: str, expected: str
) -> None:
    listener = TlsListener(OUTSIDE, own(SERVER))
    before = listener.context
    with pytest.raises(InvalidTlsSetting, match=f"{expected}.*, and {setting} is false"):
        listener.renewed(settings)
    assert listener.context is before
    listener.take(listener.renewed({**settings, setting: "true"}))
    assert listener.context is not before


STRANGER = Authority("CN=stranger").issue("CN=server")


def test_the_listener_of_brokers_must_trust_its_own_certificate_and_others_need_not() -> None:
    texts = {**own(SERVER), **trusting(STRANGER)}
    TlsListener(OUTSIDE, texts)
    with pytest.raises(InvalidTlsSetting, match=r"could not connect to each other .* the certificate is refused"):
        TlsListener(OUTSIDE, texts, is_of_brokers=True)
    for client_auth in ("none", "requested", "required"):
        given = {**own(SERVER), **trusting(SERVER), "ssl.client.auth": client_auth}
        TlsListener(OUTSIDE, given, is_of_brokers=True)


def test_new_stores_of_brokers_must_do_with_the_old_ones() -> None:
    listener = TlsListener(OUTSIDE, {**own(SERVER), **trusting(SERVER)}, is_of_brokers=True)
    with pytest.raises(InvalidTlsSetting, match="could not connect to each other"):
        listener.renewed({**own(STRANGER), **trusting(STRANGER)})
    listener.renewed({**own(certificate_of("CN=server")), **trusting(SERVER)})
    both = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": SERVER.authority_pem + STRANGER.authority_pem}
    listener.take(listener.renewed({**own(SERVER), **both}))
    with pytest.raises(InvalidTlsSetting, match="could not connect to each other"):
        listener.renewed({**own(STRANGER), **trusting(STRANGER)})
    listener.take(listener.renewed({**own(STRANGER), **both}))
    listener.renewed({**own(STRANGER), **trusting(STRANGER)})
