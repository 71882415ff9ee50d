"""Settings of a node that Kafka does not have. They are read at the start, and DescribeConfigs does not show them."""

import re

from minikafka.broker.settings.listeners import Listener

__all__ = ["METRICS_LISTENER", "OWN_SETTINGS", "InvalidAddress", "metrics_listener"]

METRICS_LISTENER = "metrics.listener"
OWN_SETTINGS: dict[str, tuple[str, str]] = {
    METRICS_LISTENER: (
        "http://HOST:PORT, or empty for none",
        "Where the node serves its metrics over HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`. "
        "An empty host is all addresses, port 0 a free port, which the log names. Without TLS and authentication.",
    ),
}
"""Name: (allowed values, documentation). None of them is set by default."""

_ADDRESS = re.compile(r"http://(?:\[(?P<bracketed>[0-9a-fA-F:.]+)\]|(?P<host>[0-9a-zA-Z._-]*)):(?P<port>\d{1,5})/?")
PORT_MAX = 65535


class InvalidAddress(ValueError):
    """The text is no address to listen on."""


def metrics_listener(text: str) -> Listener | None:
    """`metrics.listener`; None if it is empty.

    Raises:
        InvalidAddress: The text is not `http://HOST:PORT`.
    """
    if not text.strip():
        return None
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found["port"]) > PORT_MAX:
        raise InvalidAddress(f"not an address (allowed: {OWN_SETTINGS[METRICS_LISTENER][0]})")
    return Listener("METRICS", found["bracketed"] or found["host"] or "", int(found["port"]), "HTTP")
