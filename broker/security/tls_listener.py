"""`TlsListener`: the TLS of one listener, from its settings: certificates, which new ones may replace
them, and the principals of its clients.

A setting `listener.name.<listener>.ssl.…` overrides `ssl.…`. Loaded only where a listener has TLS: `cryptography` takes
50 ms to import. Source: `SslFactory`, `SslChannelBuilder`, `SaslChannelBuilder`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from cryptography import x509

from minikafka.broker.security.certificate_principals import InvalidRule, distinguished_name, principal_mapper
from minikafka.broker.settings.listeners import Listener, listener_prefix
from minikafka.client.security.tls_contexts import (
    client_context,
    identity_of_server,
    server_context,
    why_no_handshake,
)
from minikafka.client.security.tls_settings import InvalidTlsSetting, TlsSettings
from minikafka.controller.security.access import ANONYMOUS, NAME_BYTES_MAX, Principal, name_is_too_long
from minikafka.protocol.settings.registry import NODE_SETTINGS

__all__ = ["TlsListener", "client_context_of", "principals_of", "settings_of_listener"]

_CLIENT_AUTH, _RULES = "ssl.client.auth", "ssl.principal.mapping.rules"
_DN_CHANGES, _SAN_CHANGES = "ssl.allow.dn.changes", "ssl.allow.san.changes"


def settings_of_listener(listener: Listener, texts: Mapping[str, str]) -> dict[str, str | None]:
    """The settings of TLS of a listener by their names without prefix; those that are not given have their default.

    `ssl.client.auth` is not inherited by listeners of protocol SASL_SSL, as in Kafka (KIP-684), nor by that of metrics.

    Args:
        texts: All settings of the node that are given.
    """
    prefix = listener_prefix(listener.name)
    names = [name for name in NODE_SETTINGS if name.startswith("ssl.")]
    values = {name: texts.get(prefix + name, texts.get(name, NODE_SETTINGS[name].default_text)) for name in names}
    if listener.protocol != "SSL":
        values[_CLIENT_AUTH] = texts.get(prefix + _CLIENT_AUTH, "none")
    return values


class TlsListener:
    """The TLS of one listener (a `ListenerTls`).

    Args:
        texts: All settings of the node that are given.
        is_of_brokers: Whether brokers connect to each other at it, so that it must trust its own certificate.

    Raises:
        InvalidTlsSetting: A setting does not work; it is named with its prefix if that is how it was given.
    """

    def __init__(self, listener: Listener, texts: Mapping[str, str], *, is_of_brokers: bool = False) -> None:
        settings = TlsSettings.from_names(settings_of_listener(listener, texts))
        with _as_given(listener, texts):
            identity = identity_of_server(settings)
            self.context = server_context(settings, identity)
            self._principal_of = principals_of(listener, texts)
            self._client = client_context(replace(settings, endpoint_identification_algorithm=""))
            if is_of_brokers:
                self._check_handshakes(self)
        self._certificate = identity.chain[0]
        self.listener = listener
        self._is_of_brokers = is_of_brokers
        self.speaks = "https://" if listener.protocol == "HTTPS" else f"security.protocol={listener.protocol}"

    def renewed(self, texts: Mapping[str, str], *, is_start: bool = False) -> TlsListener:
        """The listener with the certificates and settings of now. Reads files: run it in a thread.

        Args:
            texts: All settings of the node that are given.
            is_start: Whether the node starts: nobody has seen the present certificates, and they need not fit the new.

        Raises:
            InvalidTlsSetting: A setting does not work, or the certificate has another name.
        """
        new = TlsListener(self.listener, texts, is_of_brokers=self._is_of_brokers)
        if is_start:
            return new
        with _as_given(self.listener, texts):
            if why := _why_not_taken(self._certificate, new._certificate, texts):
                raise InvalidTlsSetting("ssl.keystore.location", why)
            if self._is_of_brokers:
                self._check_handshakes(new)
                new._check_handshakes(self)
        return new

    def take(self, new: TlsListener) -> None:
        """Use the certificates of `new`, which `renewed` has returned, for handshakes from now on."""
        self.context, self._certificate, self._client = new.context, new._certificate, new._client

    def _check_handshakes(self, server: TlsListener) -> None:
        """Check that this listener, as a client, could connect to `server`. Source: `SslEngineValidator`."""
        if why := why_no_handshake(self._client, server.context):
            raise InvalidTlsSetting(
                "ssl.truststore.location",
                f"brokers could not connect to each other at this listener with its stores: {why}",
            )

    def principal_of(self, certificate: bytes | None) -> Principal:
        return self._principal_of(certificate)


def principals_of(listener: Listener, texts: Mapping[str, str]) -> Callable[[bytes | None], Principal]:
    """A function that returns the principal of a client of the listener, by its certificate in DER.

    The function raises ValueError if the certificate has no principal, or one whose name is too long.

    Raises:
        InvalidTlsSetting: `ssl.principal.mapping.rules` cannot be read.
    """
    with _as_given(listener, texts):
        mapped = _mapper(settings_of_listener(listener, texts)[_RULES] or "")

    def principal_of(certificate: bytes | None) -> Principal:
        if certificate is None or listener.protocol != "SSL":
            return ANONYMOUS
        name = mapped(distinguished_name(certificate))
        if name_is_too_long(name):
            raise ValueError(f"the name in the certificate has more than {NAME_BYTES_MAX} bytes")
        return Principal("User", name)

    return principal_of


def client_context_of(listener: Listener, texts: Mapping[str, str]) -> ssl.SSLContext:
    """The context of connections to a listener of this name on other nodes. Raises InvalidTlsSetting."""
    with _as_given(listener, texts):
        return client_context(TlsSettings.from_names(settings_of_listener(listener, texts)))


@contextmanager
def _as_given(listener: Listener, texts: Mapping[str, str]) -> Iterator[None]:
    """Let errors in the block name a setting with the prefix of the listener, if it was given so."""
    try:
        yield
    except InvalidTlsSetting as error:
        prefixed = listener_prefix(listener.name) + error.setting
        raise InvalidTlsSetting(prefixed if prefixed in texts else error.setting, error.reason) from None


def _why_not_taken(old: x509.Certificate, new: x509.Certificate, texts: Mapping[str, str]) -> str:
    """Why a new certificate may not replace an old one (KIP-226, `CertificateEntries`); "" if it may."""
    if new.subject != old.subject and not _is_set(_DN_CHANGES, texts):
        shown = f"{new.subject.rfc4514_string()} instead of {old.subject.rfc4514_string()}"
        return f"the new certificate is of {shown}, and {_DN_CHANGES} is false"
    lost = _alternative_names(old) - _alternative_names(new)
    if lost and not _is_set(_SAN_CHANGES, texts):
        return f"the new certificate lacks {', '.join(sorted(lost))}, and {_SAN_CHANGES} is false"
    return ""


def _is_set(name: str, texts: Mapping[str, str]) -> bool:
    return bool(NODE_SETTINGS[name].parse(texts.get(name, NODE_SETTINGS[name].default_text)))


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise InvalidTlsSetting("ssl.keystore.location", f"a certificate has a malformed extension: {error}") from None
    return {str(name.value) for name in extension.value}


def _mapper(rules: str) -> Callable[[str], str]:
    try:
        return principal_mapper(rules)
    except InvalidRule as error:
        raise InvalidTlsSetting(_RULES, str(error)) from None
