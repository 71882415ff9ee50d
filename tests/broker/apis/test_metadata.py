"""Metadata: pipelined requests for very many partitions are answered in steps, between which other tasks run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog.testing
import trio

from minikafka.broker.apis import cluster_answers
from minikafka.broker.apis.metadata import handle
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.coordinator.refused_topics import RefusedTopics
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionRecord, TopicRecord
from minikafka.controller.security.access import Access
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import RequestTimedOutError
from minikafka.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.storage.steps import EVERY

TOPICS, PARTITIONS, PIPELINED = 10, 500, 8


def image() -> Image:
    made = Image()
    for number in range(TOPICS):
        topic_id = number.to_bytes(16, "big")
        made.apply(TopicRecord(topic_id, f"topic-{number}"))
        for partition in range(PARTITIONS):
            made.apply(PartitionRecord(topic_id, partition, (1,), (1,), 1))
    return made


@pytest.mark.slow
def test_others_run_after_every_few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    fetchers = SimpleNamespace(recently_lost=lambda node_id: False)
    setup = SimpleNamespace(config=SimpleNamespace(node_id=1))
    services = SimpleNamespace(image=image(), setup=setup, replicas=SimpleNamespace(fetchers=fetchers))
    context = RequestContext(cast(Any, services), 9, "client", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
    answered, steps = 0, list[int]()
    answer = cluster_answers._partition_answer

    def counted(*arguments: Any) -> Any:
        nonlocal answered
        answered += 1
        return answer(*arguments)

    async def another(done: trio.Event) -> None:
        before = answered
        while not done.is_set():
            await trio.lowlevel.checkpoint()
            steps.append(answered - before)
            before = answered

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            done = trio.Event()
            nursery.start_soon(another, done)
            for _ in range(PIPELINED):
                response = await handle(MetadataRequest(topics=None), context)
                assert sum(len(topic.partitions) for topic in response.topics) == TOPICS * PARTITIONS
            done.set()

    monkeypatch.setattr(cluster_answers, "_partition_answer", counted)
    trio.run(main)
    assert sum(steps) >= answered - 2 * EVERY
    assert max(steps) <= 3 * EVERY, "two steps, and the end of a request before them"


@pytest.mark.parametrize("fails", [False, True], ids=["one topic is refused", "the request fails"])
def test_a_topic_that_the_controller_refuses_is_unknown_and_logged_once(*, fails: bool) -> None:
    """As in Apache Kafka, which says so for each request: `Auto topic creation failed for missing with error …`."""

    async def create(request: CreateTopicsRequest, version: int, access: Access) -> CreateTopicsResponse:
        if fails:
            raise RequestTimedOutError("no controller")
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=topic.name, error_code=code, error_message="no controller")
                for topic in request.topics
            ]
        )

    config = SimpleNamespace(node_id=1, flag=lambda name: True, number=lambda name: 3)
    services = SimpleNamespace(
        image=Image(),
        setup=SimpleNamespace(config=config),
        controller=SimpleNamespace(handle=create),
        refused_topics=RefusedTopics(),
    )
    context = RequestContext(cast(Any, services), 9, "client", ConnectionInfo("PLAINTEXT", "127.0.0.1"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="missing"), MetadataRequestTopic(name="bad name")])
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            answers = {topic.name: topic.error_code for topic in trio.run(handle, request, context).topics}
            assert answers == {
                "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }
    [line] = logs
    assert line == {
        "event": "topic not created on demand",
        "log_level": "warning",
        "topic": "missing",
        "error": "no controller",
        "asked": 1,
    }
