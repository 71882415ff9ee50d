"""Declares the settings of a node that Kafka does not have, that are read only at its start, and that DescribeConfigs
does not show.

One that it is to show, or that can be changed while the node runs, goes into `INTERNAL_SETTINGS` of
`protocol/settings/node_settings.py`.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from minikafka.broker.settings.listeners import Listener, listener_prefix
from minikafka.controller.decisions.bootstrap_records import INITIAL_METADATA_VERSION
from minikafka.controller.metadata.features import METADATA_VERSION_MIN, level_of_release

__all__ = [
    "INITIAL_METADATA_VERSION",
    "METRICS",
    "METRICS_LISTENER",
    "OWN_SETTINGS",
    "InvalidMetricsSetting",
    "MetricsLogin",
    "metrics_listener",
    "metrics_login",
    "why_no_metadata_version",
]

METRICS = "METRICS"
"""The name of the metrics listener, for its settings of TLS."""
METRICS_LISTENER = "metrics.listener"
METRICS_USERNAME, METRICS_PASSWORD = "metrics.listener.username", "metrics.listener.password"
OWN_SETTINGS: dict[str, tuple[str, str]] = {
    METRICS_LISTENER: (
        "http://HOST:PORT, https://HOST:PORT, or empty for none",
        "Where the node serves its metrics over HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`. "
        "An empty host is all addresses, port 0 a free port, which the log names. With https the settings of TLS are "
        "`listener.name.metrics.ssl.…`, or `ssl.…` as for every listener; `ssl.client.auth` needs the prefix.",
    ),
    METRICS_USERNAME: (
        "any text without a colon, with metrics.listener.password",
        "The user who may read `/metrics`, by HTTP basic authentication. `/healthz` and `/readyz` need no login.",
    ),
    METRICS_PASSWORD: (
        "any text, with metrics.listener.username",
        "The password of that user. It is in no log line and no error.",
    ),
    INITIAL_METADATA_VERSION: (
        "4.0-IV1 to 4.3-IV0, a release such as 4.2, or a level from 23 to 30",
        "The metadata.version of a new cluster, as `kafka-storage format --release-version` sets it. It has no effect "
        "on a cluster that exists; `kafka-features upgrade` changes that one's.",
    ),
}
"""By name of the setting, (allowed values, documentation). No setting has a default."""

_ADDRESS = re.compile(r"(?P<scheme>https?)://(?:\[(?P<bracketed>[0-9a-fA-F:.]+)\]|(?P<host>[0-9a-zA-Z._-]*)):(?P<port>\d{1,5})/?")
PORT_MAX = 65535


class InvalidMetricsSetting(ValueError):
    """A setting of the metrics listener is missing, or cannot be used.

    Attributes:
        name: The setting.
        value: Its text; None if it is missing, or a secret.
    """

    def __init__(self, name: str, value: str | None, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.value = value


@dataclass(frozen=True, slots=True)
class MetricsLogin:
    """Who may read the metrics of a node."""

    username: str
    password: str = field(repr=False)


def metrics_listener(given: Mapping[str, str], names: Collection[str]) -> Listener | None:
    """Read `metrics.listener`; None if no metrics are served.

    Args:
        given: The texts of the settings of a node.
        names: The names of its other listeners.

    Raises:
        InvalidMetricsSetting: It is neither `http://HOST:PORT` nor `https://HOST:PORT`; or settings of TLS have no
            effect; or they are those of another listener, too.
    """
    text = given.get(METRICS_LISTENER, "").strip()
    address = _ADDRESS.fullmatch(text)
    if text and (address is None or int(address["port"]) > PORT_MAX):
        raise InvalidMetricsSetting(
            METRICS_LISTENER, text, f"not an address (allowed: {OWN_SETTINGS[METRICS_LISTENER][0]})"
        )
    has_tls = address is not None and address["scheme"] == "https"
    if has_tls and METRICS in names:
        raise InvalidMetricsSetting(
            METRICS_LISTENER, text, f"a listener of Kafka's protocol has the name {METRICS}: give it another one"
        )
    of_tls = next((name for name in given if name.startswith(f"{listener_prefix(METRICS)}ssl.")), None)
    if of_tls and not has_tls and METRICS not in names:
        raise InvalidMetricsSetting(of_tls, None, f"has no effect unless {METRICS_LISTENER} begins with https://")
    if address is None:
        return None
    return Listener(
        METRICS, address["bracketed"] or address["host"] or "", int(address["port"]), address["scheme"].upper()
    )


def metrics_login(given: Mapping[str, str]) -> MetricsLogin | None:
    """Read the login of the metrics listener; None if everybody may read the metrics.

    Args:
        given: The texts of the settings of a node.

    Raises:
        InvalidMetricsSetting: A setting is missing, or has no effect.
    """
    both = METRICS_USERNAME, METRICS_PASSWORD
    if not any(name in given for name in both):
        return None
    for name in both:
        if not given.get(name):
            raise InvalidMetricsSetting(name, None, f"is required, since {' and '.join(both)} belong together")
    if not given.get(METRICS_LISTENER, "").strip():
        raise InvalidMetricsSetting(METRICS_USERNAME, None, f"has no effect without {METRICS_LISTENER}")
    if ":" in given[METRICS_USERNAME]:
        raise InvalidMetricsSetting(METRICS_USERNAME, None, "must have no colon, which ends the name in a request")
    return MetricsLogin(given[METRICS_USERNAME], given[METRICS_PASSWORD])


def why_no_metadata_version(text: str) -> str | None:
    """Why `initial.metadata.version` cannot have this value, in words; None if the value is allowed."""
    if not text.strip():
        return None
    level = level_of_release(text)
    if level is None or level < METADATA_VERSION_MIN:
        why = "no such level" if level is None else "eligible leader replicas need metadata.version 23 (4.0-IV1)"
        return f"{why} (allowed: {OWN_SETTINGS[INITIAL_METADATA_VERSION][0]})"
    return None
