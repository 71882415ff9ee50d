"""A value that brokers refuse is named, with the settings that limit it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.node import NodeProcess

from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.client.broker_limits import LIMITED
from minikafka.client.options import ConsumerOptions, ProducerOptions
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.settings.registry import NODE_SETTINGS


def consume(bootstrap: str, value: int) -> None:
    with Consumer("t", bootstrap_servers=bootstrap, group_id="g", session_timeout_ms=value) as consumer:
        for _ in range(100):
            consumer.poll(100)


def produce(bootstrap: str, value: int) -> None:
    with Producer(bootstrap, transactional_id="t", transaction_timeout_ms=value) as producer:
        producer.send_and_wait("t", b"x")


REFUSED: dict[str, tuple[Any, int]] = {
    "session_timeout_ms": (consume, 100_000_000),
    "transaction_timeout_ms": (produce, 100_000_000),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("limits") / "data") as node, Admin(node.bootstrap) as admin:
        admin.create_topic("t", partitions=1)
        yield node


def test_each_option_is_limited_by_settings_that_exist() -> None:
    assert {name for name, _ in LIMITED.values()} == REFUSED.keys()
    for name, demand in LIMITED.values():
        assert name in {**ConsumerOptions.defaults(), **ProducerOptions.defaults()}
        settings = [one for one in demand.replace("brokers'", "").split() if "." in one]
        assert settings
        assert set(settings) <= set(NODE_SETTINGS)


@pytest.mark.slow
@pytest.mark.parametrize("option", REFUSED)
def test_the_error_names_value_and_limits(node: NodeProcess, option: str) -> None:
    call, value = REFUSED[option]
    demand = next(demand for name, demand in LIMITED.values() if name == option)
    with pytest.raises(KafkaError) as raised:
        call(node.bootstrap, value)
    assert f": {option}={value} {demand}" in str(raised.value)
