"""`TopicsBench`: a group coordinator's bench with topics that come, grow and go, and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.broker.coordinator.groups.consumer.subscription_changes import newest_topic, patterns_resolved
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.security.access import Access
from support.coordinator_bench import GROUP, NO_DELAY, Bench


class Resolved(NamedTuple):
    """The topics of regular expressions, as they were when the coordinator asked."""

    found: Mapping[str, frozenset[str]]
    newest: bytes


class TopicsBench(Bench):
    """A bench whose coordinators share the cluster's metadata.

    Attributes:
        resolved: What the search for the topics of regular expressions has found, and not yet reported: it runs beside
            the requests.
    """

    def __init__(self, settings: GroupSettings = NO_DELAY) -> None:
        self.image = Image()
        self.resolved: Resolved | None = None
        super().__init__(settings)

    def new_state(self) -> GroupShard:
        return GroupShard(self.settings, self.random, self.image, resolve_patterns=self._resolve)

    def _resolve(self, group_id: str, patterns: frozenset[str], access: Access) -> None:
        assert group_id == GROUP
        if self.resolved is None:
            found = {one: matching(one, self.image.topics) for one in patterns}
            self.resolved = Resolved(found, newest_topic(self.image))

    def report_resolved(self) -> None:
        """The search ends: its result is written, if the group is still there."""
        resolved, self.resolved = self.resolved, None
        group = self.state.consumer_groups.get(GROUP)
        if resolved is not None and group is not None:
            self.do(lambda builder, _: patterns_resolved(builder, group, *resolved))

    def crash(self) -> None:
        self.resolved = None
        super().crash()

    def set_topic(self, name: str, topic_id: bytes, count: int) -> None:
        """Create a topic, or give it more partitions."""
        one = PartitionState(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))
        topic = Topic(name, topic_id, [one] * count)
        self.image.topics[name] = self.image.topics_by_id[topic_id] = topic

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        del self.image.topics_by_id[self.image.topics.pop(name).id]


def matching(pattern: str, names: Mapping[str, object]) -> frozenset[str]:
    """The names that match a regular expression; none if there is no expression."""
    return frozenset(name for name in names if pattern and re.fullmatch(pattern, name))
