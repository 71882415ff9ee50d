"""`ReplicaParts`: creates and connects what creates, copies and moves the replicas of a node, as the metadata says."""

from collections.abc import Callable
from dataclasses import replace

from minikafka.broker.partitions.follower_progress import ReplicaEnvironment
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower, ReplicaEvents
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.broker.partitions.request_waiters import steady_ms
from minikafka.broker.replication.isr_changes import AlterPartitionManager
from minikafka.broker.replication.replica_fetcher import ReplicaFetcherManager
from minikafka.broker.replication.replica_moves import ReplicaMoves
from minikafka.broker.replication.replication_throttle import FOLLOWER, LEADER, move_throttle, throttle_of
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.seams import Seams
from minikafka.controller.quorum_controller import QuorumController
from minikafka.storage.directories.log_manager import LogManager


class ReplicaParts:
    """What keeps the replicas of a broker as the metadata says.

    Args:
        events: What else follows from a new role of a replica.
        placed: See `ReplicaLogs`.

    Attributes:
        logs: The logs on disk, in their data directories.
        leader_throttle: The throttle of replication from this node.
        fetchers: Fetch from the leaders that this node follows.
        isr_changes: Has the controller change the ISR of partitions that this node leads.
        moves: Moves replicas between data directories.
        follower: Creates, changes and removes replicas, and loads coordinators.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: QuorumController,
        partitions: Partitions,
        logs: LogManager,
        seams: Seams,
        events: ReplicaEvents,
        placed: Callable[[bytes, int, bytes], None],
    ) -> None:
        def broker_epoch() -> int:
            return controller.broker_epoch

        node_id, image, number = config.node_id, controller.image, config.number
        window = number("replication.quota.window.num"), number("replication.quota.window.size.seconds") * 1000
        moved = "alter.log.dirs.replication.quota.window"
        moves_throttle = move_throttle(node_id, image, number(f"{moved}.num"), number(f"{moved}.size.seconds") * 1000)
        lag_ms_max = number("replica.lag.time.max.ms")
        self.logs = logs
        self.leader_throttle = throttle_of(LEADER, node_id, image, *window)
        followers = throttle_of(FOLLOWER, node_id, image, *window)
        self.fetchers = ReplicaFetcherManager(config, image, broker_epoch, seams, followers)
        self.isr_changes = AlterPartitionManager(node_id, broker_epoch, partitions, controller.handle, lag_ms_max)
        self.moves = ReplicaMoves(node_id, image, logs, partitions, moves_throttle, placed)
        self.follower = MetadataFollower(
            node_id,
            image,
            ReplicaLogs(
                node_id,
                image,
                logs,
                logs.config_of,
                placed=placed,
                target_of=self.moves.target_of,
                environment=ReplicaEnvironment(steady_ms, lambda: image.brokers, lag_ms_max),
            ),
            partitions,
            replace(events, isr_change_wanted=self.isr_changes.request_change),
            fetchers=self.fetchers,
            moves=self.moves,
        )
