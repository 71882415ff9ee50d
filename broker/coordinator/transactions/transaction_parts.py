"""`TransactionParts`: creates and connects the parts of a node that serve transactions and idempotent producers.

They are the coordinator, the writing of its markers, the verification of partitions, and the producer ids.
"""

import trio

from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.internal_topic import InternalTopic
from minikafka.broker.coordinator.transactions.broker_requests import BrokerConnections
from minikafka.broker.coordinator.transactions.marker_channel import MarkerChannel
from minikafka.broker.coordinator.transactions.marker_log import MarkerLog
from minikafka.broker.coordinator.transactions.producer_ids import ProducerIds
from minikafka.broker.coordinator.transactions.transaction_coordinator import Run, TransactionCoordinator
from minikafka.broker.coordinator.transactions.transaction_questions import TransactionQuestions
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.seams import Seams
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.effective_settings import EffectiveSettings

TRANSACTION_VERSION = "transaction.version"
VERIFICATION = "transaction.partition.verification.enable"


class TransactionParts:
    """The parts that a broker needs for transactions and for idempotent producers.

    Markers and verifications use separate connections to other brokers. A marker waits for replicas, and must not delay
    the verification that a produce request waits for.

    Args:
        effective: The settings that are in effect.
        run: Calls a function in a worker thread, as `Disk.run`.

    Attributes:
        coordinator: Coordinates transactional ids.
        transaction_questions: Asks the coordinators whether a partition belongs to a transaction, before an append.
        marker_log: Writes markers to the partitions of this node.
        producer_ids: Hands out producer ids, which are unique in the cluster.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: QuorumController,
        partitions: Partitions,
        groups: GroupCoordinator,
        seams: Seams,
        effective: EffectiveSettings,
        run: Run,
    ) -> None:
        image, settings = controller.image, TransactionSettings.of(config.values)
        self._marker_connections = BrokerConnections(config, image, seams, "markers")
        self._question_connections = BrokerConnections(config, image, seams, "verifier")
        self.producer_ids = ProducerIds(controller.allocate_producer_ids)
        self.marker_log = MarkerLog(partitions, groups, seams.now_ms, settings.request_timeout_ms)
        markers = MarkerChannel(config.node_id, image, self.marker_log, self._marker_connections)
        self.coordinator = TransactionCoordinator(
            InternalTopic(image, partitions, seams.now_ms),
            settings,
            self.producer_ids.next,
            lambda: image.features.get(TRANSACTION_VERSION, 0),
            markers,
            run,
        )
        self.transaction_questions = TransactionQuestions(
            config.node_id,
            image,
            self.coordinator,
            self._question_connections,
            settings,
            lambda: bool(effective.node_value(VERIFICATION)),
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the coordinator and the connections until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._marker_connections.run)
            await nursery.start(self._question_connections.run)
            await nursery.start(self.coordinator.run)
            task_status.started()
