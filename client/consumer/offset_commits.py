"""`OffsetCommits`: commits offsets for a consumer's group; partitions that fail do not delay the others.

A commit is one request, whose response has an error code for each partition. Partitions with a retriable error are sent
again. A later commit of a partition, even one that has ended meanwhile, replaces the offset that is being retried, so
that a retry never undoes a later commit.

Source: Kafka's `CommitRequestManager`, which sends all partitions again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import missing_patience_s
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.interception import on_commit
from minikafka.client.consumer.lacking_topics import LackingTopics
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.group_counts import GroupCounts
from minikafka.client.groups.group_session import GroupSession
from minikafka.client.offset_queries import commit_request, commit_results, commit_version_max
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    KafkaError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.offset_commit import OffsetCommitRequest
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
COORDINATOR_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)
MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

Owner = tuple[int, str] | None
"""The generation or member epoch, and the member id, that commit offsets; None without a subscription."""
OwnerOf = Callable[[Iterable[TopicPartition], GroupSession | None], Owner]


@dataclass(slots=True)
class _Commit:
    """A commit in progress.

    Attributes:
        waiting: the offsets that are not committed yet.
        owner: the membership that commits.
        topic_ids: the ids of the topics to which the offsets belong.
        missing_until: until when a partition that is not assigned may be missing, on the event loop's clock.
        of_positions: whether deleted partitions are left out.
        failed: the errors of partitions that are not retried.
    """

    waiting: dict[TopicPartition, OffsetAndMetadata]
    owner: Owner
    topic_ids: dict[str, bytes]
    missing_until: float
    of_positions: bool
    failed: dict[TopicPartition, KafkaError] = field(default_factory=dict)


class OffsetCommits:
    """The commits of one consumer.

    Args:
        owner_of: returns the membership in which the records of the given partitions were returned.
    """

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        counts: GroupCounts,
        owner_of: OwnerOf,
        lacking: LackingTopics,
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._counts = counts
        self._owner_of = owner_of
        self._lacking = lacking
        self._under_way: list[_Commit] = []

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupSession | None,
        *,
        of_positions: bool = False,
        retried_ms: float | None = None,
    ) -> None:
        """Commit for the group. Raises the KafkaError of the first partition that failed; the others are committed.

        Every attempt uses the generation of the first attempt, which is the one in which the records were returned:
        after a rebalance a partition may belong to another member, whose commits must not be undone. Raises
        UnknownMemberIdError while the consumer has lost its membership, and IllegalGenerationError if a partition was
        revoked after its records were returned.

        Args:
            offsets: an offset without a leader epoch gets the epoch of the record before it, if that is known.
            of_positions: whether the offsets are positions; the positions of deleted partitions are left out.
            retried_ms: how long retriable errors are retried: 0 not at all, None for default_api_timeout_ms. With 0,
                positions in topics that the metadata lack are left to the next commit.
        """
        commit = self._begin(offsets, group, of_positions=of_positions, is_repeated=retried_ms == 0)
        self._under_way.append(commit)
        try:
            if retried_ms == 0:
                await self._attempt(commit, group)
            else:
                await self._cluster.retry(
                    lambda: self._attempt(commit, group), "committing offsets", timeout_ms=retried_ms
                )
        finally:
            self._under_way = [one for one in self._under_way if one is not commit]
        for error in commit.failed.values():
            raise error

    async def commit_apart(
        self,
        left: Mapping[TopicPartition, int | OffsetAndMetadata],
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupSession | None,
        *,
        of_positions: bool,
    ) -> None:
        """Commit the offsets of lost partitions, and the others in a separate request: a request has a single owner.

        The coordinator decides whether the offsets of lost partitions (`left`) may still be committed. Raises the first
        KafkaError, after both requests.
        """
        failures: list[KafkaError] = []
        for some in (left, {tp: one for tp, one in offsets.items() if tp not in left}):
            try:
                await self.commit(some, group, of_positions=of_positions)
            except KafkaError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _begin(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group: GroupSession | None,
        *,
        of_positions: bool,
        is_repeated: bool,
    ) -> _Commit:
        waiting = {TopicPartition(*tp): self._with_epoch(TopicPartition(*tp), one) for tp, one in offsets.items()}
        if waiting and group is not None and group.member[0] < 0:
            raise UnknownMemberIdError(
                f"this consumer is not a member of group {self._options.group_id!r} at present; not committed:"
                f" {', '.join(map(str, sorted(waiting)))}, whose records come again to their next owner. A member"
                " leaves if no records are requested for max_poll_interval_ms, here"
                f" {self._options.max_poll_interval_ms}"
            )
        topic_ids = {tp.topic: self._topic_id(tp.topic) for tp in waiting}
        missing_until = anyio.current_time() + missing_patience_s(self._options.default_api_timeout_ms)
        commit = _Commit(waiting, self._owner_of(waiting, group), topic_ids, missing_until, of_positions)
        for tp, one in list(waiting.items()):
            may_exist = not is_repeated and self._lacking.may_exist(tp.topic)
            if of_positions and not may_exist and self._is_gone(commit, tp):
                if is_repeated:
                    del waiting[tp]
                else:
                    self._give_up(commit, tp, UnknownTopicOrPartitionError())
            elif not of_positions and self._fetcher.is_of_deleted_topic(tp, one.offset):
                self._give_up(commit, tp, _of_deleted_topic(tp, one.offset))
        for other in self._under_way:
            other.waiting |= {tp: one for tp, one in waiting.items() if tp in other.waiting}
        return commit

    def _give_up(self, commit: _Commit, tp: TopicPartition, error: KafkaError) -> None:
        one = commit.waiting.pop(tp)
        if commit.of_positions and error.code in MISSING:
            _logger.warning("position not committed, as the partition was deleted: %s-%d, %d", *tp, one.offset)
        else:
            commit.failed[tp] = error

    def _is_gone(self, commit: _Commit, tp: TopicPartition) -> bool:
        """Whether, by the metadata, a partition does not exist, or its topic was deleted and created anew."""
        metadata = self._cluster.metadata
        if (topic := metadata.topics.get(tp.topic)) is not None:
            return self._is_another(commit, tp) or tp.partition >= len(topic.partitions)
        return self._cluster.topics is None or metadata.errors.get(tp.topic, KafkaError()).code in MISSING

    def _topic_id(self, name: str) -> bytes:
        """The id of a topic; while the metadata lack the topic, that of the one which is read."""
        known = self._cluster.metadata.topic_id(name)
        return self._fetcher.topic_ids.get(name, NIL_UUID) if known == NIL_UUID else known

    def _is_another(self, commit: _Commit, tp: TopicPartition) -> bool:
        """Whether another topic now has the name of the partition's topic."""
        then, now = commit.topic_ids[tp.topic], self._cluster.metadata.topic_id(tp.topic)
        return NIL_UUID not in (then, now) and then != now

    def _with_epoch(self, tp: TopicPartition, one: int | OffsetAndMetadata) -> OffsetAndMetadata:
        """Add the leader epoch: with it, the next reader detects truncations and avoids older leaders (KIP-320)."""
        if isinstance(one, OffsetAndMetadata):
            return one
        state = self._fetcher.states.get(tp)
        return OffsetAndMetadata(one, "", -1 if state is None else state.epoch_before(one))

    async def _attempt(self, commit: _Commit, group: GroupSession | None) -> None:
        """Send the waiting offsets once, or again with a new member epoch of the same owner.

        Raises the KafkaError of a partition that is still waiting.
        """
        while True:
            for tp in [one for one in commit.waiting if self._is_another(commit, one)]:
                self._give_up(commit, tp, _of_deleted_topic(tp, commit.waiting[tp].offset))
            if not commit.waiting:
                return
            errors = await self._send(commit)
            stale = next((one for one in errors.values() if isinstance(one, StaleMemberEpochError)), None)
            if stale is None or group is None:
                break
            if commit.owner == group.member:
                await group.next_epoch(group.member)
            if (now := self._owner_of(commit.waiting, group)) == commit.owner or group.member[0] < 0:
                break
            commit.owner = now
        for tp, error in errors.items():
            if not error.retriable or (error.code in MISSING and await self._is_missing(commit, tp)):
                self._give_up(commit, tp, error)
        for tp in commit.waiting:
            raise errors[tp]

    async def _is_missing(self, commit: _Commit, tp: TopicPartition) -> bool:
        """Whether a partition that the coordinator does not know was deleted, or has been missing for too long."""
        if self._cluster.topics is not None:
            self._cluster.topics[tp.topic] = None
        await self._cluster.refresh()
        may_appear = tp not in self._fetcher.states and anyio.current_time() < commit.missing_until
        return self._is_gone(commit, tp) and not may_appear

    async def _send(self, commit: _Commit) -> dict[TopicPartition, KafkaError]:
        """Send the waiting offsets; return the errors of partitions. Raises KafkaError if there is no response."""
        group_id = self._options.group_id or ""
        try:
            connection = await self._cluster.connection(await self._cluster.coordinator(group_id))
            sent, request = dict(commit.waiting), self._request(group_id, commit)
            began = anyio.current_time()
            response = await connection.request(
                request, timeout_ms=self._cluster.request_timeout_ms, highest=commit_version_max(request)
            )
            self._counts.commits_ms.add((anyio.current_time() - began) * 1000)
        except KafkaError:
            self._cluster.forget_coordinator(group_id)
            raise
        results = commit_results(request, response)
        committed = {tp: sent[tp] for tp, error in results.items() if error is None}
        for tp in committed:
            del commit.waiting[tp]
            self._fetcher.committed(tp, sent[tp].offset)
        if committed:
            on_commit(self._options.interceptors, committed)
        errors = {tp: error for tp, error in results.items() if error is not None}
        if any(one.code in COORDINATOR_MOVED for one in errors.values()):
            self._cluster.forget_coordinator(group_id)
        return errors

    def _request(self, group_id: str, commit: _Commit) -> OffsetCommitRequest:
        now = self._cluster.metadata.topic_id
        commit.topic_ids |= {name: now(name) for name, one in commit.topic_ids.items() if one == NIL_UUID}
        request = commit_request(group_id, commit.waiting, lambda tp: commit.topic_ids[tp.topic])
        if commit.owner is not None:
            request.generation_id_or_member_epoch, request.member_id = commit.owner
            request.group_instance_id = self._options.group_instance_id
        return request


def _of_deleted_topic(tp: TopicPartition, offset: int) -> KafkaError:
    return UnknownTopicOrPartitionError(
        f"offset {offset} of {tp.topic}-{tp.partition} is not committed: it is of a topic that was deleted; another one"
        " has its name now"
    )
