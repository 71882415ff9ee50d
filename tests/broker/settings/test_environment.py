"""Settings in environment variables, and the errors that name them."""

from __future__ import annotations

import pytest

from minikafka.broker.settings.environment import from_environment
from minikafka.broker.settings.node_config import ConfigError, load_config


def test_variables_are_spelled_as_in_apache_kafkas_image() -> None:
    assert from_environment(
        {
            "KAFKA_LISTENERS": "PLAINTEXT://:1",
            "KAFKA_LOG_DIRS": "/a",
            "MINIKAFKA_LOG_DIRS": "/b",
            "KAFKA_HEAP_OPTS": "-Xmx1G",
            "KAFKA_HEAP_OPT": "-Xmx1G",
            "KAFKA_VERSION": "4.3.1",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
            "MINIKAFKA_BOOTSTRAP_SERVER": "127.0.0.1:9092",
            "MINIKAFKA_CONTEXT": "prod",
            "MINIKAFKA_COMMAND_CONFIG": "client.properties",
            "PATH": "/bin",
        }
    ) == {"listeners": "PLAINTEXT://:1", "log.dirs": "/b"}
    assert from_environment({"KAFKA_A__B___C": "x"}) == {"a_b-c": "x"}


def test_variables_of_bitnamis_image_are_settings_that_others_override() -> None:
    given = {"KAFKA_CFG_NUM_PARTITIONS": "1", "KAFKA_CFG_LOG_DIRS": "/a", "KAFKA_CFG_MIN_INSYNC_REPLICAS": "2"}
    assert from_environment(given) == {"num.partitions": "1", "log.dirs": "/a", "min.insync.replicas": "2"}
    given |= {"KAFKA_NUM_PARTITIONS": "3", "MINIKAFKA_LOG_DIRS": "/b", "KAFKA_KRAFT_CLUSTER_ID": "x"}
    assert from_environment(given) == {"num.partitions": "3", "log.dirs": "/b", "min.insync.replicas": "2"}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"KAFKA_NUM_PARTITIONS": "0"},
            "num.partitions=0 (from the environment variable KAFKA_NUM_PARTITIONS): Value must be at least 1",
        ),
        (
            {"KAFKA_NUM_PARTITIONS": "3", "MINIKAFKA_NUM_PARTITIONS": "many"},
            "num.partitions=many (from the environment variable MINIKAFKA_NUM_PARTITIONS): Not a number",
        ),
        (
            {"KAFKA_CFG_NUM_PARTITIONS": "many"},
            "num.partitions=many (from the environment variable KAFKA_CFG_NUM_PARTITIONS): Not a number",
        ),
        (
            {"KAFKA_ADVERTISED_LISTENERS": "OTHER://x:1"},
            "advertised.listeners=OTHER://x:1 (from the environment variable KAFKA_ADVERTISED_LISTENERS): ",
        ),
    ],
)
def test_an_error_names_the_variable(environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(properties={"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, environment=environment)
    assert str(caught.value).startswith(said)


def test_an_error_does_not_name_a_variable_that_an_option_overrides() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(environment={"KAFKA_NUM_PARTITIONS": "3"}, settings={"num.partitions": "0"})
    assert "KAFKA_" not in str(caught.value)


def test_the_warning_of_an_unknown_name_names_the_variable() -> None:
    node = load_config(environment={"KAFKA_NUM_PARTITION": "3"})
    assert list(node.warnings()) == [
        "unknown setting num.partition in the environment variable KAFKA_NUM_PARTITION (did you mean num.partitions?)"
    ]
