"""`ScriptedCluster`: one broker with topics, their logs and a group's offsets, whose errors a test chooses.

    cluster = ScriptedCluster(a=2, b=1)                          # topics with numbers of partitions
    cluster.append(TopicPartition("a", 0), 3)
    cluster.fail(OffsetCommitRequest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TopicPartition("b", 0))
    async with cluster.consumer(group_id="g") as consumer: …

Topics have ids, and can be deleted and made anew. The group has one member, to which `assigned` is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import trio
from trio.testing import MockClock

from minikafka.client import Consumer
from minikafka.client.groups.assignors import encode_assignment
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from minikafka.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from minikafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Record
from support.batches import encode_batch
from support.fake_network import FakeNetwork, Later

EARLIEST = -2
LEADER_EPOCH = 3
ALWAYS = 1 << 30


class ScriptedCluster(FakeNetwork):
    """One broker, which coordinates the group "g".

    Attributes:
        ids: The id of each topic.
        logs: By topic id, the values of each partition.
        committed: By topic id and partition, the committed offset.
        commits: All offsets that were committed, in order, by topic id and partition.
        assigned: The partitions that the next JoinGroup gives to the member.
        leader_epoch: Of all partitions, in metadata; batches have `LEADER_EPOCH`.
    """

    def __init__(self, **topics: int) -> None:
        super().__init__()
        self.ids: dict[str, bytes] = {}
        self.logs: dict[bytes, list[list[bytes]]] = {}
        self.committed: dict[tuple[bytes, int], int] = {}
        self.known_to_coordinator: dict[str, bytes] | None = None
        self.commits: list[tuple[bytes, int, int]] = []
        self.assigned: list[TopicPartition] = []
        self.generation = 0
        self.leader_epoch = LEADER_EPOCH
        self.heartbeats = ErrorCode.NONE
        self._made = self._written = 0
        self._errors: dict[tuple[Any, TopicPartition | None], tuple[ErrorCode, int]] = {}
        self._waiting: list[tuple[FetchRequest, Later]] = []
        for name, partitions in topics.items():
            self.create(name, partitions)
        coordinator = Coordinator(key="g", node_id=1, host="a", port=1, error_code=0, error_message=None)
        left = LeaveGroupResponse()
        self.broker("a", 1, {
            FindCoordinatorRequest: lambda request, version: (
                FindCoordinatorResponse(coordinators=[coordinator] if version >= 4 else [], node_id=1)
            ),
            FetchRequest: self._fetch,
            ListOffsetsRequest: self._list,
            OffsetForLeaderEpochRequest: self._end_of_epoch,
            OffsetCommitRequest: self._commit,
            OffsetFetchRequest: self._fetch_offsets,
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: lambda request, version: left,
            ConsumerGroupHeartbeatRequest: self._member,
        })  # fmt: skip

    # What a test does.

    def create(self, name: str, partitions: int = 1, topic_id: bytes = b"") -> None:
        self._made += 1
        self.ids[name] = topic_id or b"%016d" % self._made
        self.logs[self.ids[name]] = [[] for _ in range(partitions)]
        self.wake()

    def delete(self, name: str) -> None:
        del self.logs[self.ids.pop(name)]
        self.wake()

    def append(self, tp: TopicPartition, count: int = 1) -> list[bytes]:
        """Append records with values that no other record has; return them."""
        values = [b"%d" % (self._written + number) for number in range(count)]
        self._written += count
        self.logs[self.ids[tp.topic]][tp.partition] += values
        self.wake()
        return values

    def truncate(self, tp: TopicPartition, end: int) -> None:
        """What an unclean election does, or a power failure."""
        del self.logs[self.ids[tp.topic]][tp.partition][end:]

    def fail(self, kind: Any, code: ErrorCode, tp: TopicPartition | None = None, times: int = ALWAYS) -> None:
        """Answer requests with an error: for a partition or, without one, for the whole."""
        self._errors[kind, tp] = (code, times)

    def mend(self) -> None:
        """End all errors."""
        self._errors.clear()

    def wake(self) -> None:
        """Answer the fetches that wait, as far as there is something to say."""
        waiting, self._waiting = self._waiting, []
        for request, later in waiting:
            answer = self._fetch(request, 13, later)
            if answer is not later:
                later.answer(answer)

    def rebalance(self, *assigned: TopicPartition) -> None:
        self.assigned = list(assigned)
        self.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS

    def committed_of(self, tp: TopicPartition) -> int:
        return self.committed.get((self.ids[tp.topic], tp.partition), -1)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        given = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 1_000, **options}
        if given.get("group_protocol") != "consumer":
            given.setdefault("heartbeat_interval_ms", 100)
        given.setdefault("seams", self.seams())
        return Consumer(*topics, bootstrap_servers="a:1", **given)

    def of(self, kind: Any) -> list[Any]:
        """The requests of a kind that were received."""
        return [one for one in self.brokers[0].requests if isinstance(one, kind)]

    # What the broker answers.

    def _error(self, kind: Any, tp: TopicPartition | None) -> ErrorCode:
        code, times = self._errors.pop((kind, tp), (ErrorCode.NONE, 0))
        if times > 1:
            self._errors[kind, tp] = (code, times - 1)
        return code

    def _name(self, topic: Any) -> str:
        named = getattr(topic, "name", "") or getattr(topic, "topic", "")
        return named or next((name for name, one in self.ids.items() if one == topic.topic_id), "")

    def _log(self, name: str, partition: int) -> list[bytes] | None:
        logs = self.logs.get(self.ids.get(name, b""), [])
        return logs[partition] if partition < len(logs) else None

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.ids:
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=self.leader_epoch)
            for index in range(len(self.logs[self.ids[name]]))
        ]
        return MetadataResponseTopic(name=name, topic_id=self.ids[name], partitions=partitions)

    def metadata(self, request: Any, version: int) -> Any:
        self.topics = {name: [] for name in self.ids}
        return super().metadata(request, version)

    def _fetch(self, request: FetchRequest, version: int, later: Later | None = None) -> FetchResponse | Later:
        if whole := self._error(FetchRequest, None):
            return FetchResponse(error_code=whole)
        topics = []
        for topic in request.topics:
            name = self._name(topic)
            found = [one for asked in topic.partitions if (one := self._fetched(name, asked)) is not None]
            if found:
                topics.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=found))
        if topics:
            return FetchResponse(responses=topics)
        if later is None:
            later = Later()
            trio.lowlevel.spawn_system_task(self._expire, later, request.max_wait_ms)
        self._waiting.append((request, later))
        return later

    async def _expire(self, later: Later, after_ms: int) -> None:
        await trio.sleep(after_ms / 1000)
        if any(one is later for _, one in self._waiting):
            self._waiting = [(request, one) for request, one in self._waiting if one is not later]
            later.answer(FetchResponse())

    def _fetched(self, name: str, asked: Any) -> PartitionData | None:
        log = self._log(name, asked.partition)
        data = PartitionData(partition_index=asked.partition, aborted_transactions=None)
        data.error_code = self._error(FetchRequest, TopicPartition(name, asked.partition))
        if log is None:
            data.error_code = data.error_code or ErrorCode.UNKNOWN_TOPIC_ID
        elif not data.error_code:
            if asked.fetch_offset > len(log):
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            data.high_watermark = data.last_stable_offset = len(log)
            if records := [Record(-1, 0, None, value) for value in log[asked.fetch_offset :]]:
                batch = encode_batch(records, base_offset=asked.fetch_offset, leader_epoch=LEADER_EPOCH)
                data.records = memoryview(batch)
        return data if data.error_code or data.records is not None else None

    def _each(self, kind: Any, topics: Iterable[Any], partitions: str, index: str) -> Iterator[Any]:
        for topic in topics:
            name = self._name(topic)
            for asked in getattr(topic, partitions):
                number = asked if isinstance(asked, int) else getattr(asked, index)
                log = self._log(name, number)
                missing = ErrorCode.NONE if log is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                error = self._error(kind, TopicPartition(name, number)) or missing
                yield topic, name, asked, number, log or [], error

    def _list(self, request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        topics = []
        for _, name, asked, index, log, error in self._each(
            ListOffsetsRequest, request.topics, "partitions", "partition_index"
        ):
            offset = -1 if error else 0 if asked.timestamp == EARLIEST else len(log)
            one = ListOffsetsPartitionResponse(partition_index=index, error_code=error, offset=offset)
            topics.append(ListOffsetsTopicResponse(name=name, partitions=[one]))
        return ListOffsetsResponse(topics=topics)

    def _end_of_epoch(self, request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        topics = []
        for _, name, asked, index, log, error in self._each(
            OffsetForLeaderEpochRequest, request.topics, "partitions", "partition"
        ):
            one = EpochEndOffset(
                partition=index, error_code=error, leader_epoch=asked.leader_epoch, end_offset=-1 if error else len(log)
            )
            topics.append(OffsetForLeaderTopicResult(topic=name, partitions=[one]))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        topics = []
        whole = self._error(OffsetCommitRequest, None)
        for topic, name, asked, index, _, error in self._each(
            OffsetCommitRequest, request.topics, "partitions", "partition_index"
        ):
            code = whole or error
            if not code and request.generation_id_or_member_epoch not in (-1, self.generation):
                code = ErrorCode.ILLEGAL_GENERATION
            if not code:
                self.committed[self.ids[name], index] = asked.committed_offset
                self.commits.append((self.ids[name], index, asked.committed_offset))
            one = OffsetCommitResponsePartition(partition_index=index, error_code=code)
            topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=[one]))
        return OffsetCommitResponse(topics=topics)

    def _fetch_offsets(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        topics = []
        ids = self.ids if self.known_to_coordinator is None else self.known_to_coordinator
        for topic, name, _, index, _, error in self._each(
            OffsetFetchRequest, request.groups[0].topics or (), "partition_indexes", ""
        ):
            injected = error if error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ErrorCode.NONE
            if not topic.name and topic.topic_id not in ids.values():
                injected = injected or ErrorCode.UNKNOWN_TOPIC_ID
            one = OffsetFetchResponsePartitions(partition_index=index, error_code=injected, metadata="")
            one.committed_offset = -1 if injected else self.committed.get((ids.get(name, b""), index), -1)
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=[one]))
        group = OffsetFetchResponseGroup(group_id="g", topics=topics)
        group.error_code = self._error(OffsetFetchRequest, None)
        return OffsetFetchResponse(groups=[group])

    def _join(self, request: JoinGroupRequest, version: int) -> JoinGroupResponse:
        if error := self._error(JoinGroupRequest, None):
            return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id="m", members=[])
        self.generation += 1
        self.heartbeats = ErrorCode.NONE
        return JoinGroupResponse(
            generation_id=self.generation, protocol_name="range", leader="other", member_id="m", members=[]
        )

    def _sync(self, request: SyncGroupRequest, version: int) -> SyncGroupResponse:
        error = self._error(SyncGroupRequest, None)
        return SyncGroupResponse(error_code=error, assignment=b"" if error else encode_assignment(self.assigned))

    def _heartbeat(self, request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=self._error(HeartbeatRequest, None) or self.heartbeats)

    def _member(self, request: ConsumerGroupHeartbeatRequest, version: int) -> ConsumerGroupHeartbeatResponse:
        if error := self._error(ConsumerGroupHeartbeatRequest, None):
            return ConsumerGroupHeartbeatResponse(error_code=error)
        topics = [TopicPartitions(topic_id=self.ids[tp.topic], partitions=[tp.partition]) for tp in self.assigned]
        return ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=100, assignment=Assignment(topic_partitions=topics)
        )


def on_virtual_time(story: Any, *arguments: Any) -> Any:
    """Run an async function; time passes only while all tasks wait."""
    return trio.run(story, *arguments, clock=MockClock(autojump_threshold=0))
