"""Finds the coordinator of a group or a transactional id: a leader of an internal topic, which is made if missing.

The partition of a group is in `__consumer_offsets`, that of a transactional id in `__transaction_state`. The first
lookup creates the topic, as in Kafka. If the controller refuses to create the topic, for example because the segment
size is below the minimum of 1 MiB, clients are told to try again, as by Kafka, and the reason is logged once.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC as OFFSETS_TOPIC
from minikafka.broker.coordinator.internal_topic import leader_of
from minikafka.broker.coordinator.refused_topics import RefusedTopics
from minikafka.broker.coordinator.transactions.transaction_coordinator import TOPIC as TRANSACTIONS_TOPIC
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import CoordinatorNotAvailableError
from minikafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

log = structlog.get_logger("minikafka.coordinator")

CREATE_TOPICS_VERSION = 7
TRANSACTION = 1
"""The key type of transactional ids."""


class CoordinatorLookup:
    """Finds coordinators in the cluster's metadata, and has the controller create missing internal topics.

    Args:
        image: The committed metadata.
        ask_controller: Sends a request to the active controller.
        config: The node's settings, `offsets.topic.*` and `transaction.state.log.*` among them.
        partition_of: By the name of an internal topic, a function that returns the partition of a key.
    """

    def __init__(
        self,
        image: Image,
        ask_controller: Callable[[Any, int], Awaitable[Any]],
        config: NodeConfig,
        partition_of: Mapping[str, Callable[[str], int]],
    ) -> None:
        self._image = image
        self._ask_controller = ask_controller
        self._config = config
        self._partition_of = partition_of
        self._refused = RefusedTopics()

    async def coordinator_of(self, key_type: int, key: str) -> int:
        """The id of the node that coordinates a group or a transactional id.

        Raises:
            CoordinatorNotAvailableError: The topic could not be created, or its partition has no leader.
        """
        name = TRANSACTIONS_TOPIC if key_type == TRANSACTION else OFFSETS_TOPIC
        if name not in self._image.topics:
            await self._create_topic(name)
        leader = leader_of(self._image, name, self._partition_of[name](key))
        if leader < 0:
            raise CoordinatorNotAvailableError("The coordinator is not available.")
        return leader

    def remember_partitions(self) -> None:
        """Fix the partition counts of the internal topics that exist; called after each change of the image.

        The first call that sees a topic decides how keys are mapped to its partitions. So the nodes of a cluster agree
        on the mapping, even if clients ask one of them long after the others.
        """
        for partition_of in self._partition_of.values():
            partition_of("")

    async def _create_topic(self, name: str) -> None:
        topic = self._transactions_topic() if name == TRANSACTIONS_TOPIC else self._offsets_topic()
        response = await self._ask_controller(CreateTopicsRequest(topics=[topic]), CREATE_TOPICS_VERSION)
        for refused, reason in self._refused.news(response.topics).items():
            log.warning("internal topic not created", topic=refused, error=reason)

    def _offsets_topic(self) -> CreatableTopic:
        return self._topic(
            OFFSETS_TOPIC,
            "offsets.topic",
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(self._config.number("offsets.topic.segment.bytes")),
            },
        )

    def _transactions_topic(self) -> CreatableTopic:
        return self._topic(
            TRANSACTIONS_TOPIC,
            "transaction.state.log",
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(self._config.number("transaction.state.log.min.isr")),
                "segment.bytes": str(self._config.number("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )

    def _topic(self, name: str, settings: str, configs: dict[str, str]) -> CreatableTopic:
        live = max(1, len(self._image.live_brokers()))
        return CreatableTopic(
            name=name,
            num_partitions=self._config.number(f"{settings}.num.partitions"),
            replication_factor=self._config.for_internal_topic(f"{settings}.replication.factor", live_brokers=live),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
