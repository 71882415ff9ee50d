"""`client_settings`: settings with which clients of other projects are quick in tests, and patient with faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CLIENTS", "client_settings"]


def _confluent(servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 10,
        "topic.metadata.refresh.interval.ms": 1_000,
        "broker.address.ttl": 100,
    }


def _java(servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "200",
        "retry.backoff.ms": "10",
        "metadata.max.age.ms": "1000",
    }


def _kafka_python(servers: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 200,
        "retry_backoff_ms": 10,
        "metadata_max_age_ms": 1_000,
    }


def _aiokafka(servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "retry_backoff_ms": 10, "metadata_max_age_ms": 1_000}


def _minikafka(servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "retry_backoff_ms": 10}


def _spark(servers: str) -> dict[str, Any]:
    return {"kafka.bootstrap.servers": servers}


CLIENTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "confluent": _confluent,
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
    "java": _java,
    "minikafka": _minikafka,
    "spark": _spark,
}
"""Each client's settings, by the name of the client."""


def client_settings(client: str, bootstrap_servers: str) -> dict[str, Any]:
    """The settings of a client, by its own names. Raises ValueError for a client that is not in `CLIENTS`."""
    if client not in CLIENTS:
        raise ValueError(f"there are settings for {', '.join(CLIENTS)}, not for {client!r}")
    return CLIENTS[client](bootstrap_servers)
