"""`LackingTopics`: the topics that a consumer reads or assigns, and that the metadata lack. Pure.

A response without a topic, or with an error for it, does not prove that the topic was deleted: the broker may be
behind, or not know a leader yet. Positions and assignments outlast such responses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.protocol.errors import UnknownTopicOrPartitionError


class LackingTopics:
    """Since when the metadata lack topics.

    Args:
        patience_s: for how long responses must lack a topic until it counts as deleted. One that has another error than
            UNKNOWN_TOPIC_OR_PARTITION exists.
    """

    def __init__(self, metadata: Metadata, patience_s: float) -> None:
        self._metadata = metadata
        self._patience_s = patience_s
        self._since: dict[str, float] = {}

    def update(self, names: Iterable[str], now: float) -> bool:
        """Look for `names` in changed metadata; return whether further responses must tell if one was deleted."""
        errors, topics = self._metadata.errors, self._metadata.topics
        unknown = UnknownTopicOrPartitionError()
        self._since = {
            name: min(self._since.get(name, now), now)
            if isinstance(errors.get(name, unknown), UnknownTopicOrPartitionError)
            else math.inf
            for name in names
            if name not in topics
        }
        return any(self.may_exist(name, now) for name in self._since)

    def may_exist(self, name: str, now: float) -> bool:
        """Whether the metadata lack a topic that does not count as deleted."""
        return name in self._since and not self.is_deleted(name, now)

    def is_deleted(self, name: str, now: float) -> bool:
        """Whether all responses of the last `patience_s` say that a topic does not exist."""
        return now - self._since.get(name, math.inf) >= self._patience_s
