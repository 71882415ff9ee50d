"""Options of TLS and SASL: what does not belong together or does not work is named when a client is made."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from support.secured_nodes import Certificates, jaas_of_oauth, jaas_of_plain

from minikafka.client import Admin, InvalidOption
from minikafka.client.options import AdminOptions, make

SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT"}
TLS: dict[str, Any] = {"security_protocol": "SSL"}
USER = {"sasl_username": "alice", "sasl_password": "hidden"}
SCRAM_MODULE = jaas_of_plain("hidden").replace("plain.Plain", "scram.Scram")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sasl_username": "a"}, r"sasl_username=.*\): needs security_protocol SASL_PLAINTEXT or SASL_SSL.* is PL"),
        ({**SASL, **USER, "sasl_mechanism": "PLAIN", "ssl_ca_location": "x"}, r"ssl_ca_location=.*\): needs .* SSL or"),
        ({**SASL, **USER}, r"sasl_mechanism=.*\): is missing: must be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, O"),
        ({**SASL, "sasl_mechanism": "GSSAPI"}, "must be one of 'PLAIN', "),
        ({**SASL, "sasl_mechanism": "PLAIN"}, r"sasl_username=.*\): is missing: PLAIN needs a username"),
        ({**SASL, "sasl_mechanism": "PLAIN", "sasl_username": "a"}, r"sasl_password=.*\): is missing: PLAIN needs a p"),
        ({**SASL, **USER, "sasl_mechanism": "PLAIN", "sasl_mechanisms": "SCRAM-SHA-256"}, "sasl_mechanism is PLAIN"),
        ({**SASL, **USER, "sasl_mechanism": "OAUTHBEARER"}, r"sasl_oauth_token_provider=.*\): is missing"),
        ({**SASL, "sasl_jaas_config": "x"}, r"sasl_jaas_config=.*\): has an unknown login module; allowed: org.apache"),
        ({**SASL, "sasl_jaas_config": SCRAM_MODULE}, r"sasl_mechanism=.*\): is missing"),
        ({**SASL, "sasl_mechanism": "PLAIN", "sasl_jaas_config": SCRAM_MODULE}, "but PLAIN takes .*PlainLoginModule"),
        ({**SASL, "sasl_jaas_config": jaas_of_plain("hidden"), **USER}, "give it or sasl.username, not both"),
        ({**SASL, "sasl_jaas_config": jaas_of_plain("")}, "has no password"),
        ({**SASL, "sasl_jaas_config": jaas_of_oauth("")}, "unsecured tokens need a principal"),
        ({**SASL, **USER, "sasl_mechanism": "PLAIN", "sasl_oauth_token_provider": str}, "is for OAUTHBEARER"),
        ({**SASL, **USER, "sasl_mechanism": "PLAIN", "sasl_password": "hid\0den"}, r"sasl_password=…\): .*NUL"),
        ({**SASL, **USER, "sasl_mechanism": "PLAIN", "sasl_username": "a\0"}, r"sasl_username=.*\): .*NUL"),
        ({**SASL, "sasl_password": b"hidden"}, r"sasl_password=…\): must be a string, or None"),
        ({**SASL, "sasl_oauth_token_provider": "hidden"}, "must be a callable"),
        ({**TLS, "ssl_ca_location": "nowhere.pem"}, r"ssl_ca_location=.*\): .*nowhere.pem"),
        ({**TLS, "ssl_truststore_location": "nowhere"}, r"ssl_truststore_location=.*\): .*nowhere"),
        ({**TLS, "ssl_ca_location": "a", "ssl_truststore_location": "b"}, "not allowed beside ssl_truststore_location"),
        ({**TLS, "ssl_certificate_location": "ca.pem"}, r"ssl_key_location=.*\): is missing"),
        ({**TLS, "ssl_key_location": "client-key.pem"}, r"ssl_certificate_location=.*\): is missing"),
        ({**TLS, "ssl_certificate_location": "no", "ssl_key_location": "b"}, "no cannot be read: No such file"),
        ({**TLS, "ssl_certificate_location": "a\0b", "ssl_key_location": "b"}, r"a\0b cannot be read: .*null"),
        ({**TLS, "ssl_keystore_location": "client.p12", "ssl_keystore_password": "wrong"}, r"ssl_keystore_"),
        ({**TLS, "ssl_enabled_protocols": ["SSLv3"]}, r"must be a list of 'TLSv1.2', 'TLSv1.3'"),
        ({**TLS, "ssl_cipher_suites": ["TLS_NONE"]}, r"ssl_cipher_suites=.*\): TLS_NONE is not a cipher suite"),
        ({**TLS, "ssl_truststore_type": "DER"}, "must be one of 'JKS', 'PKCS12', 'PEM'"),
    ],
)
def test_what_does_not_work_is_named(
    given: dict[str, Any], message: str, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(certificates.folder)
    with pytest.raises(InvalidOption, match=message) as refused:
        Admin(**given)
    assert "hidden" not in str(refused.value)


def test_the_wrong_password_of_a_key_names_the_file_of_the_key(certificates: Certificates) -> None:
    with pytest.raises(InvalidOption, match="ssl_key_") as refused:
        Admin(
            security_protocol="SSL",
            ssl_certificate_location=str(certificates.client_chain),
            ssl_key_location=str(certificates.client_encrypted_key),
            ssl_key_password="hidden",
        )
    assert "hidden" not in str(refused.value)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    huge = str(tmp_path / "huge")
    with pytest.raises(InvalidOption, match="has more than 1,048,576 bytes"):
        Admin(security_protocol="SSL", ssl_certificate_location=huge, ssl_key_location=huge)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "names", [["ssl_ca_location"], ["ssl_truststore_location"], ["ssl_certificate_location", "ssl_key_location"]]
)
def test_a_pipe_or_device_is_refused_at_once(names: list[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero"):
        with pytest.raises(InvalidOption, match="is a pipe or device: must be a file"):
            Admin(security_protocol="SSL", **dict.fromkeys(names, path))  # type: ignore[arg-type]


def test_secrets_are_in_no_repr(certificates: Certificates) -> None:
    options = make(AdminOptions, {**SASL, **USER, "sasl_mechanism": "SCRAM-SHA-256"}, "Admin")
    security = options.connection_security
    assert security.login is not None
    assert "alice" in repr(security.login)
    stores = {"ssl_keystore_password": "hidden", "ssl_truststore_password": "hidden", "ssl_key_password": "hidden"}
    jaas = {"security_protocol": "SASL_SSL", "sasl_jaas_config": jaas_of_plain("hidden")}
    both = make(AdminOptions, jaas, "Admin")
    shown = [repr(value) for value in (options, security, security.login, both, both.connection_security)]
    shown.append(repr(AdminOptions(**stores, ssl_keystore_key="hidden")))  # type: ignore[arg-type]
    assert not [text for text in shown if "hidden" in text]
