"""APIs that the controller carries out, when the disk of its metadata is full."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from minikafka.broker.apis.forwarded import forward
from minikafka.protocol.errors import ErrorCode, KafkaStorageError
from minikafka.protocol.messages import create_partitions, create_topics, delete_topics, incremental_alter_configs
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

REQUESTS: list[tuple[Any, str]] = [
    (create_topics.CreateTopicsRequest(topics=[create_topics.CreatableTopic(name="t")]), "topics"),
    (
        create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name="t", assignments=None)]
        ),
        "results",
    ),
    (delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="t")]), "responses"),
    (delete_topics.DeleteTopicsRequest(topic_names=["t"]), "responses"),
    (
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[incremental_alter_configs.AlterConfigsResource(resource_name="t")]
        ),
        "responses",
    ),
]


class FullController:
    """A controller that can change nothing."""

    async def handle(self, request: object, version: int) -> object:
        raise KafkaStorageError("no space left")


CONTEXT: Any = SimpleNamespace(services=SimpleNamespace(controller=FullController()), version=1)


@pytest.mark.parametrize(("request_", "results"), REQUESTS)
def test_each_topic_has_the_error_of_a_full_disk(request_: Any, results: str) -> None:
    [one] = getattr(trio.run(forward, request_, CONTEXT), results)
    assert getattr(one, "name", None) or one.resource_name == "t"
    assert (one.error_code, one.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "no space left")


def test_an_error_of_the_whole_request_is_left_to_the_dispatcher() -> None:
    with pytest.raises(KafkaStorageError):
        trio.run(forward, UnregisterBrokerRequest(), CONTEXT)
