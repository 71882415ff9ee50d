"""`LackingTopics`: the topics that a consumer reads or assigns, and that the metadata lack. Pure.

A response without a topic, or with an error for it, does not prove that the topic was deleted: the broker may be
behind, or not know a leader yet. Positions and assignments outlast such responses.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.protocol.errors import UnknownTopicOrPartitionError


class LackingTopics:
    """Since when the metadata lack topics. Time without a response says nothing.

    Args:
        patience_s: how far apart the first and the last of the responses in a row must be that lack a topic, until it
            counts as deleted. One that has another error than UNKNOWN_TOPIC_OR_PARTITION exists.
    """

    def __init__(self, metadata: Metadata, patience_s: float) -> None:
        self._metadata = metadata
        self._patience_s = patience_s
        self._lacking: dict[str, tuple[float, float] | None] = {}
        """When the first and the last response lacked a topic; None for one that exists."""

    def update(self, names: Iterable[str], now: float) -> bool:
        """Look for `names` in changed metadata; return whether further responses must tell if one was deleted."""
        errors, topics = self._metadata.errors, self._metadata.topics
        unknown = UnknownTopicOrPartitionError()
        self._lacking = {
            name: ((self._lacking.get(name) or (now, now))[0], now)
            if isinstance(errors.get(name, unknown), UnknownTopicOrPartitionError)
            else None
            for name in names
            if name not in topics
        }
        return any(self.may_exist(name) for name in self._lacking)

    def may_exist(self, name: str) -> bool:
        """Whether the metadata lack a topic that does not count as deleted."""
        return name in self._lacking and not self.is_deleted(name)

    def is_deleted(self, name: str) -> bool:
        """Whether all responses of `patience_s` said that a topic does not exist."""
        lacking = self._lacking.get(name)
        return lacking is not None and lacking[1] - lacking[0] >= self._patience_s
