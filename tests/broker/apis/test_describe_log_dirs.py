"""DescribeLogDirs: each directory of `log.dirs` names the partitions that it holds."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from support.logs import PARTITION, Clock, memory_disk

from minikafka.broker.apis.describe_log_dirs import handle
from minikafka.broker.apis.services import LogDirectory
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.storage.log_manager import LogManager


def described(held_by: str, *directories: LogDirectory) -> dict[str, tuple[int, list[str]]]:
    """Error code and topics by directory, of a node whose only partition is in `held_by`."""
    logs = LogManager(memory_disk(), [held_by], now_ms=Clock(), random=Random(1), node_id=1, cluster_id="c" * 22)
    logs.load()
    partition = SimpleNamespace(topic_partition=PARTITION, log=logs.create(PARTITION), high_watermark=0)
    held = {one.path: one.logs for one in logs.directories}
    listed = [one if one.failed else replace(one, logs=held.get(one.path, {})) for one in directories]
    partitions = SimpleNamespace(get=lambda *key: {PARTITION: partition}.get(key))
    services = SimpleNamespace(log_directories=lambda: listed, partitions=partitions)
    response = trio.run(handle, DescribeLogDirsRequest(topics=None), cast(Any, SimpleNamespace(services=services)))
    return {one.log_dir: (one.error_code, [topic.name for topic in one.topics]) for one in response.results}


@pytest.mark.parametrize("path", ["/data/a", "/data/a/"])
def test_a_partition_is_named_by_the_directory_that_holds_it(path: str) -> None:
    found = described(path, LogDirectory("/data/b", 2, 1), LogDirectory(path, 2, 1))
    assert found == {"/data/b": (ErrorCode.NONE, []), path: (ErrorCode.NONE, [PARTITION.topic])}


def test_a_failed_directory_has_an_error_and_no_partitions() -> None:
    found = described("/data/a", LogDirectory("/data/a", failed=True))
    assert found == {"/data/a": (ErrorCode.KAFKA_STORAGE_ERROR, [])}
