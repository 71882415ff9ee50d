"""Partition in memory: append, read, visibility, and waking of waiting tasks."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from support.batches import encode_batch

from minikafka.broker.partitions.batch_validation import produced_batch, rules_of
from minikafka.broker.partitions.fetch_result import READ_COMMITTED
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.request_waiters import sleep_until_grown
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    InvalidTxnStateError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Codec, batches
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record
from minikafka.storage import Log, LogConfig, MemoryDisk
from minikafka.storage.logs.log_context import Checkpointed, LogContext

NODE, OTHER = 1, 2
NOW_MS = 1_700_000_000_000
NAME = TopicPartition("t", 0)


def led_by(leader: int, epoch: int) -> PartitionState:
    return PartitionState(leader=leader, leader_epoch=epoch, partition_epoch=0, replicas=(NODE,), isr=(NODE,))


def partition(leader: int = NODE, epoch: int = 3, config: LogConfig | None = None) -> Partition:
    log = Log.open(
        LogContext(MemoryDisk(), lambda: NOW_MS), "/data/t-0", NAME, config or LogConfig(), Checkpointed(clean=True)
    )
    made = Partition(NODE, b"0123456789abcdef", NAME, log)
    made.become(led_by(leader, epoch))
    return made


def batch(count: int = 1, **producer: int) -> bytearray:
    records = [Record(index, NOW_MS, None, b"v%d" % index, ()) for index in range(count)]
    return bytearray(encode_batch(records, **producer))  # type: ignore[arg-type]


def produce(to: Partition, count: int = 1, **producer: int) -> tuple[int, int]:
    written = to.append(produced_batch(memoryview(batch(count, **producer)), 9), now_ms=NOW_MS)
    return written.first_offset, written.last_offset


def values(data: object) -> list[tuple[int, bytes | None]]:
    read = data if isinstance(data, bytes) else data.read()  # type: ignore[attr-defined]
    return [(record.offset, record.value) for one in batches(read) for record in one.records()]


def test_an_append_assigns_the_next_offsets_and_the_leader_epoch() -> None:
    t = partition()
    assert [produce(t, 2), produce(t, 1)] == [(0, 1), (2, 2)]
    found = t.read(0, max_bytes=1 << 20)
    assert values(found.records) == [(0, b"v0"), (1, b"v1"), (2, b"v0")]
    assert {one.leader_epoch for one in batches(found.records.read())} == {3}  # type: ignore[union-attr]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 0)


def test_only_the_leader_serves_and_only_in_its_epoch() -> None:
    follower = partition(leader=OTHER)
    reading, deleting = lambda: follower.read(0, max_bytes=1), lambda: follower.delete_records(0)
    for forbidden in (lambda: produce(follower), reading, deleting):
        with pytest.raises(NotLeaderOrFollowerError):
            forbidden()
    leader = partition(epoch=3)
    leader.read(0, max_bytes=1, current_leader_epoch=3)
    with pytest.raises(FencedLeaderEpochError):
        leader.read(0, max_bytes=1, current_leader_epoch=2)
    with pytest.raises(UnknownLeaderEpochError):
        leader.read(0, max_bytes=1, current_leader_epoch=4)


def test_a_new_epoch_starts_at_the_log_end_even_without_records() -> None:
    """KAFKA-7415: or a follower with records of a third epoch would not know where to cut."""
    t = partition(epoch=3)
    produce(t, 4)
    t.become(led_by(NODE, 5))
    t.become(led_by(NODE, 6))
    produce(t)
    assert t.end_of_epoch(3) == (3, 4)
    assert t.end_of_epoch(5) == (3, 4)
    assert t.end_of_epoch(6) == (6, 5)
    assert t.end_of_epoch(7) == (-1, -1)


def test_a_diverging_follower_receives_the_diverging_epoch_and_no_records() -> None:
    t = partition(epoch=3)
    produce(t, 4)
    t.become(led_by(NODE, 6))
    produce(t, 2)
    found = t.read(5, max_bytes=1 << 20, last_fetched_epoch=3)
    assert found.diverging == (3, 4)
    assert found.records == b""
    assert t.read(4, max_bytes=1 << 20, last_fetched_epoch=3).diverging is None
    with pytest.raises(OffsetOutOfRangeError):
        t.read(4, max_bytes=1 << 20, last_fetched_epoch=9)


def test_a_batch_that_is_sent_again_is_flushed_or_refused_like_the_first() -> None:
    t = partition(config=LogConfig(flush_messages=1))
    sent = produced_batch(memoryview(batch(producer_id=7, producer_epoch=0, base_sequence=0)), 9)
    assert t.append(sent, now_ms=NOW_MS).flush_due
    again = t.append(sent, now_ms=NOW_MS)
    assert (again.first_offset, again.flush_due) == (0, True)
    t.log.flush()
    assert not t.append(sent, now_ms=NOW_MS).flush_due
    t.log.fail(OSError("the disk has failed, and what was appended is lost"))
    with pytest.raises(KafkaStorageError):
        t.append(sent, now_ms=NOW_MS)


def test_while_a_flush_is_due_nothing_more_becomes_visible() -> None:
    t = partition(config=LogConfig(flush_messages=3))
    produce(t, 2)
    assert t.high_watermark == 2
    produce(t)
    produce(t)
    assert t.high_watermark == 2
    assert values(t.read(0, max_bytes=1 << 20).records) == [(0, b"v0"), (1, b"v1")]
    t.log.flush()
    assert t.high_watermark == 4
    produce(t)
    assert t.high_watermark == 5


def test_a_new_leader_shows_what_it_has_not_flushed_only_when_it_has() -> None:
    t = partition(config=LogConfig(flush_messages=1))
    produce(t)
    t.become(led_by(NODE, 4))
    assert t.high_watermark == 0
    assert t.log.flush_wanted, "nobody may ask for a flush: housekeeping makes it"
    trio.run(lambda: t.log.flush_async(all_segments=False))
    assert t.high_watermark == 1


def test_records_of_the_node_itself_are_committed_when_they_are_flushed() -> None:
    t = partition(config=LogConfig(flush_messages=1))
    written = t.append_internal(batch())
    assert not t.is_committed(written.last_offset + 1, written.leadership_term)
    trio.run(t.committed, written.last_offset + 1)
    assert (t.high_watermark, t.log.recovery_point) == (1, 1)


def test_tasks_that_wait_for_a_flush_share_it() -> None:
    async def main() -> None:
        t = partition(config=LogConfig(flush_messages=1))
        disk = t.log.disk
        assert isinstance(disk, MemoryDisk)
        disk.pause = lambda: trio.sleep(1)
        async with trio.open_nursery() as nursery:
            for number in range(1, 21):
                t.append_internal(batch())
                nursery.start_soon(t.committed, number)
                if number in (1, 20):
                    await trio.testing.wait_all_tasks_blocked()
        assert (trio.current_time(), t.high_watermark) == (2, 20)

    in_trio(main)


def test_a_failed_flush_fails_all_that_wait_for_it_and_commits_nothing() -> None:
    async def main() -> None:
        t = partition(config=LogConfig(flush_messages=1))
        disk = t.log.disk
        assert isinstance(disk, MemoryDisk)
        disk.pause = lambda: trio.sleep(1)
        disk.fail("sync", path="0.log")
        failed: list[int] = []

        async def commit(number: int) -> None:
            t.append_internal(batch())
            with pytest.raises(KafkaStorageError):
                await t.committed(number)
            failed.append(number)

        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                nursery.start_soon(commit, number)
        assert (sorted(failed), t.high_watermark) == ([1, 2, 3], 0)

    in_trio(main)


@pytest.mark.parametrize("offset", [-1, 3, 2**40])
def test_offsets_outside_the_log_are_out_of_range(offset: int) -> None:
    t = partition()
    produce(t, 2)
    with pytest.raises(OffsetOutOfRangeError):
        t.read(offset, max_bytes=1)
    assert t.read(2, max_bytes=1).records == b""


def test_deleted_records_are_gone_and_the_log_start_never_decreases() -> None:
    t = partition()
    produce(t, 3)
    assert [t.delete_records(2), t.delete_records(1), t.delete_records(-1)] == [2, 2, 3]
    with pytest.raises(OffsetOutOfRangeError):
        t.delete_records(4)
    with pytest.raises(OffsetOutOfRangeError):
        t.read(2, max_bytes=1)
    assert produce(t) == (3, 3)


def test_a_duplicate_returns_the_offsets_of_the_first_append() -> None:
    t = partition()
    first = produce(t, 2, producer_id=7, producer_epoch=0, base_sequence=0)
    produce(t)
    assert produce(t, 2, producer_id=7, producer_epoch=0, base_sequence=0) == first
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(t, producer_id=7, producer_epoch=0, base_sequence=5)
    assert t.log.end_offset == 3


def test_read_committed_ends_before_an_open_transaction() -> None:
    t = partition()
    produce(t)
    opens = t.begin_verification(7, 0, 0)
    t.append_internal(
        batch(1, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), verification=opens
    )
    produce(t)
    assert (t.high_watermark, t.last_stable_offset) == (3, 1)
    assert values(t.read(0, max_bytes=1 << 20, isolation=READ_COMMITTED).records) == [(0, b"v0")]
    assert t.read(1, max_bytes=1 << 20, isolation=READ_COMMITTED).records == b""
    assert t.read(0, max_bytes=1 << 20, isolation=READ_COMMITTED).aborted == []


def in_transaction(epoch: int) -> bytearray:
    return batch(1, producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True)


def marker(epoch: int) -> bytearray:
    commit = EndTxnMarker(ControlType.COMMIT, 0)
    return bytearray(encode_end_transaction(commit, producer_id=7, producer_epoch=epoch, timestamp=NOW_MS))


def test_a_truncation_leaves_committed_transactions_stable() -> None:
    """The producers are rebuilt from the log; the high watermark need not move again for what is below it."""
    t = partition()
    t.append_internal(in_transaction(0), verification=t.begin_verification(7, 0, 0))
    t.append_internal(marker(0))
    produce(t)
    assert (t.high_watermark, t.last_stable_offset) == (3, 3)
    t.become(led_by(OTHER, 4))
    t.truncate_to(2, leader_epoch=4)
    assert (t.high_watermark, t.last_stable_offset) == (2, 2)
    t.append_fetched(memoryview(b""), leader_epoch=4, high_watermark=2, log_start_offset=0)
    assert t.last_stable_offset == 2


def test_a_marker_voids_the_verification_of_a_late_batch() -> None:
    t = partition()
    t.append_internal(in_transaction(0), verification=t.begin_verification(7, 0, 0))
    t.append_internal(marker(0))
    late = t.begin_verification(7, 0, 1)
    t.append_internal(marker(0))
    with pytest.raises(InvalidTxnStateError):
        t.append_internal(in_transaction(0), verification=late)


def test_the_marker_of_the_transaction_before_does_not_void_that_of_the_next_epoch() -> None:
    """With an epoch for each transaction (KIP-890) the marker has the epoch of the next one, which may have begun."""
    t = partition()
    t.append_internal(in_transaction(0), verification=t.begin_verification(7, 0, 0, bumps_epoch=True))
    following = t.begin_verification(7, 1, 0, bumps_epoch=True)
    t.append_internal(marker(1), transaction_version=2)
    t.append_internal(in_transaction(1), verification=following)
    assert t.log.end_offset == 3
    ended = t.begin_verification(7, 1, 1, bumps_epoch=True)
    assert ended is None, "it is open"
    t.append_internal(marker(2), transaction_version=2)
    assert t.last_stable_offset == 4


def in_trio(body: Callable[[], Awaitable[None]]) -> None:
    trio.run(body, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_waiting_fetch_is_woken_by_enough_bytes_and_not_before() -> None:
    async def main() -> None:
        t = partition()
        woken: list[bool] = []

        async def sleep() -> None:
            woken.append(await sleep_until_grown([t], 2 * len(batch()), trio.current_time() + 5))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            await trio.testing.wait_all_tasks_blocked()
            produce(t)
            await trio.testing.wait_all_tasks_blocked()
            assert woken == []
            produce(t)
        assert woken == [True]
        assert not await sleep_until_grown([t], 1, trio.current_time() + 5)

    in_trio(main)


def test_waiting_tasks_fail_when_leadership_ends() -> None:
    async def main() -> None:
        t = partition()
        woken: list[bool] = []

        async def sleep() -> None:
            woken.append(await sleep_until_grown([t], 1, trio.current_time() + 60))

        async def commit() -> None:
            with pytest.raises(NotLeaderOrFollowerError):
                await t.committed(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleep)
            nursery.start_soon(commit)
            await trio.testing.wait_all_tasks_blocked()
            t.resign()
        assert woken == [True]
        assert trio.current_time() < 60

    in_trio(main)


def test_validation_rules_follow_the_topics_settings() -> None:
    rules = rules_of(LogConfig(compression_type="zstd", compression_zstd_level=5, cleanup_policy=("compact",)))
    assert (rules.codec, rules.codec_level, rules.compacted) == (Codec.ZSTD, 5, True)
    assert rules_of(LogConfig()).codec is None
    assert rules_of(LogConfig(compression_type="zstd", compression_zstd_level=-1)).codec_level == -1


def test_read_committed_lists_the_aborted_transactions_in_its_records() -> None:
    t = partition()
    opens = t.begin_verification(7, 0, 0)
    t.append_internal(
        batch(2, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), verification=opens
    )
    abort = EndTxnMarker(ControlType.ABORT, 0)
    t.append_internal(bytearray(encode_end_transaction(abort, producer_id=7, producer_epoch=0, timestamp=NOW_MS)))
    produce(t)
    assert t.read(0, max_bytes=1 << 20, isolation=READ_COMMITTED).aborted == [(7, 0)]
    assert t.read(0, max_bytes=1 << 20).aborted is None
    assert t.read(3, max_bytes=1 << 20, isolation=READ_COMMITTED).aborted == []
