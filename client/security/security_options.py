"""The options of TLS and SASL: Kafka's names with underscores, and librdkafka's names where they differ.

`connection_security` makes the `ConnectionSecurity` of a client of them, and so checks that they belong together, that
files exist and that passwords open them.
"""

# ruff: noqa: RUF009 (option() makes a dataclass field, as dataclasses.field does)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from minikafka.client.option_checks import (
    SecurityProtocol,
    TokenProvider,
    function,
    nonempty_text,
    one_of,
    option,
    optional,
    text,
    texts,
)
from minikafka.client.security.connection_security import ConnectionSecurity
from minikafka.client.security.named_files import UnreadableFile, read_named_file
from minikafka.client.security.sasl_login import MECHANISMS, InvalidLogin, SaslLogin, SaslMechanism, sasl_login
from minikafka.client.security.token_files import TokenFile
from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.file_urls import file_of_url

if TYPE_CHECKING:
    import ssl

    from minikafka.client.security.tls_settings import TlsSettings

StoreType = Literal["JKS", "PKCS12", "PEM"]
EndpointIdentification = Literal["https", "none", ""]
TlsVersion = Literal["TLSv1.2", "TLSv1.3"]
_NONEMPTY_TEXT, _SECRET, _FUNCTION = optional(nonempty_text), optional(text), optional(function)
_STORE_TYPE = one_of(*get_args(StoreType))
_MECHANISM = optional(one_of(*MECHANISMS))
_FILE_SIZE_BYTES_MAX = 1 << 20
_TOKEN_URL = "sasl_oauthbearer_token_endpoint_url"
_OF_LIBRDKAFKA = {
    "ssl_keystore_certificate_chain": "ssl_certificate_location",
    "ssl_keystore_key": "ssl_key_location",
}
ELSEWHERE = {
    "sasl_plain_username": "sasl_username is its name here",
    "sasl_plain_password": "sasl_password is its name here",
    "sasl_kerberos": "there is no GSSAPI",
    "sasl_oauth": "sasl_oauth_token_provider takes a function that returns a token",
    "oauth_cb": "sasl_oauth_token_provider takes a function that returns a token",
    "sasl_login": "it is of Java's client; sasl_oauth_token_provider takes a function that returns a token",
    "sasl_client_callback": "it names a class of Java",
    "ssl_cafile": "ssl_ca_location is its name here",
    "ssl_ca_pem": "ssl_truststore_certificates is its name here, with ssl_truststore_type='PEM'",
    "ssl_certfile": "ssl_certificate_location is its name here",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain is its name here, with ssl_keystore_type='PEM'",
    "ssl_keyfile": "ssl_key_location is its name here",
    "ssl_key_pem": "ssl_keystore_key is its name here, with ssl_keystore_type='PEM'",
    "ssl_password": "ssl_key_password is its name here",
    "ssl_check_hostname": "ssl_endpoint_identification_algorithm='' is its name here",
    "ssl_context": "the options ssl_… say what it would contain",
    "ssl_ciphers": "ssl_cipher_suites is its name here",
    "ssl_protocol": "ssl_enabled_protocols is its name here",
    "ssl_crl": "there are no revocation lists",
    "ssl_provider": "it is of Java's client",
    "ssl_engine": "it is of Java's client and of OpenSSL",
    "enable_ssl_certificate_verification": "certificates are always verified",
}
"""Options of other clients, by how their names begin, and what to do here."""


_OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer"
_LOGIN_HANDLERS = {
    ("sasl.login.callback.handler.class", f"{_OAUTHBEARER}.{name}")
    for name in (
        "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        "OAuthBearerLoginCallbackHandler",
        "secured.OAuthBearerLoginCallbackHandler",
    )
}
"""What Java's client needs for unsecured tokens, and for those of a file; here the other settings suffice."""


def security_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a client's settings, by Kafka's names, that are of TLS and SASL."""
    prefixes = ("security.protocol", "sasl.", "ssl.")
    return {
        name: text
        for name, text in settings.items()
        if name.startswith(prefixes) and (name, text) not in _LOGIN_HANDLERS
    }


class InvalidSecurity(ValueError):
    """Options of TLS or SASL that do not belong together or do not work.

    Attributes:
        option: the name of the option.
        reason: what is wrong; never contains a secret.
    """

    def __init__(self, option_name: str, reason: str) -> None:
        super().__init__(f"{option_name}: {reason}")
        self.option, self.reason = option_name, reason

    def __reduce__(self) -> tuple[type[InvalidSecurity], tuple[str, str]]:
        return type(self), (self.option, self.reason)


@dataclass(frozen=True, kw_only=True)
class SecurityOptions:
    """Options of TLS and SASL. Secrets are in no `repr`."""

    security_protocol: SecurityProtocol = option(
        "PLAINTEXT", one_of(*get_args(SecurityProtocol)),
        "How brokers are spoken to: in plain text or over TLS (SSL), without a login or with one by SASL.",
    )
    ssl_truststore_location: str | None = option(
        None, _NONEMPTY_TEXT,
        "The file with the certificates of the authorities that are trusted; None: those of the system.",
    )
    ssl_truststore_type: StoreType = option(
        "JKS", _STORE_TYPE,
        "The format of `ssl_truststore_location`; JKS and PKCS12 are told apart by themselves.",
    )
    ssl_truststore_password: str | None = option(
        None, _SECRET,
        "The password of `ssl_truststore_location`.", secret=True,
    )
    ssl_truststore_certificates: str | None = option(
        None, _NONEMPTY_TEXT,
        "Trusted certificates as PEM text, instead of a file; needs the type PEM.",
    )
    ssl_ca_location: str | None = option(
        None, _NONEMPTY_TEXT,
        "A PEM file with trusted certificates: librdkafka's name for a trust store of type PEM.", "",
    )
    ssl_keystore_location: str | None = option(
        None, _NONEMPTY_TEXT,
        "The file with the client's key and certificates, for brokers that ask for them (mutual TLS).",
    )
    ssl_keystore_type: StoreType = option(
        "JKS", _STORE_TYPE,
        "The format of `ssl_keystore_location`; JKS and PKCS12 are told apart by themselves.",
    )
    ssl_keystore_password: str | None = option(
        None, _SECRET,
        "The password of `ssl_keystore_location`.", secret=True,
    )
    ssl_keystore_certificate_chain: str | None = option(
        None, _NONEMPTY_TEXT,
        "The client's certificates as PEM text, instead of a file; needs the type PEM.",
    )
    ssl_keystore_key: str | None = option(
        None, _SECRET,
        "The client's private key as PEM text (PKCS#8), with `ssl_keystore_certificate_chain`.", secret=True,
    )
    ssl_key_password: str | None = option(
        None, _SECRET,
        "The password of the client's private key, if the key is encrypted.", secret=True,
    )
    ssl_certificate_location: str | None = option(
        None, _NONEMPTY_TEXT,
        "A PEM file with the client's certificates: librdkafka's name, with `ssl_key_location`.", "",
    )
    ssl_key_location: str | None = option(
        None, _NONEMPTY_TEXT,
        "A PEM file with the client's private key: librdkafka's name, with `ssl_certificate_location`.", "",
    )
    ssl_endpoint_identification_algorithm: EndpointIdentification = option(
        "https", one_of(*get_args(EndpointIdentification)),
        'Whether the name of a broker must be in its certificate ("https"), or not ("", "none").',
    )
    ssl_enabled_protocols: Sequence[TlsVersion] = option(
        get_args(TlsVersion), texts(*get_args(TlsVersion)),
        "The versions of TLS that are allowed.",
    )
    ssl_cipher_suites: Sequence[str] = option(
        (), texts(),
        "The cipher suites that are allowed, by Java's or OpenSSL's names; if empty, those of OpenSSL.",
    )
    sasl_mechanism: SaslMechanism | None = option(
        None, _MECHANISM,
        "How the client logs in, if `security_protocol` begins with SASL_; None: as `sasl_jaas_config` says.",
    )
    sasl_mechanisms: SaslMechanism | None = option(
        None, _MECHANISM,
        "The same as `sasl_mechanism`: librdkafka's name, which takes one mechanism too.", "",
    )
    sasl_username: str | None = option(
        None, _NONEMPTY_TEXT,
        "The user, for PLAIN and SCRAM: librdkafka's name for what Java's client has in `sasl.jaas.config`.", "",
    )
    sasl_password: str | None = option(
        None, _SECRET,
        "The password of `sasl_username`.", "", secret=True,
    )
    sasl_jaas_config: str | None = option(
        None, _SECRET,
        "User and password, or the claims of an unsecured token, as Java's client takes them: a login module and its "
        "options.", secret=True,
    )
    sasl_oauth_token_provider: TokenProvider | None = option(
        None, _FUNCTION,
        "Returns a token, for OAUTHBEARER: a function without arguments, async or blocking (then it runs in a thread).",
        "sasl.login.callback.handler.class", secret=True,
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None, _NONEMPTY_TEXT,
        "A URL such as file:///etc/kafka/token: the file with the token, for OAUTHBEARER. It is read for each login.",
    )

    def check_security(self, given: frozenset[str]) -> None:
        """Raise InvalidSecurity if options of TLS and SASL do not belong together or do not work.

        Args:
            given: the names of the options that were passed.
        """
        for prefix, protocols in (("ssl_", ("SSL", "SASL_SSL")), ("sasl_", ("SASL_PLAINTEXT", "SASL_SSL"))):
            changed = {item.name for item in fields(SecurityOptions) if getattr(self, item.name) != item.default}
            useless = sorted(name for name in given & changed if name.startswith(prefix))
            if useless and self.security_protocol not in protocols:
                reason = f"needs security_protocol {' or '.join(protocols)}, and it is {self.security_protocol}"
                raise InvalidSecurity(useless[0], reason)
        self.connection_security  # noqa: B018 (is made once, here)

    @cached_property
    def connection_security(self) -> ConnectionSecurity:
        """What each new connection needs. Reads files at the first time. Raises InvalidSecurity."""
        context = login = None
        if self.security_protocol in ("SSL", "SASL_SSL"):
            context = self._tls_context()
        if self.security_protocol.startswith("SASL_"):
            login = self._login()
        return ConnectionSecurity(context, login)

    def _tls_context(self) -> ssl.SSLContext:
        from minikafka.client.security.tls_contexts import client_context
        from minikafka.client.security.tls_settings import InvalidTlsSetting

        try:
            return client_context(self._tls_settings())
        except InvalidTlsSetting as error:
            option_name = error.setting.replace(".", "_")
            if option_name == "ssl_truststore_location" and self.ssl_ca_location is not None:
                option_name = "ssl_ca_location"
            if self.ssl_certificate_location is not None:
                option_name = _OF_LIBRDKAFKA.get(option_name, option_name)
            raise InvalidSecurity(option_name, error.reason) from None

    def _tls_settings(self) -> TlsSettings:
        from minikafka.client.security.tls_settings import TlsSettings

        names = [item.name for item in fields(SecurityOptions) if item.name.startswith("ssl_")]
        values = {name.replace("_", "."): getattr(self, name) for name in names}
        if self.ssl_endpoint_identification_algorithm == "none":
            values["ssl.endpoint.identification.algorithm"] = ""
        if self.ssl_ca_location is not None:
            self._refuse_beside("ssl_ca_location", "ssl_truststore_location", "ssl_truststore_certificates")
            values |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ssl_ca_location}
        if self.ssl_certificate_location is not None or self.ssl_key_location is not None:
            values |= self._two_pem_files()
        return TlsSettings.from_names(values)

    def _two_pem_files(self) -> dict[str, str]:
        """The settings of a key store of librdkafka: a file with certificates, and one with the key."""
        texts_of_files = []
        for name in ("ssl_certificate_location", "ssl_key_location"):
            path = getattr(self, name)
            if path is None:
                raise InvalidSecurity(name, "is missing: the certificate and its key are given together")
            self._refuse_beside(name, "ssl_keystore_location", "ssl_keystore_certificate_chain", "ssl_keystore_key")
            texts_of_files.append(_file_text(name, path))
        chain, key = texts_of_files
        return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}

    def _refuse_beside(self, name: str, *others: str) -> None:
        for other in others:
            if getattr(self, other) is not None:
                raise InvalidSecurity(name, f"is not allowed beside {other}: both say the same")

    def _login(self) -> SaslLogin:
        mechanism = self.sasl_mechanism or self.sasl_mechanisms
        if self.sasl_mechanisms not in (None, mechanism):
            raise InvalidSecurity("sasl_mechanisms", f"is {self.sasl_mechanisms}, but sasl_mechanism is {mechanism}")
        url = self.sasl_oauthbearer_token_endpoint_url
        provider = self.sasl_oauth_token_provider if url is None else self._token_file(url)
        try:
            return sasl_login(mechanism, self.sasl_username, self.sasl_password, self.sasl_jaas_config, provider)
        except InvalidLogin as error:
            name = error.setting.replace(".", "_")
            if name == "sasl_oauth_token_provider" and url is not None:
                name = _TOKEN_URL
            raise InvalidSecurity(name, error.reason) from None

    def _token_file(self, url: str) -> TokenFile:
        """The file of a URL, whose token can be read."""
        self._refuse_beside(_TOKEN_URL, "sasl_oauth_token_provider")
        path = file_of_url(url)
        if path is None:
            reason = "must be the URL of a file, as file:///etc/kafka/token"
            raise InvalidSecurity(_TOKEN_URL, f"{reason}; sasl_oauth_token_provider can ask a provider")
        file = TokenFile(path)
        try:
            file()
        except SaslAuthenticationFailedError as error:
            raise InvalidSecurity(_TOKEN_URL, error.message) from None
        return file


def _file_text(name: str, path: str) -> str:
    try:
        return read_named_file(path, _FILE_SIZE_BYTES_MAX).decode("latin-1")
    except UnreadableFile as error:
        raise InvalidSecurity(name, f"{path} {error}") from None
