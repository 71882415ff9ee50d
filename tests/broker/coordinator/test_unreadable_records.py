"""Records of a coordinator's log that cannot be read, or contradict each other: it loads what is readable."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import structlog
import trio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.batches import encode_batch
from support.coordinator_node import MemoryLogs, MemoryNode, run_with_node
from support.transaction_bench import ID, Bench, in_trio

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state import consumer_group_records as records
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.broker.coordinator.replay import SkippedRecords, replay
from minikafka.broker.coordinator.shard import Status
from minikafka.broker.coordinator.transactions.transaction import (
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_COMMIT,
    Transaction,
    TransactionState,
)
from minikafka.broker.coordinator.transactions.transaction_records import encode_record
from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import encode
from minikafka.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from minikafka.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
)
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.transaction_records import PartitionsSchema, TransactionLogValue
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Record
from minikafka.storage.steps import at_once

Pair = tuple[bytes, bytes | None]
PHASES = (Phase.explicit, Phase.generate)
"""Without making an example smaller, which takes minutes."""

KEY = OffsetCommitKey(group="g", topic="t", partition=0)
GARBAGE: list[Pair] = [
    (b"", b"x"),
    (b"\0", b"x"),
    (b"\0\1", b"x"),
    (b"\0\1\0\1", b"x"),
    (b"\0\2\x7f\xff", None),
    (b"\0\5\0\1g\0", b"\0\0"),
    (b"\0\0\xff\xff", b"\0\0"),
    (*GroupShard.encode(KEY, None)[:1], b""),
    (*GroupShard.encode(KEY, None)[:1], b"\x7f\xff" + bytes(40)),
    (*GroupShard.encode(GroupMetadataKey(group="g"), None)[:1], b"\x00\x03\x00"),
    GroupShard.encode(GroupMetadataKey(group="g"), GroupMetadataValue(generation=-2, protocol=None, leader=None)),
    GroupShard.encode(
        records.ConsumerGroupMetadataKey(group_id="g"), records.ConsumerGroupMetadataValue(epoch=2**31 - 1)
    ),
]


def commit(offset: int) -> Pair:
    return GroupShard.encode(KEY, OffsetCommitValue(offset=offset))


def batch(first: int, pairs: Sequence[Pair], producer_id: int = -1) -> bytes:
    transactional = producer_id >= 0
    return encode_batch(
        [Record(first + number, 1, *pair) for number, pair in enumerate(pairs)],
        base_offset=first,
        producer_id=producer_id,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        transactional=transactional,
    )


def replayed(*batches: bytes) -> tuple[GroupShard, SkippedRecords]:
    shard, skipped = GroupShard(GroupSettings(), Random(1), Image()), SkippedRecords()
    at_once(replay(shard, b"".join(batches), 0, skipped))
    return shard, skipped


def committed(shard: GroupShard) -> int | None:
    known = shard.offsets.get("g", "t", 0)
    return None if known is None else known.offset


# -- what is readable is kept ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", GARBAGE)
def test_what_is_readable_beside_a_record_counts(pair: Pair) -> None:
    shard, skipped = replayed(batch(0, [commit(4), pair]), batch(2, [pair]))
    assert committed(shard) == 4
    assert (skipped.count > 0, skipped.offset in (1, 2), bool(skipped.reason)) == (True, True, True)


@pytest.mark.parametrize("together", [True, False])
def test_a_record_that_cannot_be_read_replaces_none_of_its_key(together: bool) -> None:
    key = commit(0)[0]
    pairs: list[Pair] = [commit(1), commit(2), (key, b""), (key, b"\0\4"), commit(3), (key, b"")]
    for count, expected in ((2, 2), (4, 2), (5, 3), (6, 3)):
        some = pairs[:count]
        log = [batch(0, some)] if together else [batch(offset, [pair]) for offset, pair in enumerate(some)]
        assert committed(replayed(*log)[0]) == expected


def test_a_tombstone_before_a_record_that_cannot_be_read_counts() -> None:
    key = commit(0)[0]
    assert committed(replayed(batch(0, [commit(1), (key, None), (key, b"")]))[0]) is None


def test_records_of_a_transaction_that_cannot_be_read_are_skipped_one_by_one() -> None:
    shard, skipped = replayed(batch(0, [GARBAGE[1], commit(6), GARBAGE[2]], producer_id=7))
    at_once(shard.end_transaction(7, committed=True))
    assert (committed(shard), skipped.count, skipped.offset) == (6, 2, 0)


def test_many_records_that_cannot_be_read_take_pauses() -> None:
    pairs = [(b"\0\1" + bytes([number // 256, number % 256]), b"") for number in range(5_000)]
    shard, skipped = GroupShard(GroupSettings(), Random(1), Image()), SkippedRecords()
    pauses = sum(1 for _ in replay(shard, batch(0, pairs), 0, skipped))
    assert (skipped.count, skipped.offset) == (5_000, 0)
    assert pauses >= 2 * 5_000 // 512


# -- coordinators of groups ------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["g", "h", ""])
MEMBERS = st.sampled_from(["a", "b", ""])
NUMBERS = st.sampled_from([-(2**31), -3, -2, -1, 0, 1, 2, 7, 2**30, 2**31 - 1])
TOPICS = st.sampled_from([bytes(16), b"0123456789abcdef"])
TEXTS = st.sampled_from(["", "t", "u", "((("])
BYTES = st.sampled_from([b"", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", b"\xff\xff\xff", b"\0\0\x7f\xff\xff\xff"])


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def lists(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, max_size=3)


CLASSIC_MEMBER = st.builds(
    MemberMetadata,
    member_id=MEMBERS,
    group_instance_id=optional(MEMBERS),
    client_id=TEXTS,
    rebalance_timeout=NUMBERS,
    session_timeout=NUMBERS,
    subscription=BYTES,
    assignment=BYTES,
)
OWNED = st.builds(
    records.OwnedPartitions, topic_id=TOPICS, partitions=lists(NUMBERS), assignment_epochs=optional(lists(NUMBERS))
)
VALUES: dict[type, st.SearchStrategy[Any]] = {
    OffsetCommitKey: st.builds(
        OffsetCommitValue, offset=NUMBERS, metadata=TEXTS, commit_timestamp=NUMBERS, expire_timestamp=NUMBERS
    ),
    GroupMetadataKey: st.builds(
        GroupMetadataValue,
        protocol_type=st.sampled_from(["consumer", "", "connect"]),
        generation=NUMBERS,
        protocol=optional(TEXTS),
        leader=optional(MEMBERS),
        current_state_timestamp=NUMBERS,
        members=lists(CLASSIC_MEMBER),
    ),
    records.ConsumerGroupMetadataKey: st.builds(records.ConsumerGroupMetadataValue, epoch=NUMBERS),
    records.ConsumerGroupPartitionMetadataKey: st.builds(records.ConsumerGroupPartitionMetadataValue),
    records.ConsumerGroupMemberMetadataKey: st.builds(
        records.ConsumerGroupMemberMetadataValue,
        instance_id=optional(MEMBERS),
        subscribed_topic_names=lists(TEXTS),
        subscribed_topic_regex=optional(TEXTS),
        rebalance_timeout_ms=NUMBERS,
        server_assignor=optional(TEXTS),
        classic_member_metadata=optional(
            st.builds(
                records.ClassicMemberMetadata,
                session_timeout_ms=NUMBERS,
                supported_protocols=lists(st.builds(records.ClassicProtocol, name=TEXTS, metadata=BYTES)),
            )
        ),
    ),
    records.ConsumerGroupTargetAssignmentMetadataKey: st.builds(
        records.ConsumerGroupTargetAssignmentMetadataValue, assignment_epoch=NUMBERS, assignment_timestamp=NUMBERS
    ),
    records.ConsumerGroupTargetAssignmentMemberKey: st.builds(
        records.ConsumerGroupTargetAssignmentMemberValue,
        topic_partitions=lists(st.builds(records.TargetPartitions, topic_id=TOPICS, partitions=lists(NUMBERS))),
    ),
    records.ConsumerGroupCurrentMemberAssignmentKey: st.builds(
        records.ConsumerGroupCurrentMemberAssignmentValue,
        member_epoch=NUMBERS,
        previous_member_epoch=NUMBERS,
        state=st.sampled_from([-128, 0, 1, 2, 3, 127]),
        assigned_partitions=lists(OWNED),
        partitions_pending_revocation=lists(OWNED),
    ),
    records.ConsumerGroupRegularExpressionKey: st.builds(
        records.ConsumerGroupRegularExpressionValue, topics=lists(TEXTS), version=NUMBERS, timestamp=NUMBERS
    ),
}
KEYS = st.one_of(
    st.builds(OffsetCommitKey, group=NAMES, topic=TEXTS, partition=NUMBERS),
    st.builds(GroupMetadataKey, group=NAMES),
    *(
        st.builds(kind, group_id=NAMES)
        for kind in (
            records.ConsumerGroupMetadataKey,
            records.ConsumerGroupPartitionMetadataKey,
            records.ConsumerGroupTargetAssignmentMetadataKey,
        )
    ),
    *(
        st.builds(kind, group_id=NAMES, member_id=MEMBERS)
        for kind in (
            records.ConsumerGroupMemberMetadataKey,
            records.ConsumerGroupTargetAssignmentMemberKey,
            records.ConsumerGroupCurrentMemberAssignmentKey,
        )
    ),
    st.builds(records.ConsumerGroupRegularExpressionKey, group_id=NAMES, regular_expression=TEXTS),
)
READABLE = KEYS.flatmap(
    lambda key: optional(VALUES[type(key)]).map(lambda value: GroupShard.encode(key, value))
)
"""Records of every kind that can be decoded, in any order, with values that contradict each other."""
RANDOM = st.tuples(
    st.builds(bytes.__add__, st.integers(0, 17).map(lambda kind: kind.to_bytes(2, "big")), st.binary(max_size=12))
    | st.binary(max_size=4),
    optional(st.binary(max_size=40)),
)
CUT = st.tuples(READABLE, st.integers(0, 40)).map(lambda cut: (cut[0][0], cut[0][1] and cut[0][1][: cut[1]]))
PAIRS = st.lists(READABLE | READABLE | RANDOM | CUT, max_size=12)
OWN = GroupShard.encode(OffsetCommitKey(group="own", topic="own", partition=0), OffsetCommitValue(offset=42))


def poisoned(pairs: Sequence[Pair], *, together: bool) -> MemoryLogs:
    logs = MemoryLogs(1)
    everything = [*pairs[: len(pairs) // 2], OWN, *pairs[len(pairs) // 2 :]]
    for some in [everything] if together else [[pair] for pair in everything]:
        logs.append(TopicPartition(TOPIC, 0), bytearray(batch(0, some)))
    return logs


async def use(node: MemoryNode, group_id: str) -> None:
    """Join as a member of either protocol; whatever it is answered, the coordinator goes on."""
    joining = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="a",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="t", metadata=b"\0\0\0\0\0\0\0\0\0\0")],
    )
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="c", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    with trio.move_on_after(5):
        await node.ask("JoinGroup", 5, joining)
    await node.ask("ConsumerGroupHeartbeat", 1, heartbeat)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, phases=PHASES)
@given(pairs=PAIRS, together=st.booleans(), size_max=st.sampled_from(["1", "100"]))
def test_whatever_the_log_says_groups_load_and_live(pairs: list[Pair], together: bool, size_max: str) -> None:
    async def body(node: MemoryNode) -> None:
        assert [status for _, status in node.groups.runtime.partitions()] == [Status.ACTIVE]
        (shard,) = node.groups.runtime.states()
        own = shard.offsets.get("own", "own", 0)
        assert own is not None
        assert own.offset == 42
        for group_id in ("g", "h"):
            with contextlib.suppress(KafkaError):
                await use(node, group_id)
        await trio.sleep(60)
        assert [status for _, status in node.groups.runtime.partitions()] == [Status.ACTIVE]

    failed = FAILURES["decision"]
    with structlog.testing.capture_logs():
        run_with_node(body, poisoned(pairs, together=together), {"group.max.size": size_max})
    assert FAILURES["decision"] == failed, "no shard was loaded again"


def test_a_skipped_record_is_logged_once_for_its_partition_and_counted() -> None:
    async def body(node: MemoryNode) -> None:
        assert node.groups.runtime.skipped == 3

    pairs: list[Pair] = [(b"\0", b"x"), (b"\0\1\0", None), (b"\0\2", b"x")]
    with structlog.testing.capture_logs() as logged:
        run_with_node(body, poisoned(pairs, together=True))
    (line,) = [one for one in logged if one["event"] == "coordinator records skipped"]
    assert line == {
        "event": "coordinator records skipped",
        "log_level": "error",
        "partition": "__consumer_offsets-0",
        "records": 3,
        "offset": 0,
        "error": "1 bytes are too short for a record of __consumer_offsets",
    }


def classic(protocol: str, leader: str, *members: MemberMetadata) -> Pair:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=protocol, leader=leader, members=list(members)
    )
    return GroupShard.encode(GroupMetadataKey(group="g"), value)


def test_a_leader_that_is_no_member_and_members_of_one_id_are_corrected() -> None:
    members = [MemberMetadata(member_id=name, group_instance_id="i") for name in ("a", "b")]
    shard, _ = replayed(batch(0, [classic("p", "nobody", members[0], members[0], members[1])]))
    group = shard.classic_groups["g"]
    assert (group.leader, list(group.members), group.static_members) == ("a", ["a"], {"i": "a"})
    assert group.size_bytes == group.members["a"].size_bytes
    group.remove("a")
    assert (group.leader, group.size_bytes, group.static_members) == (None, 0, {})


def test_a_member_without_metadata_has_the_protocol_of_the_last_generation() -> None:
    first = classic("p", "a", MemberMetadata(member_id="a"))
    second = classic("q", "a", MemberMetadata(member_id="a"), MemberMetadata(member_id="b"))
    shard, _ = replayed(batch(0, [first], producer_id=1), batch(1, [second], producer_id=1))
    assert shard.classic_groups["g"].select_protocol() == "q"


# -- coordinators of transactions ------------------------------------------------------------------------------------

STATE = "__transaction_state"


def transaction(version: int, **fields: Any) -> Pair:
    """A state of the transactional id of the bench, of version 1."""
    known = TransactionLogValue(
        **{"producer_id": 5, "transaction_status": 4, "transaction_partitions": None, "producer_epoch": 3} | fields
    )
    return encode_record(ID, None, 1)[0], version.to_bytes(2, "big") + encode(known, version)


def partition(index: int) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic="flights", partition_ids=[index])]


IMPOSSIBLE: list[Pair] = [
    (b"\0", b"x"),
    (b"\0\0", b"x"),
    (encode_record(ID, None, 1)[0], b""),
    (encode_record(ID, None, 1)[0], b"\0\7" + bytes(60)),
    (*transaction(1)[:1], transaction(1)[1][:-3]),
    transaction(1, transaction_status=TransactionState.DEAD),
    transaction(1, transaction_status=TransactionState.PREPARE_EPOCH_FENCE),
    transaction(1, transaction_status=77),
    transaction(1, producer_id=-1, transaction_status=PREPARE_COMMIT, transaction_partitions=partition(0)),
    transaction(1, producer_epoch=-1, transaction_status=PREPARE_COMMIT, transaction_partitions=partition(0)),
    transaction(1, transaction_status=PREPARE_COMMIT, transaction_partitions=partition(-1)),
    transaction(1, client_transaction_version=-1, transaction_status=PREPARE_COMMIT),
    transaction(1, next_producer_id=-7, client_transaction_version=2, transaction_status=PREPARE_COMMIT),
    transaction(1, previous_producer_id=-7),
]


def poison(bench: Bench, pairs: Sequence[Pair]) -> None:
    bench.logs.append(TopicPartition(STATE, 0), bytearray(batch(0, pairs)))


@pytest.mark.parametrize("pair", IMPOSSIBLE)
def test_a_transaction_that_cannot_be_read_leaves_the_state_before(pair: Pair) -> None:
    async def body() -> None:
        bench = Bench()
        bench.put(Transaction(5, 60_000, producer_epoch=3, state=COMPLETE_COMMIT))
        poison(bench, [pair])
        async with bench.running():
            assert (bench.now.producer_id, bench.now.producer_epoch, bench.now.state) == (5, 3, COMPLETE_COMMIT)
            assert bench.coordinator.runtime.skipped == 1
            await bench.ended(await bench.init())

    with structlog.testing.capture_logs():
        in_trio(body)


LONGS = st.sampled_from([-(2**63), -1, 0, 5, 2**62, 2**63 - 1])
STATES = st.builds(
    lambda version, fields: transaction(version, **fields),
    st.just(1),
    st.fixed_dictionaries(
        {
            "producer_id": LONGS,
            "previous_producer_id": LONGS,
            "next_producer_id": LONGS,
            "producer_epoch": st.sampled_from([-(2**15), -1, 0, 1, 2**15 - 3, 2**15 - 2, 2**15 - 1]),
            "transaction_timeout_ms": NUMBERS,
            "transaction_status": st.sampled_from([*range(8), 99, -1]),
            "transaction_partitions": optional(
                lists(st.builds(PartitionsSchema, topic=TEXTS, partition_ids=lists(NUMBERS)))
            ),
            "transaction_last_update_timestamp_ms": LONGS,
            "transaction_start_timestamp_ms": LONGS,
            "client_transaction_version": st.sampled_from([-1, 0, 1, 2, 3, 2**15 - 1]),
        }
    ),
)
STATES_CUT = st.tuples(STATES, st.integers(0, 60)).map(lambda cut: (cut[0][0], cut[0][1] and cut[0][1][: cut[1]]))


@settings(max_examples=100, deadline=None, phases=PHASES)
@given(pairs=st.lists(STATES | STATES_CUT | RANDOM, max_size=6))
def test_whatever_the_log_says_transactions_load_and_live(pairs: list[Pair]) -> None:
    async def body() -> None:
        bench = Bench()
        poison(bench, [encode_record("own", Transaction(9, 60_000, producer_epoch=1, state=ONGOING), 1), *pairs])
        async with bench.running() as coordinator:
            (shard,) = coordinator.runtime.states()
            assert shard.transactions["own"].producer_id == 9
            for _ in range(2):
                with contextlib.suppress(KafkaError):
                    await bench.ended(await bench.init())
            await trio.sleep(60)
            assert [status for _, status in coordinator.runtime.partitions()] == [Status.ACTIVE]

    failed = FAILURES["decision"] + FAILURES["deadline"]
    with structlog.testing.capture_logs() as logged:
        in_trio(body)
    bugs = [one for one in logged if one["log_level"] == "error" and one["event"] != "coordinator records skipped"]
    assert bugs == []
    assert FAILURES["decision"] + FAILURES["deadline"] == failed
