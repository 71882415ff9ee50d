"""DescribeLogDirs: each directory of `log.dirs` names the partitions that it holds."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from support.logs import PARTITION, Clock, memory_disk

from minikafka.broker.apis.describe_log_dirs import handle
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import EVERY


def a_directory(path: str, sizes: tuple[int, int] | None = (2, 1)) -> Any:
    return SimpleNamespace(path=path, sizes=lambda: sizes, cordoned=False, logs={}, futures={})


def services_of(directories: list[Any], partitions: Any) -> Any:
    logs = SimpleNamespace(directories=directories)
    services = SimpleNamespace(replicas=SimpleNamespace(logs=logs), partitions=partitions)
    return SimpleNamespace(services=services, access=UNRESTRICTED)


def described(held_by: str, *directories: Any) -> dict[str, tuple[int, list[str]]]:
    """Error code and topics by directory, of a node whose only partition is in `held_by`."""
    logs = LogManager(LogContext(memory_disk(), Clock(), Random(1)), [held_by], node_id=1, cluster_id="c" * 22)
    logs.load()
    partition = SimpleNamespace(topic_partition=PARTITION, log=logs.create(PARTITION), high_watermark=0)
    held = {one.path: one.logs for one in logs.directories}
    for one in directories:
        one.logs = held.get(one.path, {})
    context = services_of([*directories], SimpleNamespace(get=lambda *key: {PARTITION: partition}.get(key)))
    response = trio.run(handle, DescribeLogDirsRequest(topics=None), context)
    return {one.log_dir: (one.error_code, [topic.name for topic in one.topics]) for one in response.results}


@pytest.mark.parametrize("path", ["/data/a", "/data/a/"])
def test_a_partition_is_named_by_the_directory_that_holds_it(path: str) -> None:
    found = described(path, a_directory("/data/b"), a_directory(path))
    assert found == {"/data/b": (ErrorCode.NONE, []), path: (ErrorCode.NONE, [PARTITION.topic])}


@pytest.mark.parametrize("is_future", [False, True])
def test_logs_that_are_deleted_or_replaced_during_a_pause_are_left_out(is_future: bool) -> None:
    logs: dict[TopicPartition, Any] = {
        TopicPartition("a", index): SimpleNamespace(size_bytes=index, end_offset=0) for index in range(EVERY + 10)
    }
    directory = a_directory("/data")
    setattr(directory, "futures" if is_future else "logs", logs)
    context = services_of([directory], SimpleNamespace(get=lambda *key: None))
    found: list[Any] = []

    async def describe() -> None:
        found.append(await handle(DescribeLogDirsRequest(topics=None), context))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(describe)
            await trio.lowlevel.checkpoint()
            assert not found, "it pauses"
            for index in range(EVERY, EVERY + 5):
                del logs["a", index]  # type: ignore[arg-type]
            logs[TopicPartition("a", EVERY + 5)] = SimpleNamespace(size_bytes=0, end_offset=0)

    trio.run(main)
    (topic,) = found[0].results[0].topics
    indexes = {one.partition_index for one in topic.partitions}
    assert indexes == {*range(EVERY), *range(EVERY + 6, EVERY + 10)}


def test_a_failed_directory_has_an_error_and_no_partitions() -> None:
    found = described("/data/a", a_directory("/data/a", None))
    assert found == {"/data/a": (ErrorCode.KAFKA_STORAGE_ERROR, [])}
