"""TLS and SASL of the connector: the `kafka.security.protocol`, `kafka.ssl.*` and `kafka.sasl.*` options.

Files that they name must be where the driver is, and where each executor is, under the same path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from minikafka.client.options import AdminOptions, make
from minikafka.client.security.connection_security import ConnectionSecurity
from minikafka.client.security.security_options import security_settings

_LISTS = {"ssl_enabled_protocols", "ssl_cipher_suites"}
_CONTEXTS_MAX = 8


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The settings of TLS and SASL, by Kafka's names. Secrets are among them, so `repr` has none."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, kafka: Mapping[str, str]) -> SecuritySettings:
        """Makes the settings from the `kafka.*` options, names without the prefix.

        As with Spark's own connector, those that `security.protocol` does not use are ignored.
        """
        protocol = kafka.get("security.protocol", "PLAINTEXT")
        useless = (*(() if "SASL" in protocol else ("sasl.",)), *(() if "SSL" in protocol else ("ssl.",)))
        settings = security_settings(kafka)
        return cls(tuple((name, settings[name]) for name in sorted(settings) if not name.startswith(useless)))

    def connection_security(self) -> ConnectionSecurity:
        """Makes the TLS context and the login for new connections. Reads files. Raises InvalidOption."""
        return _connection_security(self)


@lru_cache(_CONTEXTS_MAX)
def _connection_security(settings: SecuritySettings) -> ConnectionSecurity:
    given: dict[str, Any] = {name.replace(".", "_"): text for name, text in settings.values}
    for name in given.keys() & _LISTS:
        given[name] = [part.strip() for part in given[name].split(",") if part.strip()]
    return make(AdminOptions, given, "kafka").connection_security


NO_SECURITY = SecuritySettings()
