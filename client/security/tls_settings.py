"""`TlsSettings`: the values of Kafka's `ssl.*` settings; `InvalidTlsSetting`: the error for one that does not work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["InvalidTlsSetting", "KeyStore", "TlsSettings", "TrustStore"]


class InvalidTlsSetting(ValueError):
    """A setting of TLS does not work.

    Attributes:
        setting: Kafka's name of the setting.
        reason: what is wrong; never contains a password or a key.
    """

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting, self.reason = setting, reason

    def __reduce__(self) -> tuple[type[InvalidTlsSetting], tuple[str, str]]:
        return type(self), (self.setting, self.reason)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The settings of the store of one's own key and certificates: `ssl.keystore.*` and `ssl.key.password`.

    Attributes:
        type: "JKS", "PKCS12" or "PEM".
        location: the path of a file; None for none.
        password: of the file; JKS and PKCS12 need one, PEM must not have one.
        key_password: of the private key; of JKS and PKCS12 stores it is `password` if None.
        certificate_chain: certificates in PEM format, instead of a file, the own first.
        key: the private key in PEM format, with `certificate_chain`.
    """

    type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The settings of the store of trusted certificates: `ssl.truststore.*`.

    Attributes:
        type: "JKS", "PKCS12" or "PEM".
        location: the path of a file; None for none.
        password: of the file; PEM must not have one.
        certificates: certificates in PEM format, instead of a file.
    """

    type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of TLS of a listener or a client.

    Attributes:
        key_store: the own key and certificates; servers need them.
        trust_store: the certificates that are trusted; the system's if it names none.
        enabled_protocols: of "TLSv1.2" and "TLSv1.3".
        cipher_suites: Java's or OpenSSL's names; if empty, those of the library.
        endpoint_identification_algorithm: "https" if a client compares the server's name with its certificate, or "".
        client_auth: "none", "requested" or "required": whether a server asks for the certificates of clients.
    """

    key_store: KeyStore = KeyStore()
    trust_store: TrustStore = TrustStore()
    enabled_protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: Sequence[str] = ()
    endpoint_identification_algorithm: str = "https"
    client_auth: str = "none"

    @classmethod
    def from_names(cls, values: Mapping[str, object]) -> TlsSettings:
        """The settings in `values`, by Kafka's names; what is missing or null has its default.

        Args:
            values: texts, and sequences of texts for `ssl.enabled.protocols` and `ssl.cipher.suites`, or texts with
                commas. Names that are not of TLS are ignored.
        """

        def text(name: str, default: str = "") -> str:
            value = values.get(name)
            return default if value is None else str(value)

        def or_none(name: str) -> str | None:
            value = values.get(name)
            return None if value is None else str(value)

        return cls(
            KeyStore(
                text("ssl.keystore.type", "JKS"),
                text("ssl.keystore.location") or None,
                or_none("ssl.keystore.password"),
                or_none("ssl.key.password"),
                or_none("ssl.keystore.certificate.chain"),
                or_none("ssl.keystore.key"),
            ),
            TrustStore(
                text("ssl.truststore.type", "JKS"),
                text("ssl.truststore.location") or None,
                or_none("ssl.truststore.password"),
                or_none("ssl.truststore.certificates"),
            ),
            _items(values.get("ssl.enabled.protocols")) or ("TLSv1.2", "TLSv1.3"),
            _items(values.get("ssl.cipher.suites")),
            text("ssl.endpoint.identification.algorithm", "https"),
            text("ssl.client.auth", "none"),
        )


def _items(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    items = value.split(",") if isinstance(value, str) else value
    assert isinstance(items, Sequence)
    return tuple(item.strip() for item in items if item.strip())
