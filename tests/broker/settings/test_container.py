"""The defaults of a node in a container."""

from __future__ import annotations

import pytest

from minikafka.broker.settings.container import DATA_DIRECTORY
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import NodeConfig, load_config


def container(**environment: str) -> NodeConfig:
    return load_config(environment=environment, in_container=True)


def test_a_container_without_settings_serves_the_host() -> None:
    node = container()
    assert node.is_alone
    assert node.client_listeners == (Listener("PLAINTEXT", "0.0.0.0", 9092, "PLAINTEXT"),)
    assert node.listeners.advertised == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert node.log_dirs == (DATA_DIRECTORY,)
    assert list(node.warnings()) == []


@pytest.mark.parametrize("host", ["localhost", "kafka.example", "[::1]"])
def test_listeners_follow_the_advertised_ones(host: str) -> None:
    node = container(
        KAFKA_ADVERTISED_LISTENERS=f"INSIDE://broker:19092,OUTSIDE://{host}:9092",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        KAFKA_INTER_BROKER_LISTENER_NAME="INSIDE",
    )
    assert [(one.name, one.host, one.port) for one in node.client_listeners] == [
        ("INSIDE", "0.0.0.0", 19092),
        ("OUTSIDE", "0.0.0.0", 9092),
    ]
    assert node.listeners.advertised[1].host == host.strip("[]")


def test_given_listeners_are_used_as_they_are() -> None:
    node = container(KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:5")
    assert node.client_listeners == (Listener("PLAINTEXT", "127.0.0.1", 5, "PLAINTEXT"),)
    assert node.listeners.advertised == node.client_listeners


@pytest.mark.parametrize("advertised", [{}, {"KAFKA_ADVERTISED_LISTENERS": ""}])
def test_a_controller_has_no_listeners_for_clients(advertised: dict[str, str]) -> None:
    node = container(
        KAFKA_PROCESS_ROLES="controller",
        KAFKA_LISTENERS="CONTROLLER://:9093",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_CONTROLLER_QUORUM_VOTERS="1@localhost:9093",
        **advertised,
    )
    assert node.client_listeners == ()


@pytest.mark.parametrize("name", ["KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"])
def test_a_given_data_directory_is_used(name: str) -> None:
    assert container(**{name: "/data"}).log_dirs == ("/data",)


def test_a_compose_file_for_kafkas_image_works_unchanged() -> None:
    """The settings of a broker in the examples of Apache Kafka, with two listeners and a quorum of three."""
    node = container(
        KAFKA_NODE_ID="4",
        KAFKA_PROCESS_ROLES="broker,controller",
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        KAFKA_LISTENERS="PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
        KAFKA_ADVERTISED_LISTENERS="PLAINTEXT://kafka-1:19092,PLAINTEXT_HOST://localhost:29092",
        KAFKA_INTER_BROKER_LISTENER_NAME="PLAINTEXT",
        KAFKA_CONTROLLER_LISTENER_NAMES="CONTROLLER",
        KAFKA_CONTROLLER_QUORUM_VOTERS="4@kafka-1:9093,5@kafka-2:9093,6@kafka-3:9093",
        KAFKA_LOG_DIRS="/tmp/kraft-combined-logs",
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS="0",
    )
    assert (node.node_id, node.is_alone) == (4, False)
    assert [one.host for one in node.listeners.advertised] == ["kafka-1", "localhost"]
    assert list(node.warnings()) == []
