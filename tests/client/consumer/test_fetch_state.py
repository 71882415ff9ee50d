"""Fetch state: positions, chunks and planned fetches under seeks, pauses, errors and new assignments."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.batches import encode_batch

from minikafka.client.consumer import chunk as chunk_module
from minikafka.client.consumer.fetch_session import FetchSession
from minikafka.client.consumer.fetch_state import Fetcher, PartitionFailure, PendingFetch
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.errors import CorruptMessageError, OffsetOutOfRangeError
from minikafka.protocol.messages.fetch import AbortedTransaction, PartitionData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def fetcher(*places: tuple[TopicPartition, int], **options: Any) -> Fetcher:
    made = Fetcher(make(ConsumerOptions, options, "Consumer"))
    made.assign([tp for tp, _ in places])
    for tp, offset in places:
        made.seek(tp, offset)
    return made


def ask(made: Fetcher, now: float = 1.0) -> PendingFetch:
    asks = made.plan(now, lambda topic, partition: 1, lambda topic, partition: 5)
    return made.request(FetchSession(1 << 20), asks.get(1, []), None)


def batch(first: int, count: int, **more: Any) -> bytes:
    records = [Record(first + n, 1000 + n, b"k", b"%d" % (first + n)) for n in range(count)]
    return encode_batch(records, base_offset=first, **more)


def answer(
    made: Fetcher, plan: PendingFetch, tp: TopicPartition = TP, records: bytes = b"", **more: Any
) -> PartitionFailure | None:
    made.completed(plan)
    known = {"high_watermark": 100, "last_stable_offset": 90, "aborted_transactions": None, **more}
    return made.accept(plan, tp, PartitionData(partition_index=tp.partition, records=memoryview(records), **known))


def offsets(made: Fetcher, limit: int = 1000) -> list[int]:
    return [record.offset for record in made.take(limit)]


def asked(plan: PendingFetch) -> dict[int, int]:
    return {one.partition: one.fetch_offset for topic in plan.request.topics for one in topic.partitions}


def test_a_partition_is_fetched_ahead_by_one_chunk() -> None:
    made = fetcher((TP, 10))
    for first in (10, 15):
        plan = ask(made)
        assert asked(plan) == {0: first}
        assert asked(ask(made)) == {}  # one request at a time
        assert answer(made, plan, records=batch(first, 5)) is None
    assert asked(ask(made)) == {}
    assert offsets(made, 3) == [10, 11, 12]
    assert made.positions() == {TP: 13}
    assert offsets(made) == [13, 14]
    assert asked(ask(made)) == {0: 20}


def test_a_large_response_is_decoded_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "CHUNK_SIZE_BYTES", 200)
    made = fetcher((TP, 0))
    answer(made, ask(made), records=b"".join(batch(first, 5) for first in range(0, 50, 5)))
    assert len(made.chunks) > 2
    assert asked(ask(made)) == {0: 50}  # one response ahead, however many portions it has
    assert [offset for _ in range(12) for offset in offsets(made)] == list(range(50))
    assert made.positions() == {TP: 50}
    assert made.states[TP].buffered == 0


def test_a_chunk_too_large_to_decompress_is_decoded_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "TOGETHER_SIZE_BYTES", 5000)
    made = fetcher((TP, 7))
    answer(made, ask(made), records=b"".join(zeros(first) for first in range(0, 600, 100)))
    assert [offset for _ in range(6) for offset in offsets(made)] == list(range(7, 600))
    assert (made.positions(), made.states[TP].buffered) == ({TP: 600}, 0)


def test_a_batch_that_exceeds_the_decompression_limit_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "TOGETHER_SIZE_BYTES", 500)
    monkeypatch.setattr(chunk_module, "MAX_SIZE_BYTES", 1000)
    made = fetcher((TP, 0))
    answer(made, ask(made), records=zeros(0) + zeros(100))
    with pytest.raises(CorruptMessageError, match=r"decompress to more than 1000 bytes; seek to 100 "):
        made.take(1000)


def zeros(first: int, count: int = 100) -> bytes:
    """Records of 20 bytes that compress well."""
    records = [Record(first + n, 1000, None, bytes(20)) for n in range(count)]
    return encode_batch(records, base_offset=first, codec=Codec.ZSTD)


def test_records_before_the_position_are_left_out() -> None:
    made = fetcher((TP, 12))
    answer(made, ask(made), records=batch(5, 5) + batch(10, 5))
    assert offsets(made) == [12, 13, 14]


def test_a_truncated_batch_at_the_end_is_fetched_again() -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 5) + batch(5, 5)[:-3])
    assert offsets(made) == [0, 1, 2, 3, 4]
    assert asked(ask(made)) == {0: 5}


def test_positions_and_processed_offsets() -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 5))
    chunk = made.readable_chunk()
    assert chunk is not None
    chunk.taken = 3
    assert made.positions() == {TP: 3}
    assert made.positions(processed_only=True) == {TP: 2}
    assert offsets(made) == [3, 4]
    assert made.positions() == {TP: 5}
    made.mark_processed()
    assert made.positions(processed_only=True) == {TP: 5}


def test_a_list_of_records_is_processed_as_a_whole() -> None:
    """Or a commit in the background would lose the rest in a crash. The list is a part of a chunk, or more than one."""
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 5))
    answer(made, ask(made), records=batch(5, 5))
    assert offsets(made, 3) == [0, 1, 2]
    assert made.positions(processed_only=True) == {TP: 0}
    made.mark_processed()
    assert made.positions(processed_only=True) == {TP: 3}
    assert offsets(made) + offsets(made, 2) == [3, 4, 5, 6]
    assert made.positions(processed_only=True) == {TP: 3}
    made.put_back()
    assert made.positions(processed_only=True) == {TP: 3}
    made.mark_processed()
    assert made.positions(processed_only=True) == made.positions() == {TP: 7}


def test_gaps_and_control_batches_move_the_position() -> None:
    made = fetcher((TP, 0))
    marker = encode_end_transaction(
        EndTxnMarker(ControlType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp=0, base_offset=9
    )
    gap = encode_batch([], deltas=(), base_offset=5, last_offset_delta=3)
    answer(made, ask(made), records=batch(0, 5) + gap + marker)
    assert offsets(made) == [0, 1, 2, 3, 4]
    assert made.positions() == {TP: 10}


def test_a_seek_drops_buffered_records_and_fetches_in_flight() -> None:
    made = fetcher((TP, 0))
    answer(made, ask(made), records=batch(0, 5))
    on_its_way = ask(made)
    assert offsets(made, 1) == [0]
    made.seek(TP, 50)
    assert (made.current, offsets(made)) == (None, [])
    assert asked(ask(made)) == {}  # the old request is still in flight
    answer(made, on_its_way, records=batch(5, 5))
    assert offsets(made) == []
    answer(made, ask(made), records=batch(50, 2))
    assert offsets(made) == [50, 51]


def test_pausing_keeps_buffered_records() -> None:
    made = fetcher((TP, 0), (OTHER, 0))
    plan = ask(made)
    answer(made, plan, TP, batch(0, 5))
    answer(made, plan, OTHER, batch(0, 2))
    assert offsets(made, 2) == [0, 1]
    made.pause(TP)
    assert made.positions() == {TP: 2, OTHER: 0}
    assert [record.partition for record in made.take(10)] == [1, 1]
    assert asked(ask(made)) == {1: 2}
    made.states[TP].paused = False
    assert offsets(made) == [2, 3, 4]


def test_an_assignment_keeps_the_state_of_remaining_partitions() -> None:
    made = fetcher((TP, 0), (OTHER, 0))
    plan = ask(made)
    answer(made, plan, TP, batch(0, 5))
    answer(made, plan, OTHER, batch(0, 2))
    made.assign([OTHER])
    assert [record.partition for record in made.take(10)] == [1, 1]
    assert (made.positions(), made.take(10)) == ({OTHER: 2}, [])


def test_partitions_take_turns_at_being_first() -> None:
    made = fetcher((TP, 0), (OTHER, 0))
    firsts = set()
    for _ in range(2):
        plan = ask(made)
        firsts.add(next(iter(asked(plan))))
        made.completed(plan)
    assert firsts == {0, 1}


def test_a_fetch_does_not_wait_long_while_others_are_full() -> None:
    made = fetcher((TP, 0), (OTHER, 0))
    assert ask(made).request.max_wait_ms == 500
    made = fetcher((TP, 0), (OTHER, 0))
    for first in (0, 5):
        answer(made, ask(made), TP, batch(first, 5))
    assert ask(made).request.max_wait_ms < 100


def test_partition_errors_are_returned() -> None:
    made = fetcher((TP, 7))
    failure = answer(made, ask(made), error_code=1)
    assert failure is not None
    assert isinstance(failure.error, OffsetOutOfRangeError)
    assert answer(made, ask(made), records=b"\0" * 8 + b"\xff" * 80) is None
    with pytest.raises(CorruptMessageError, match="t-0: corrupt records at offset 7"):
        made.readable_chunk()


def test_corruption_is_reported_with_the_offset_to_seek_to() -> None:
    made = fetcher((TP, 0))
    data = bytearray(batch(0, 5))
    data[-3] ^= 1
    answer(made, ask(made), records=bytes(data))
    with pytest.raises(CorruptMessageError, match=r"t-0: corrupt records at offset 0.*seek to 5"):
        made.readable_chunk()
    made.skip()
    assert asked(ask(made)) == {0: 0}


def damaged(data: bytes, at: int, change: int) -> bytes:
    copy = bytearray(data)
    copy[at] ^= change
    return bytes(copy)


ATTRIBUTES, LAST_OFFSET_DELTA = 22, 26
"""Positions of the lowest byte in a batch."""


@pytest.mark.parametrize(
    ("at", "change"),
    [(ATTRIBUTES, 0x20), (LAST_OFFSET_DELTA, 0x40), (LAST_OFFSET_DELTA - 3, 0x80), (ATTRIBUTES, 0x10)],
    ids=["seems to be a control batch", "seems to end later", "seems to end before", "seems to be transactional"],
)
@pytest.mark.parametrize("behind", [b"", batch(10, 5)], ids=["at the end", "within"])
def test_no_damaged_batch_is_left_out(at: int, change: int, behind: bytes) -> None:
    """What the checksum covers decides nothing before the checksum was compared."""
    made = fetcher((TP, 0), isolation_level="read_committed")
    records = batch(0, 5) + damaged(batch(5, 5), at, change) + behind
    aborted = [AbortedTransaction(producer_id=-1, first_offset=0)]
    answer(made, ask(made), records=records, high_watermark=15, aborted_transactions=aborted)
    assert offsets(made) == [0, 1, 2, 3, 4]
    with pytest.raises(CorruptMessageError, match=f"corrupt records at offset 5.*seek to {10 if behind else ''}"):
        made.readable_chunk()
    made.skip()
    assert asked(ask(made)) == {0: 5}


def test_damage_behind_the_last_offset_that_is_wanted_is_no_error() -> None:
    made = fetcher((TP, 0))
    made.states[TP].stop_offset = 5
    answer(made, ask(made), records=batch(0, 5) + damaged(batch(5, 5), ATTRIBUTES, 0x20))
    assert offsets(made) == [0, 1, 2, 3, 4]
    assert made.readable_chunk() is None


def test_checksums_are_not_compared_without_check_crcs() -> None:
    made = fetcher((TP, 0), check_crcs=False)
    answer(made, ask(made), records=damaged(batch(0, 5), ATTRIBUTES, 0x20) + batch(5, 1))
    assert offsets(made) == [5]


def transactional(first: int, count: int, producer_id: int) -> bytes:
    return batch(first, count, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0)


def end(offset: int, producer_id: int, kind: ControlType) -> bytes:
    return encode_end_transaction(
        EndTxnMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=0, base_offset=offset
    )


def test_read_committed_hides_aborted_transactions() -> None:
    """Producer 1 aborts, commits and aborts; 2 commits in between; a third writes without a transaction."""
    data = b"".join(
        (
            transactional(0, 2, 1), transactional(2, 2, 2), batch(4, 1), end(5, 1, ControlType.ABORT),
            transactional(6, 1, 1), end(7, 2, ControlType.COMMIT), end(8, 1, ControlType.COMMIT),
            transactional(9, 2, 1), end(11, 1, ControlType.ABORT), transactional(12, 1, 1),
        )
    )  # fmt: skip
    aborted = [AbortedTransaction(producer_id=1, first_offset=9), AbortedTransaction(producer_id=1, first_offset=0)]
    made = fetcher((TP, 0), isolation_level="read_committed")
    answer(made, ask(made), records=data, aborted_transactions=aborted)
    assert offsets(made) == [2, 3, 4, 6, 12]
    assert made.positions() == {TP: 13}
    made = fetcher((TP, 0))
    answer(made, ask(made), records=data)
    assert offsets(made) == [0, 1, 2, 3, 4, 6, 9, 10, 12]


def test_random_transactions_against_a_plain_model() -> None:
    for seed in range(200):
        random = Random(seed)
        data, wanted, aborted = _random_log(random)
        made = fetcher((TP, 0), isolation_level="read_committed")
        answer(made, ask(made), records=data, aborted_transactions=aborted)
        assert offsets(made) == wanted, f"seed {seed}"


def _random_log(random: Random) -> tuple[bytes, list[int], list[AbortedTransaction]]:
    offset, parts = 0, list[bytes]()
    open_now: dict[int, list[int]] = {}
    wanted: list[int] = []
    aborted: list[AbortedTransaction] = []
    for _ in range(random.randrange(40)):
        producer_id = random.randrange(3)
        if random.random() < 0.3 and producer_id in open_now:
            kind = random.choice((ControlType.ABORT, ControlType.COMMIT))
            mine = open_now.pop(producer_id)
            if kind is ControlType.COMMIT:
                wanted += mine
            else:
                aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=mine[0]))
            parts.append(end(offset, producer_id, kind))
            offset += 1
        else:
            count = random.randrange(1, 4)
            open_now.setdefault(producer_id, []).extend(range(offset, offset + count))
            parts.append(transactional(offset, count, producer_id))
            offset += count
    for producer_id in list(open_now):
        parts.append(end(offset, producer_id, ControlType.COMMIT))
        wanted += open_now.pop(producer_id)
        offset += 1
    return b"".join(parts), sorted(wanted), aborted
