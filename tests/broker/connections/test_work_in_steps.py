"""What is done for each element of a large request, or for each connection, lets other tasks run in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.apis import delete_records, describe_log_dirs, metadata, produce
from minikafka.broker.connections.activity import Activity
from minikafka.broker.connections.idle_connections import CHECK_INTERVAL_S, close_idle_connections
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.replication.replica_moves import Move, ReplicaMoves
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.elements import BYTES_PER_ELEMENT
from minikafka.protocol.errors import UnknownTopicOrPartitionError
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.protocol.messages.metadata import MetadataRequestTopic
from minikafka.protocol.messages.produce import PartitionProduceData, TopicProduceData
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import EVERY, Pauses

MANY = 10 * EVERY


class StepCounter(trio.abc.Instrument):
    """Counts the steps of each task by its name."""

    def __init__(self) -> None:
        self.steps = Counter[str]()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps[task.name] += 1


async def names_of_metadata() -> None:
    topics = [MetadataRequestTopic(name=f"topic-{number}") for number in range(MANY)]
    assert len((await metadata._requested(topics, Pauses()))[1]) == MANY


async def partitions_of_produce() -> None:
    data = [PartitionProduceData(index=index, records=None) for index in range(MANY)]
    assert not await produce._any_is_transactional([TopicProduceData(name="t", partition_data=data)], Pauses())


async def idle_connections() -> None:
    connections: Any = {QuietConnection(): None for _ in range(MANY)}
    with trio.move_on_after(1.5 * CHECK_INTERVAL_S):
        await close_idle_connections(connections, -1)


async def partitions_of_describe_log_dirs() -> None:
    logs: Any = {TopicPartition("t", number): SimpleNamespace(size_bytes=0, end_offset=0) for number in range(MANY)}
    directory = SimpleNamespace(path="/data", sizes=lambda: (2, 1), cordoned=False, logs=logs, futures={})
    replicas = SimpleNamespace(logs=SimpleNamespace(directories=[directory]))
    services: Any = SimpleNamespace(replicas=replicas, partitions=SimpleNamespace(get=lambda *_: None))
    context: Any = SimpleNamespace(services=services, access=UNRESTRICTED)
    answer = await describe_log_dirs.handle(DescribeLogDirsRequest(topics=None), context)
    assert len(answer.results[0].topics[0].partitions) == MANY


async def partitions_of_delete_records() -> None:
    def find(topic: str, index: int) -> Any:
        raise UnknownTopicOrPartitionError

    wanted = [DeleteRecordsPartition(partition_index=number, offset=0) for number in range(MANY)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=wanted)], timeout_ms=0)
    services: Any = SimpleNamespace(partitions=SimpleNamespace(find=find))
    context: Any = RequestContext(services, 2, "", ConnectionInfo("", ""))
    answer = await delete_records.handle(request, context)
    assert len(answer.topics[0].partitions) == MANY


async def replicas_that_are_moved() -> None:
    nothing: Any = None
    moves = ReplicaMoves(1, nothing, nothing, nothing, nothing, nothing)
    for number in range(MANY):
        moves._moves[TopicPartition("t", number)] = Move(nothing, nothing, nothing, delayed_until_ms=1 << 62)
    await moves._advance_all()


async def long_names() -> None:
    pause = Pauses()
    for _ in range(MANY // EVERY):
        await pause("n" * EVERY * BYTES_PER_ELEMENT)


class QuietConnection:
    busy = False
    rooms_in_transfer = ()

    @property
    def activity(self) -> Activity:
        return Activity(SimpleNamespace(moved_bytes=0), trio.current_time)  # type: ignore[arg-type]


WORK = [
    names_of_metadata,
    partitions_of_produce,
    partitions_of_describe_log_dirs,
    partitions_of_delete_records,
    replicas_that_are_moved,
    idle_connections,
    long_names,
]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_others_run_in_between(work: Callable[[], Awaitable[None]]) -> None:
    counter = StepCounter()
    trio.run(work, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[counter])
    assert counter.steps[f"{__name__}.{work.__name__}"] >= MANY // EVERY
