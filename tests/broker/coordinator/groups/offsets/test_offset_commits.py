"""Committed offsets: transactions, deletion and expiry (KIP-211)."""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinator_bench import GROUP, NO_DELAY, Bench

from minikafka.broker.coordinator.groups.group_admin import delete_groups
from minikafka.broker.coordinator.groups.offsets.offset_commits import (
    OFFSETS_IN_A_STEP,
    AllOffsets,
    commit_offsets,
    commit_offsets_in_transaction,
    delete_offsets,
    fetch_offsets,
)
from minikafka.broker.coordinator.groups.offsets.removal_in_steps import delete_partition_offsets
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import encode
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minikafka.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.steps import at_once

RETENTION_MS = NO_DELAY.retention_ms
CHECK_MS = NO_DELAY.retention_check_interval_ms
SUBSCRIBED = (("range", b"\0\0" + encode(ConsumerProtocolSubscription(topics=["read"]), 0)),)


def commit(bench: Bench, offset: int, topic: str = "t", **request: Any) -> int:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    topic_id = request.pop("topic_id", bytes(16))
    asked = OffsetCommitRequest(group_id=GROUP, **request)
    asked.topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[part])]
    reply = bench.ask(lambda builder, ticket: commit_offsets(builder, asked, 8, ticket))
    return reply.topics[0].partitions[0].error_code


def commit_in_transaction(bench: Bench, offset: int, producer_id: int = 9, **request: Any) -> int:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    asked = TxnOffsetCommitRequest(group_id=GROUP, producer_id=producer_id, **request)
    asked.topics = [TxnOffsetCommitRequestTopic(name="t", partitions=[part])]
    reply = bench.ask(lambda builder, ticket: commit_offsets_in_transaction(builder, asked, ticket))
    return reply.topics[0].partitions[0].error_code


def fetch(bench: Bench, topic: str = "t", *, stable: bool = False, topic_id: bytes = bytes(16)) -> int:
    """The offset; minus the error code if there is one."""
    asked = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])
    request = OffsetFetchRequestGroup(group_id=GROUP, topics=[asked])
    reply = bench.ask(lambda builder, ticket: fetch_offsets(builder, request, ticket, require_stable=stable))
    (part,) = reply.topics[0].partitions
    return -part.error_code or part.committed_offset


def fetch_all(bench: Bench, *, stable: bool = False) -> AllOffsets:
    request = OffsetFetchRequestGroup(group_id=GROUP, topics=None)
    found: AllOffsets = bench.ask(lambda step, ticket: fetch_offsets(step, request, ticket, require_stable=stable))
    return found


def delete(bench: Bench, topic: str = "t") -> Any:
    asked = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    request = OffsetDeleteRequest(group_id=GROUP, topics=[asked])
    return bench.ask(lambda builder, ticket: delete_offsets(builder, request, ticket))


def consumer(bench: Bench) -> str:
    """A member of a stable group that reads the topic "read"."""
    reply = bench.replies[bench.join(protocols=SUBSCRIBED, session_ms=1_800_000)]
    bench.sync(reply.member_id, 1, {})
    return reply.member_id


# -- transactions --------------------------------------------------------------------------------------------


def test_an_offset_in_a_transaction_is_pending_until_the_marker() -> None:
    bench = Bench()
    commit(bench, 1)
    assert commit_in_transaction(bench, 5) == 0
    assert fetch(bench) == 1
    assert fetch(bench, stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.crash()
    assert fetch(bench, stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.end_transaction(9, committed=True)
    assert fetch(bench, stable=True) == 5
    bench.crash()
    assert fetch(bench) == 5


def test_an_aborted_offset_is_never_visible_also_after_a_fail_over() -> None:
    """KAFKA-15784."""
    bench = Bench()
    commit_in_transaction(bench, 5)
    bench.end_transaction(9, committed=False)
    bench.end_transaction(9, committed=True)  # a marker that comes twice finds nothing
    bench.crash()
    assert fetch(bench, stable=True) == -1


def test_of_a_plain_and_a_transactional_commit_the_later_record_wins() -> None:
    bench = Bench()
    commit_in_transaction(bench, 5)
    commit(bench, 1)
    bench.end_transaction(9, committed=True)
    assert fetch(bench) == 1
    commit_in_transaction(bench, 6)
    bench.end_transaction(9, committed=True)
    assert fetch(bench) == 6


def test_each_producer_has_its_own_pending_offsets() -> None:
    bench = Bench()
    commit_in_transaction(bench, 5, producer_id=1)
    commit_in_transaction(bench, 6, producer_id=2)
    bench.end_transaction(2, committed=False)
    assert fetch(bench, stable=True) == -ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.end_transaction(1, committed=True)
    assert fetch(bench, stable=True) == 5


def test_a_zombie_with_an_old_generation_cannot_commit_in_a_transaction() -> None:
    """KIP-447."""
    bench = Bench()
    member = consumer(bench)
    bench.join(member, protocols=SUBSCRIBED)
    assert commit_in_transaction(bench, 5, member_id=member, generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert commit_in_transaction(bench, 5, member_id=member, generation_id=2) == 0
    assert commit_in_transaction(bench, 5) == 0, "older clients say neither"
    assert commit_in_transaction(bench, 5, member_id="x", generation_id=2) == ErrorCode.UNKNOWN_MEMBER_ID


# -- deleting ------------------------------------------------------------------------------------------------


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    bench = Bench()
    member = consumer(bench)
    for topic in ("read", "other"):
        assert commit(bench, 3, topic, member_id=member, generation_id_or_member_epoch=1) == 0
    assert delete(bench, "read").topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(bench, "other").topics[0].partitions[0].error_code == 0
    assert (fetch(bench, "read"), fetch(bench, "other")) == (3, -1)


def test_deleting_an_offset_deletes_the_pending_one_too() -> None:
    bench = Bench()
    commit_in_transaction(bench, 5)
    delete(bench)
    bench.end_transaction(9, committed=True)
    assert fetch(bench) == -1


def test_deleting_a_group_deletes_committed_and_pending_offsets() -> None:
    bench = Bench()
    commit(bench, 1, "a")
    commit_in_transaction(bench, 5)
    bench.ask(lambda builder, ticket: delete_groups(builder, [GROUP], ticket))
    bench.end_transaction(9, committed=True)
    for state in (bench.state, bench.reloaded()):
        assert (len(state.offsets), list(state.classic_groups)) == (0, [])


def test_offsets_of_deleted_partitions_are_deleted() -> None:
    bench = Bench()
    commit(bench, 1, "gone")
    commit(bench, 2, "there")
    deleted = [TopicPartition("gone", 0), TopicPartition("gone", 1)]
    bench.carry_out_all(delete_partition_offsets(bench.state, bench.now, deleted))
    assert (fetch(bench, "gone"), fetch(bench, "there")) == (-1, 2)


@pytest.mark.slow
def test_offsets_of_a_large_deleted_topic_are_deleted_in_several_batches() -> None:
    bench = Bench()
    parts = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=None)
        for index in range(5_000)
    ]
    asked = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="t", partitions=parts)])
    bench.do(lambda builder, ticket: commit_offsets(builder, asked, 8, ticket))
    deleted = [TopicPartition("t", index) for index in range(5_000)]
    bench.carry_out_all(delete_partition_offsets(bench.state, bench.now, deleted))
    assert len(bench.state.offsets) == 0


def test_offsets_of_a_recreated_topic_are_not_returned() -> None:
    bench = Bench()
    commit(bench, 4, topic_id=b"1" * 16)
    assert fetch(bench, topic_id=b"1" * 16) == 4
    assert fetch(bench, topic_id=b"2" * 16) == -1
    assert fetch(bench) == 4, "who does not say which is told the one there is"


# -- expiring ------------------------------------------------------------------------------------------------


def test_retention_of_a_simple_group_counts_from_the_commit() -> None:
    bench = Bench()
    commit(bench, 1, "a")
    bench.pass_time(CHECK_MS)
    commit(bench, 2, "b")
    bench.pass_time(RETENTION_MS - CHECK_MS)
    assert (fetch(bench, "a"), fetch(bench, "b")) == (-1, 2)
    bench.pass_time(CHECK_MS)
    assert GROUP not in bench.state.classic_groups


def test_retention_of_a_group_counts_from_when_it_became_empty() -> None:
    bench = Bench()
    member = consumer(bench)
    commit(bench, 1, "read", member_id=member, generation_id_or_member_epoch=1)
    bench.pass_time(CHECK_MS)
    bench.leave(member)
    bench.pass_time(RETENTION_MS - 1)
    assert fetch(bench, "read") == 1
    bench.crash()
    bench.pass_time(CHECK_MS)
    assert fetch(bench, "read") == -1
    assert not bench.reloaded().classic_groups


def test_with_members_only_unsubscribed_topics_expire() -> None:
    bench = Bench()
    member = consumer(bench)
    for topic in ("read", "other"):
        commit(bench, 1, topic, member_id=member, generation_id_or_member_epoch=1)
    for _ in range(RETENTION_MS // CHECK_MS + 1):
        bench.pass_time(CHECK_MS)
        assert bench.heartbeat(member, 1) == 0
    assert (fetch(bench, "read"), fetch(bench, "other")) == (1, -1)


def test_nothing_expires_during_a_rebalance_or_in_groups_of_other_protocol_types() -> None:
    bench = Bench()
    reply = bench.replies[bench.join(protocol_type="connect", session_ms=1_800_000)]
    bench.sync(reply.member_id, 1, {})
    commit(bench, 1, member_id=reply.member_id, generation_id_or_member_epoch=1)
    for _ in range(RETENTION_MS // CHECK_MS + 1):
        bench.pass_time(CHECK_MS)
        assert bench.heartbeat(reply.member_id, 1) == 0
    assert fetch(bench) == 1


def test_an_explicit_expiry_takes_precedence() -> None:
    bench = Bench()
    commit(bench, 1, retention_time_ms=CHECK_MS)
    commit(bench, 2, "long", retention_time_ms=RETENTION_MS + 2 * CHECK_MS)
    bench.pass_time(CHECK_MS)
    assert (fetch(bench), fetch(bench, "long")) == (-1, 2)
    bench.crash()
    bench.pass_time(RETENTION_MS)
    assert fetch(bench, "long") == 2


def test_an_explicit_expiry_beyond_the_end_of_time_is_there() -> None:
    bench = Bench()
    commit(bench, 1, retention_time_ms=2**63 - 1)
    bench.pass_time(2 * RETENTION_MS)
    assert fetch(bench) == 1


def test_offsets_with_a_pending_commit_do_not_expire() -> None:
    bench = Bench()
    commit(bench, 1)
    commit_in_transaction(bench, 5)
    bench.pass_time(RETENTION_MS + CHECK_MS)
    assert fetch(bench) == 1
    bench.end_transaction(9, committed=False)
    bench.pass_time(CHECK_MS)
    assert fetch(bench) == -1


def test_a_group_with_only_a_pending_id_is_removed_by_the_next_cleanup() -> None:
    bench = Bench()
    handed_out = bench.replies[bench.join(version=4, session_ms=1_800_000)].member_id
    bench.pass_time(CHECK_MS)
    assert GROUP not in bench.state.classic_groups
    assert bench.replies[bench.join(handed_out)].error_code == ErrorCode.UNKNOWN_MEMBER_ID


# -- what may stand in the log -------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["first", "last", "all"])
def test_compaction_does_not_change_committed_offsets(kept: str) -> None:
    bench = Bench()
    for offset in (3, 1, 4, 1, 5):
        commit(bench, offset)
    commit(bench, 9, "b")
    keep = {"first": lambda at: at >= 4, "last": lambda at: at in (4, 5), "all": lambda at: True}[kept]
    state = bench.reloaded(keep)
    committed = state.offsets.get(GROUP, "t", 0)
    assert committed is not None
    assert committed.offset == 5
    assert len(state.offsets) == 2


def test_all_offsets_of_a_group_are_answered_in_steps_and_as_of_one_time() -> None:
    bench, many = Bench(), 3 * OFFSETS_IN_A_STEP
    for name in ("t", "other"):
        parts = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
            for index in range(many)
        ]
        asked = OffsetCommitRequest(group_id=GROUP)
        asked.topics = [OffsetCommitRequestTopic(name=name, topic_id=bytes(16), partitions=parts)]
        bench.ask(lambda builder, ticket, asked=asked: commit_offsets(builder, asked, 8, ticket))
    commit_in_transaction(bench, 77)
    steps = fetch_all(bench, stable=True).response()
    next(steps)
    bench.end_transaction(9, committed=True)
    count = 1
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as end:
        reply = end.value
    assert count == 2 * many // OFFSETS_IN_A_STEP
    assert [len(topic.partitions) for topic in reply.topics] == [many, many]
    first, *others = [part for topic in reply.topics for part in topic.partitions]
    assert (first.error_code, first.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert [part.committed_offset for part in others] == [*range(1, many), *range(many)]
    again = at_once(fetch_all(bench, stable=True).response())
    assert again.topics[0].partitions[0].committed_offset == 77
