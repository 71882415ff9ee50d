"""Declares the settings of a node that Kafka does not have. DescribeConfigs does not show these settings.

The settings are only read at the start of a node.
"""

import re

from minikafka.broker.settings.listeners import Listener
from minikafka.controller.decisions.bootstrap_records import INITIAL_METADATA_VERSION
from minikafka.controller.metadata.features import METADATA_VERSION_MIN, level_of_release

__all__ = [
    "INITIAL_METADATA_VERSION",
    "METRICS_LISTENER",
    "OWN_SETTINGS",
    "InvalidAddress",
    "metrics_listener",
    "why_no_metadata_version",
]

METRICS_LISTENER = "metrics.listener"
OWN_SETTINGS: dict[str, tuple[str, str]] = {
    METRICS_LISTENER: (
        "http://HOST:PORT, or empty for none",
        "Where the node serves its metrics over HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`. "
        "An empty host is all addresses, port 0 a free port, which the log names. Without TLS and authentication.",
    ),
    INITIAL_METADATA_VERSION: (
        "4.0-IV1 to 4.3-IV0, a release such as 4.2, or a level from 23 to 30",
        "The metadata.version of a new cluster, as `kafka-storage format --release-version` sets it. It has no effect "
        "on a cluster that exists; `kafka-features upgrade` changes that one's.",
    ),
}
"""By name of the setting, (allowed values, documentation). No setting has a default."""

_ADDRESS = re.compile(r"http://(?:\[(?P<bracketed>[0-9a-fA-F:.]+)\]|(?P<host>[0-9a-zA-Z._-]*)):(?P<port>\d{1,5})/?")
PORT_MAX = 65535


class InvalidAddress(ValueError):
    """The text is not an address to listen on."""


def metrics_listener(text: str) -> Listener | None:
    """Parse the text of `metrics.listener`; None if it is empty.

    Raises:
        InvalidAddress: The text is not `http://HOST:PORT`.
    """
    if not text.strip():
        return None
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > PORT_MAX:
        raise InvalidAddress(f"not an address (allowed: {OWN_SETTINGS[METRICS_LISTENER][0]})")
    return Listener("METRICS", found["bracketed"] or found["host"] or "", int(found["port"]), "HTTP")


def why_no_metadata_version(text: str) -> str | None:
    """Why `initial.metadata.version` cannot have this value, in words; None if the value is allowed."""
    if not text.strip():
        return None
    level = level_of_release(text)
    if level is None or level < METADATA_VERSION_MIN:
        why = "no such level" if level is None else "eligible leader replicas need metadata.version 23 (4.0-IV1)"
        return f"{why} (allowed: {OWN_SETTINGS[INITIAL_METADATA_VERSION][0]})"
    return None
