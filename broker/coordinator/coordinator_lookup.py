"""Finds the coordinator of a group: the leader of the group's partition of `__consumer_offsets`.

The topic is created by the first lookup, as in Kafka.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.runtime import partition_for
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import CoordinatorNotAvailableError
from minikafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

CREATE_TOPICS_VERSION = 7


class CoordinatorLookup:
    """Finds coordinators in the cluster's metadata.

    Args:
        image: The committed metadata.
        ask_controller: Sends a request to the active controller.
        config: The node's settings, `offsets.topic.*` among them.
    """

    def __init__(self, image: Image, ask_controller: Callable[[Any, int], Awaitable[Any]], config: NodeConfig) -> None:
        self._image = image
        self._ask_controller = ask_controller
        self._config = config

    async def coordinator_of(self, key_type: int, key: str) -> int:
        """The id of the node that coordinates a group.

        Raises:
            CoordinatorNotAvailableError: The topic could not be created, or its partition has no leader.
        """
        if TOPIC not in self._image.topics:
            await self._create_topic()
        topic = self._image.topics.get(TOPIC)
        leader = -1 if topic is None else topic.partitions[partition_for(key, len(topic.partitions))].leader
        if leader < 0:
            raise CoordinatorNotAvailableError("The coordinator is not available.")
        return leader

    async def _create_topic(self) -> None:
        live = max(1, len(self._image.live_brokers()))
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.number("offsets.topic.segment.bytes")),
        }
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=self._config.number("offsets.topic.num.partitions"),
            replication_factor=self._config.for_internal_topic("offsets.topic.replication.factor", live_brokers=live),
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        await self._ask_controller(CreateTopicsRequest(topics=[topic]), CREATE_TOPICS_VERSION)
