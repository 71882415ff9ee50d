"""`CoordinatorParts`: creates and connects the coordinators of a node, and tells them which partitions it leads."""

from minikafka.broker.coordinator.coordinator_lookup import CoordinatorLookup
from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.groups.group_settings import ConsumerGroupTimes, GroupSettings
from minikafka.broker.coordinator.internal_topic import InternalTopic
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC as TRANSACTIONS_TOPIC
from minikafka.broker.coordinator.transactions.transaction_coordinator import Run
from minikafka.broker.coordinator.transactions.transaction_parts import TransactionParts
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.seams import Seams
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType


class CoordinatorParts:
    """The coordinators of a broker. For the arguments see `TransactionParts`.

    Attributes:
        groups: The coordinator of groups.
        transactions: The coordinator of transactions, and what serves transactions besides.
        lookup: Finds the coordinators of all groups and transactional ids of the cluster.
    """

    def __init__(
        self,
        config: NodeConfig,
        controller: QuorumController,
        partitions: Partitions,
        seams: Seams,
        effective: EffectiveSettings,
        run: Run,
    ) -> None:
        image = controller.image
        self._effective = effective
        environment = InternalTopic(image, partitions, seams.now_ms)
        settings = GroupSettings.of(config.values)
        times, has_lease = self._consumer_times, controller.has_lease
        self.groups = GroupCoordinator(environment, settings, seams.random, image, times, has_lease)
        self.transactions = TransactionParts(config, controller, partitions, self.groups, seams, effective, run)
        transactions_of = self.transactions.coordinator.partition_of
        partition_of = {OFFSETS_TOPIC: self.groups.partition_of, TRANSACTIONS_TOPIC: transactions_of}
        self.lookup = CoordinatorLookup(image, controller.handle, config, partition_of)

    def _consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        if self._effective.image.config(ResourceType.GROUP, group_id):
            return ConsumerGroupTimes.of_group(self._effective.group(group_id))
        return ConsumerGroupTimes.of_node(self._effective.node())

    def elected(self, partition: Partition) -> None:
        """Coordinate the keys of a partition that this node leads now, if it belongs to an internal topic."""
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.elected(index, partition.leader_epoch)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.coordinator.runtime.elected(index, partition.leader_epoch)

    def resigned(self, partition: Partition) -> None:
        """End what `elected` began: this node does not lead the partition any more."""
        topic, index = partition.topic_partition
        if topic == OFFSETS_TOPIC:
            self.groups.resigned(index)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.coordinator.runtime.resigned(index)
