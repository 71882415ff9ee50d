"""What a consumer reads and who decides it: the user, by `assign`; all partitions of topics; or a group.

It is also what the consumer is to its group (`group.Member`), and commits for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.groups.group_session import Group
from minikafka.client.groups.membership import Membership, State
from minikafka.client.offset_queries import OffsetAndMetadata, commit_request
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import (
    CoordinatorNotAvailableError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.names import TopicPartition

_logger = logging.getLogger("minikafka.client.consumer")
_LAST_VERSION_WITH_NAMES = 9


class Listener:
    """Hears how partitions come and go; override what is of interest. It runs in the background, so be quick."""

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are read from now on; seeking is possible."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are about to be given up; committing is still possible."""

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Others may have these already; commits would be refused."""


class Subscriptions:
    """Decides what the fetcher reads."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        tasks: TaskGroup,
        wake: Callable[[], None],
        fail: Callable[[KafkaError], None],
        is_slow: Callable[[], bool],
        seams: Seams,
    ) -> None:
        self.fail = fail
        self.is_slow = is_slow
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._tasks = tasks
        self._wake = wake
        self._seams = seams
        self._topics: list[str] = []
        self._pattern: re.Pattern[str] | None = None
        self._listener = Listener()
        self._group: Group | None = None
        self._group_scope: anyio.CancelScope | None = None
        self._seen: dict[str, int] = {}
        self._matched: list[str] = []
        self._committed: dict[TopicPartition, int] = {}

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """The user decides. Raises RuntimeError while a subscription does."""
        if self._group is not None or self._topics or self._pattern:
            raise RuntimeError("assign() does not go together with a subscription: unsubscribe() first")
        self._read(partitions)

    async def subscribe(
        self, topics: list[str], pattern: re.Pattern[str] | None, listener: Listener | None
    ) -> None:
        """Topics, or all whose name matches; the group decides, or without one all their partitions are read."""
        if not topics and pattern is None:
            raise ValueError("subscribe() needs topics or a pattern; unsubscribe() reads nothing")
        self._topics, self._pattern = topics, pattern
        self._listener = listener or Listener()
        if self._options.group_id is None:
            await self._cluster.retry(self._read_all, "subscribing")
        elif self._group is None:
            self._group = Group(self._cluster, self._options, self, self._seams)
            self._group_scope = anyio.CancelScope()
            self._tasks.start_soon(self._run_group, self._group, self._group_scope)
        else:
            self._group.rejoin()

    async def _run_group(self, group: Group, scope: anyio.CancelScope) -> None:
        with scope:
            await group.run()

    async def unsubscribe(self) -> None:
        """Read nothing."""
        await self.close(everything=True)
        self._topics, self._pattern = [], None
        self._read([])

    async def close(self, *, everything: bool) -> None:
        """Commit a last time, if that is done automatically, and leave the group."""
        group, self._group = self._group, None
        if self._group_scope is not None:
            self._group_scope.cancel()
        try:
            if self._options.enable_auto_commit and self._options.group_id is not None:
                await self._commit_quietly(list(self._fetcher.readings), group, processed_only=not everything)
        finally:
            if group is not None:
                await group.leave()

    def updated(self) -> None:
        """Metadata has changed: there may be new topics or partitions."""
        if self._group is not None:
            if self._group.membership.state is State.STABLE and self._has_changed(self._group.membership):
                self._group.rejoin()
        elif self._topics or self._pattern:
            self._read(self._all_partitions())
        self._wake()

    def _has_changed(self, membership: Membership) -> bool:
        """Whether what the pattern matches has changed or, to the group's leader, what there is of its topics."""
        topics = self._cluster.metadata.topics
        if self._pattern is not None and self._matching() != self._matched:
            return True
        counts = {name: len(topics[name].partitions) for name in membership.group_topics if name in topics}
        return membership.leads and counts != self._seen

    def _matching(self) -> list[str]:
        assert self._pattern is not None
        return [
            name
            for name, topic in sorted(self._cluster.metadata.topics.items())
            if self._pattern.fullmatch(name) and not (topic.is_internal and self._options.exclude_internal_topics)
        ]

    async def _read_all(self) -> None:
        await self.subscribed_topics()
        self._read(self._all_partitions())

    def _all_partitions(self) -> list[TopicPartition]:
        topics = self._cluster.metadata.topics
        names = self._matching() if self._pattern else [name for name in self._topics if name in topics]
        return [TopicPartition(name, one.index) for name in names for one in topics[name].partitions]

    def _read(self, partitions: Sequence[TopicPartition]) -> None:
        for tp in partitions:
            if self._cluster.topics is not None:
                self._cluster.topics[tp.topic] = None
        if list(self._fetcher.readings) != list(partitions):
            self._fetcher.assign(partitions)
        self._wake()

    # What the group asks of its member.

    async def subscribed_topics(self) -> Sequence[str]:
        """See `group.Member`. Raises the error of a topic that cannot exist or may not be read."""
        if self._pattern is not None:
            self._cluster.topics = None
        elif self._cluster.topics is not None:
            self._cluster.topics |= dict.fromkeys(self._topics)
        await self._cluster.refresh()
        for name in self._topics:
            error = self._cluster.metadata.errors.get(name)
            missing = isinstance(error, UnknownTopicOrPartitionError)
            if error is not None and (not error.retriable or (missing and self._options.group_id is None)):
                raise error
        self._matched = self._matching() if self._pattern else []
        return self._matched if self._pattern else self._topics

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """See `group.Member`."""
        if self._cluster.topics is not None and any(name not in self._cluster.topics for name in topics):
            self._cluster.topics |= dict.fromkeys(topics)
            await self._cluster.refresh()
        known = self._cluster.metadata.topics
        self._seen = {name: len(known[name].partitions) for name in topics if name in known}
        return self._seen

    async def give_up(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """See `group.Member`."""
        if lost:
            await self._listener.on_partitions_lost(partitions)
        else:
            await self._listener.on_partitions_revoked(partitions)
            if self._options.enable_auto_commit:
                await self._commit_quietly(partitions, self._group, processed_only=True)
        for tp in partitions:
            self._committed.pop(tp, None)
        self._fetcher.assign([tp for tp in self._fetcher.readings if tp not in partitions])

    async def take(self, added: Sequence[TopicPartition], everything: Sequence[TopicPartition]) -> None:
        """See `group.Member`."""
        self._read(everything)
        await self._listener.on_partitions_assigned(added)
        self._wake()

    # Commits.

    async def commit(self, offsets: Mapping[TopicPartition, Any], group: Group | None = None) -> None:
        """Commit for the group. Raises the KafkaError of the first partition that has one."""
        places = {
            TopicPartition(*tp): one if isinstance(one, OffsetAndMetadata) else OffsetAndMetadata(one)
            for tp, one in offsets.items()
        }
        if places:
            await self._cluster.retry(lambda: self._commit(places, group or self._group), "committing offsets")

    async def _commit(self, places: dict[TopicPartition, OffsetAndMetadata], group: Group | None) -> None:
        group_id = self._options.group_id or ""
        request = commit_request(group_id, places)
        if group is not None:
            request.generation_id_or_member_epoch = group.membership.generation
            request.member_id = group.membership.member_id
            request.group_instance_id = self._options.group_instance_id
        node_id = await self._cluster.coordinator(group_id)
        try:
            response = await self._cluster.request(request, node_id, highest=_LAST_VERSION_WITH_NAMES)
            for topic in response.topics:
                for one in topic.partitions:
                    if one.error_code:
                        place = f"{topic.name}-{one.partition_index}"
                        raise error_for(
                            one.error_code, f"committing for group {group_id!r}, {place}: {error_for(one.error_code)}"
                        )
        except (NotCoordinatorError, CoordinatorNotAvailableError, NetworkError):
            self._cluster.forget_coordinator(group_id)
            raise
        self._committed |= {tp: place.offset for tp, place in places.items()}

    async def commit_now_and_then(self) -> None:
        """Every auto_commit_interval_ms, commit what was processed."""
        while True:
            await anyio.sleep(max(self._options.auto_commit_interval_ms, 1) / 1000)
            await self._commit_quietly(list(self._fetcher.readings), self._group, processed_only=True)

    async def _commit_quietly(
        self, partitions: Sequence[TopicPartition], group: Group | None, *, processed_only: bool
    ) -> None:
        """What has changed since the last commit; an error is logged, as the next commit makes up for it."""
        places = self._fetcher.positions(processed_only=processed_only)
        news = {tp: places[tp] for tp in partitions if tp in places and self._committed.get(tp) != places[tp]}
        if not news or (group is not None and group.membership.generation < 0):
            return
        try:
            await self.commit(news, group)
        except KafkaError as error:
            _logger.warning("automatic commit of group %r failed: %s", self._options.group_id, error)
