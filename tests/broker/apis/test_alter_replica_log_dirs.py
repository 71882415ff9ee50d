"""AlterReplicaLogDirs: of a partition that is named several times the last directory counts; topics are listed once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import trio

from minikafka.broker.apis.alter_replica_log_dirs import handle
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.names import TopicPartition


def test_the_last_directory_of_a_partition_counts() -> None:
    asked: dict[TopicPartition, str] = {}

    def request(key: TopicPartition, path: str) -> ErrorCode:
        assert key not in asked
        asked[key] = path
        return ErrorCode.NONE if key.partition else ErrorCode.LOG_DIR_NOT_FOUND

    replicas = SimpleNamespace(moves=SimpleNamespace(request=request))
    context = SimpleNamespace(services=SimpleNamespace(replicas=replicas), access=UNRESTRICTED)
    topics = [
        AlterReplicaLogDirTopic(name="a", partitions=[0, 1, 0]),
        AlterReplicaLogDirTopic(name="b", partitions=[1]),
    ]
    dirs = [
        AlterReplicaLogDir(path="/one", topics=topics),
        AlterReplicaLogDir(path="/two", topics=[AlterReplicaLogDirTopic(name="a", partitions=[1, 2])]),
    ]
    response = trio.run(handle, AlterReplicaLogDirsRequest(dirs=dirs), cast(Any, context))
    assert asked == {("a", 0): "/one", ("a", 1): "/two", ("b", 1): "/one", ("a", 2): "/two"}
    assert [(one.topic_name, [part.partition_index for part in one.partitions]) for one in response.results] == [
        ("a", [0, 1, 2]),
        ("b", [1]),
    ]
    assert response.results[0].partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND
