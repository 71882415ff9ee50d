"""The port that the health check asks, without a container."""

from __future__ import annotations

import importlib.util

import pytest
from support.containers import ROOT


def port_of(environment: dict[str, str]) -> int:
    spec = importlib.util.spec_from_file_location("health", ROOT / "docker" / "health.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    port: int = module.port_of(environment)
    return port


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({}, 9092),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.example:9192"}, 9192),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://x:2"}, 1),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1", "MINIKAFKA_LISTENERS": "PLAINTEXT://[::]:2"}, 2),
        (
            {
                "KAFKA_LISTENERS": "controller://:1, CLIENTS://0.0.0.0:2,OTHERS://:3",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            },
            2,
        ),
    ],
)
def test_the_port_is_that_of_the_first_listener_for_clients(environment: dict[str, str], port: int) -> None:
    assert port_of(environment) == port
