"""An internal topic that cannot be created is reported with its reason, once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import structlog
import trio

from minikafka.broker.coordinator.coordinator_lookup import TRANSACTION, CoordinatorLookup
from minikafka.protocol.errors import CoordinatorNotAvailableError, ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

GROUP = 0


class Controller:
    """Answers CreateTopics with `error`, except for `__transaction_state`."""

    def __init__(self) -> None:
        self.error = ErrorCode.INVALID_CONFIG

    async def handle(self, request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
        (topic,) = request.topics
        error = self.error if topic.name == "__consumer_offsets" else ErrorCode.NONE
        result = CreatableTopicResult(name=topic.name, error_code=error, error_message=None)
        return CreateTopicsResponse(topics=[result])


def lookup(controller: Controller) -> CoordinatorLookup:
    config: Any = SimpleNamespace(number=lambda name: 1, for_internal_topic=lambda name, live_brokers: 1)
    image: Any = SimpleNamespace(topics={}, live_brokers=list)
    partition_of = dict.fromkeys(("__consumer_offsets", "__transaction_state"), lambda key: -1)
    return CoordinatorLookup(image, controller.handle, config, partition_of)


def warnings_of(found: CoordinatorLookup, *key_types: int) -> list[dict[str, Any]]:
    async def ask() -> None:
        for key_type in key_types:
            with pytest.raises(CoordinatorNotAvailableError):
                await found.coordinator_of(key_type, "a")

    with structlog.testing.capture_logs() as lines:
        trio.run(ask)
    return [line for line in lines if line["event"] == "internal topic not created"]


def test_a_refused_internal_topic_is_reported_once_for_each_reason() -> None:
    controller = Controller()
    found = lookup(controller)
    (line,) = warnings_of(found, GROUP, GROUP, TRANSACTION)
    assert (line["topic"], line["error"]) == ("__consumer_offsets", "INVALID_CONFIG")
    controller.error = ErrorCode.INVALID_REPLICATION_FACTOR
    assert [line["error"] for line in warnings_of(found, GROUP, GROUP)] == ["INVALID_REPLICATION_FACTOR"]
    controller.error = ErrorCode.TOPIC_ALREADY_EXISTS
    assert warnings_of(found, GROUP) == []
