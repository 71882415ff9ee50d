"""`DirectoryReports`: tells the controller of failed data directories, and of the directory of each replica (KIP-858).

    a log is opened or created  ──► AssignReplicasToDirs, unless the metadata names the directory of the replica already
    a directory fails           ──► heartbeats name it, until the registration in the metadata lists it no longer
    cordoned directories change ──► heartbeats name all cordoned ones, until the registration does so, too (KIP-1066)

A replica that cannot be opened is assigned to `LOST`. The node stops if its last data directory has failed, or if the
directory of the metadata log has failed. The node also stops if it cannot tell the controller of a failure for
`log.dir.failure.timeout.ms`: otherwise the node would go on to lead partitions that it cannot serve.

`DirectoryReports.run` is a trio task. Source: Kafka's `AssignmentsManager`, `BrokerLifecycleManager`.
"""

from itertools import groupby, islice
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.metadata_log_settings import metadata_directory
from minikafka.protocol.errors import ErrorCode, KafkaError, KafkaStorageError
from minikafka.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.storage.directories.directory_ids import UNASSIGNED
from minikafka.storage.directories.log_manager import LogManager

__all__ = ["DirectoryReports"]

log = structlog.get_logger("minikafka.directories")

ASSIGN_VERSION, HEARTBEAT_VERSION = 0, 2
REPLICAS_MAX = 2250
"""The largest number of replicas in one request, as in Kafka."""
RETRY_S = 0.1
RESPONSE_TIMEOUT_S = 5.0
_SETTLED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""The result codes after which a replica needs no other report: it is assigned, or does not exist any more."""
Replica = tuple[bytes, int]
"""Topic id and partition."""


class Controller(Protocol):
    """The operations of the controller that `DirectoryReports` needs."""

    broker_epoch: int

    @property
    def image(self) -> Image: ...

    @property
    def offset(self) -> int: ...

    async def handle(self, request: Any, version: int) -> Any:
        """The active controller's response. Raises KafkaError."""
        ...


class DirectoryReports:
    """Reports the failed and cordoned data directories of this broker, and the directories of its replicas.

    Args:
        config: The settings of the node.
        controller: Receives the reports.
        logs: The logs of this node, with its data directories.
    """

    def __init__(self, config: NodeConfig, controller: Controller, logs: LogManager) -> None:
        self._node_id = config.node_id
        self._controller = controller
        self._logs = logs
        self._metadata_directory = metadata_directory(config.static)
        self._timeout_ms = config.number("log.dir.failure.timeout.ms")
        self._assigned: dict[Replica, bytes] = {}
        self._changed = trio.Event()
        self._scope = trio.CancelScope()

    def assign(self, topic_id: bytes, index: int, directory: bytes) -> None:
        """Report that this node's replica of a partition is in a directory. `run` sends the report later.

        Args:
            topic_id: The topic of the partition.
            index: The index of the partition.
            directory: The id of the data directory.
        """
        self._assigned[topic_id, index] = directory
        self._changed.set()

    def directories_changed(self) -> None:
        """Make `run` look at all data directories. Called after one has failed, or has been cordoned or uncordoned."""
        self._changed.set()

    def check(self) -> None:
        """Check that this node can go on.

        Raises:
            KafkaStorageError: No data directory is left, or that of the metadata log has failed.
        """
        logs = self._logs
        failed = [one for one in logs.directories if one.failure is not None]
        texts = "; ".join(f"{one.path}: {one.failure}" for one in failed)
        if failed and not logs.healthy:
            raise KafkaStorageError(f"the node stops, since all its data directories have failed: {texts}")
        if any(one.path == self._metadata_directory for one in failed):
            raise KafkaStorageError(f"the node stops, since the directory of its metadata log has failed: {texts}")

    def stop(self) -> None:
        """End `run`. A broker that shuts down must send no other heartbeats."""
        self._scope.cancel()

    async def run(self) -> None:
        """Report until cancelled or stopped. To be called once this broker may be unfenced.

        Raises:
            KafkaStorageError: As `check`; or the controller was not told of a failure within the timeout.
        """
        with self._scope:
            failed_at: float | None = None
            while True:
                changed = self._changed = trio.Event()
                self.check()
                unreported = self._unreported()
                failed_at = None if not unreported else trio.current_time() if failed_at is None else failed_at
                if failed_at is not None and trio.current_time() - failed_at > self._timeout_ms / 1000:
                    raise KafkaStorageError(
                        f"the node stops, since the controller could not be told for {self._timeout_ms} ms that a data "
                        "directory has failed"
                    )
                if unreported or self._is_cordoning_unreported():
                    await self._send_heartbeat(unreported)
                elif self._assigned and self._controller.broker_epoch >= 0:
                    await self._send_assignments()
                else:
                    await changed.wait()
                    continue
                if self._unreported() or self._assigned or self._is_cordoning_unreported():
                    await trio.sleep(RETRY_S)

    def _unreported(self) -> list[bytes]:
        """The ids of failed directories that the registration of this process in the metadata still lists."""
        broker = self._controller.image.brokers.get(self._node_id)
        if broker is None or broker.epoch != self._controller.broker_epoch:
            return []
        failed = [one.id for one in self._logs.directories if one.failure is not None and one.id != UNASSIGNED]
        return [directory for directory in failed if directory in broker.log_dirs]

    def _is_cordoning_unreported(self) -> bool:
        """Whether the cordoned directories in the metadata differ from the cordoned directories of this process."""
        broker = self._controller.image.brokers.get(self._node_id)
        if broker is None or broker.epoch != self._controller.broker_epoch:
            return False
        return broker.cordoned != tuple(self._logs.cordoned_ids())

    async def _send_heartbeat(self, failed: list[bytes]) -> None:
        if failed:
            log.warning("reporting failed log directories", directories=len(failed))
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self._controller.broker_epoch,
            current_metadata_offset=self._controller.offset,
            want_fence=False,
            offline_log_dirs=failed,
            cordoned_log_dirs=self._logs.cordoned_ids(),
        )
        await self._send(request, HEARTBEAT_VERSION)

    async def _send(self, request: Any, version: int) -> Any:
        """Send a request to the controller. Returns None if the request fails or is not answered in time."""
        with trio.move_on_after(RESPONSE_TIMEOUT_S):
            try:
                return await self._controller.handle(request, version)
            except KafkaError as error:
                log.info("directory report failed", error=f"{error!r}")
        return None

    async def _send_assignments(self) -> None:
        wanted = sorted((directory, *replica) for replica, directory in islice(self._assigned.items(), REPLICAS_MAX))
        request = AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._controller.broker_epoch, directories=_directories(wanted)
        )
        response: AssignReplicasToDirsResponse | None = await self._send(request, ASSIGN_VERSION)
        if response is None or response.error_code:
            return
        for directory in response.directories:
            for topic in directory.topics:
                for one in topic.partitions:
                    replica = topic.topic_id, one.partition_index
                    if one.error_code in _SETTLED and self._assigned.get(replica) == directory.id:
                        del self._assigned[replica]


def _directories(wanted: list[tuple[bytes, bytes, int]]) -> list[RequestDirectoryData]:
    return [
        RequestDirectoryData(
            id=directory,
            topics=[
                RequestTopicData(
                    topic_id=topic_id, partitions=[RequestPartitionData(partition_index=one[2]) for one in replicas]
                )
                for topic_id, replicas in groupby(of_directory, lambda one: one[1])
            ],
        )
        for directory, of_directory in groupby(wanted, lambda one: one[0])
    ]
