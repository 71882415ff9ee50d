"""FollowerFetchState: fetch sessions, back-off, and errors that affect only their partition."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.replica_world import KEY

from minikafka.broker.connections.large_messages import ELEMENTS_MAX_WITH_PAUSES
from minikafka.broker.partitions.follower_log import BATCHES_AT_ONCE, BYTES_AT_ONCE
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.replication import follower_fetch_state
from minikafka.broker.replication.follower_fetch_state import (
    BYTES_OF_WORK,
    FORGOTTEN_MAX,
    PARTITION_WORK,
    PARTITIONS_MAX,
    WORK_AT_ONCE,
    FetchOutcome,
    FetchSettings,
    FollowerFetchState,
)
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.errors import ErrorCode, KafkaStorageError, NotControllerError
from minikafka.protocol.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchResponse, PartitionData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, assign, encode_batch
from minikafka.protocol.records.record import Record
from minikafka.storage import Log, LogConfig, MemoryDisk
from minikafka.storage.logs.log_context import Checkpointed, LogContext
from minikafka.storage.steps import at_once

NODE, LEADER, EPOCH = 1, 2, 4
FIRST, SECOND = b"first-topic-id-1", b"secondtopic-id-2"
NOW_MS = 1000


def follower(topic_id: bytes = FIRST, index: int = 0, *, epoch: int = EPOCH, **settings: int) -> Partition:
    name = TopicPartition(KEY.topic, index)
    config = LogConfig(**{"segment_bytes": 1 << 20, **settings})
    log = Log.open(
        LogContext(MemoryDisk(), lambda: NOW_MS),
        f"/data/{topic_id.hex()}-{index}",
        name,
        config,
        Checkpointed(clean=True),
    )
    made = Partition(NODE, topic_id, name, log)
    made.become(PartitionState(LEADER, epoch, 0, (NODE, LEADER), (NODE, LEADER)))
    return made


def fetch_state(*partitions: Partition) -> FollowerFetchState:
    made = FollowerFetchState(FetchSettings(NODE, backoff_ms=50))
    for partition in partitions:
        made.add(partition)
    return made


def batch(offset: int, *values: bytes, epoch: int = EPOCH) -> bytearray:
    """A batch as a leader's log has it."""
    data = bytearray(encode_batch([Record(-1, NOW_MS, None, value, ()) for value in values]))
    assign(data, 0, offset, epoch)
    return data


def answer(
    partition: Partition, data: bytes = b"", *, high_watermark: int = 0, **fields: object
) -> FetchableTopicResponse:
    found = PartitionData(
        partition_index=partition.topic_partition.partition,
        aborted_transactions=None,
        high_watermark=high_watermark,
        log_start_offset=0,
        records=memoryview(bytearray(data)),
        **fields,
    )
    return FetchableTopicResponse(topic_id=partition.topic_id, partitions=[found])


def response(*answers: FetchableTopicResponse, session_id: int = 7, error_code: int = 0) -> FetchResponse:
    return FetchResponse(session_id=session_id, responses=list(answers), error_code=error_code)


def asked(made: FollowerFetchState, now_ms: int = NOW_MS) -> list[tuple[int, int, int]]:
    """(partition, offset, epoch) of each that the next request names."""
    request = made.request(now_ms, 9)
    return [
        (one.partition, one.fetch_offset, one.current_leader_epoch)
        for topic in request.topics
        for one in topic.partitions
    ]


def handled(made: FollowerFetchState, found: FetchResponse, now_ms: int) -> FetchOutcome:
    return at_once(made.handle_response(found, now_ms))


def test_the_first_request_has_all_partitions_and_the_next_the_changed_ones() -> None:
    one, two = follower(FIRST, 0), follower(FIRST, 1)
    made = fetch_state(one, two)
    first = made.request(NOW_MS, 9)
    assert (first.session_id, first.session_epoch, first.replica_state.replica_epoch) == (0, 0, 9)
    assert [one.partition for one in first.topics[0].partitions] == [0, 1]
    handled(made, response(answer(one, batch(0, b"a", b"b"), high_watermark=1), answer(two)), NOW_MS)
    assert (one.log.end_offset, one.high_watermark) == (2, 1)
    second = made.request(NOW_MS, 9)
    assert (second.session_id, second.session_epoch) == (7, 1)
    assert [(one.partition, one.fetch_offset) for one in second.topics[0].partitions] == [(0, 2)]
    handled(made, response(), NOW_MS)
    assert asked(made) == []


def test_a_leader_refuses_no_request_for_its_elements() -> None:
    """Where each partition is of another topic, which is an element, too."""
    assert 2 * (PARTITIONS_MAX + FORGOTTEN_MAX) <= ELEMENTS_MAX_WITH_PAUSES


@pytest.mark.parametrize("session_id", [7, 0], ids=["session", "no session"])
def test_all_of_very_many_partitions_are_fetched(session_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from a leader that opens no session: each request has the partitions that were not asked for before."""
    monkeypatch.setattr(follower_fetch_state, "PARTITIONS_MAX", 4)
    partitions = [follower(FIRST, index) for index in range(10)]
    made = fetch_state(*partitions)
    fetched: list[int] = []
    for number in range(5):
        request = made.request(NOW_MS, 9)
        named = [one.partition for topic in request.topics for one in topic.partitions]
        assert len(named) <= 4
        fetched += named
        if number < 2:
            assert request.max_wait_ms == 0, "the others do not wait for records of these"
        found = [answer(partitions[index], batch(partitions[index].log.end_offset, b"a")) for index in named]
        handled(made, response(*found, session_id=session_id), NOW_MS)
    assert fetched[:10] == list(range(10))
    assert fetched[10:] == list(range(len(fetched) - 10))
    assert len(fetched) == 20


def test_very_many_partitions_leave_a_session_in_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_fetch_state, "FORGOTTEN_MAX", 4)
    partitions = [follower(FIRST, index) for index in range(10)]
    made = fetch_state(*partitions, follower(SECOND, 0))
    asked(made)
    handled(made, response(), NOW_MS)
    for partition in partitions:
        made.remove(partition)
    made.add(partitions[9])
    forgotten: list[list[int]] = []
    for _ in range(4):
        request = made.request(NOW_MS, 9)
        forgotten.append([index for topic in request.forgotten_topics_data for index in topic.partitions])
        handled(made, response(), NOW_MS)
    assert forgotten == [[0, 1, 2, 3], [4, 5, 6, 7], [8], []]


def test_what_flush_messages_requires_is_flushed_before_the_next_request_of_any_session() -> None:
    one, two = follower(FIRST, 0, flush_messages=1), follower(FIRST, 1)
    made = fetch_state(one, two)
    assert made.unflushed(NOW_MS) == []
    asked(made)
    handled(made, response(answer(one, batch(0, b"a")), answer(two, batch(0, b"b"))), NOW_MS)
    assert [state.partition for state in made.unflushed(NOW_MS)] == [one]
    of_next_leader = fetch_state(one, two)
    assert [state.partition for state in of_next_leader.unflushed(NOW_MS)] == [one]
    one.log.flush()
    assert made.unflushed(NOW_MS) == of_next_leader.unflushed(NOW_MS) == []


def test_a_partition_that_cannot_be_flushed_is_tried_again_after_its_delay() -> None:
    """A follower whose log is offline tried without end, and its node did nothing else."""
    one = follower(FIRST, 0, flush_messages=1)
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one, batch(0, b"a"))), NOW_MS)
    made.disconnected()
    [state] = made.unflushed(NOW_MS)
    made.delay(state, NOW_MS, KafkaStorageError("offline"))
    assert made.unflushed(NOW_MS) == []
    assert made.unflushed(state.delayed_until_ms) == [state]


def test_a_lost_session_is_replaced() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one)), NOW_MS)
    asked(made)
    handled(made, response(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND), NOW_MS)
    again = made.request(NOW_MS, 9)
    assert (again.session_id, again.session_epoch, len(again.topics)) == (0, 0, 1)
    with pytest.raises(NotControllerError):
        handled(made, response(error_code=ErrorCode.NOT_CONTROLLER), NOW_MS)


def test_after_a_lost_connection_the_request_names_the_old_session() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one)), NOW_MS)
    made.disconnected()
    again = made.request(NOW_MS, 9)
    assert (again.session_id, again.session_epoch, len(again.topics)) == (7, 0, 1)


def test_a_removed_partition_is_forgotten_and_its_response_dropped() -> None:
    one, two = follower(FIRST, 0), follower(FIRST, 1)
    made = fetch_state(one, two)
    asked(made)
    made.remove(one)
    handled(made, response(answer(one, batch(0, b"late")), answer(two)), NOW_MS)
    assert one.log.end_offset == 0
    assert made.request(NOW_MS, 9).forgotten_topics_data[0].partitions == [0]
    handled(made, response(), NOW_MS)
    made.add(one)
    assert asked(made) == [(0, 0, EPOCH)]


def test_a_response_to_a_request_of_another_epoch_is_dropped() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    one.become(PartitionState(LEADER, EPOCH + 1, 1, (NODE, LEADER), (NODE, LEADER)))
    made.add(one)
    handled(made, response(answer(one, batch(0, b"of the old epoch"))), NOW_MS)
    assert one.log.end_offset == 0
    assert asked(made) == [(0, 0, EPOCH + 1)]


def test_a_corrupt_batch_delays_only_its_partition() -> None:
    """KAFKA-5211, KAFKA-4384: and what came before it is kept."""
    one, two = follower(FIRST, 0), follower(FIRST, 1)
    made = fetch_state(one, two)
    asked(made)
    rotten = batch(1, b"rotten")
    rotten[-1] ^= 1
    good = answer(two, batch(0, b"good"))
    handled(made, response(answer(one, batch(0, b"before") + rotten), good), NOW_MS)
    assert (one.log.end_offset, two.log.end_offset) == (1, 1)
    request = made.request(NOW_MS, 9)
    assert [one.partition for one in request.topics[0].partitions] == [1]
    assert request.forgotten_topics_data[0].partitions == [0]
    assert request.max_wait_ms == 20, "the leader must not wait longer than until the partition is asked for again"
    handled(made, response(answer(two)), NOW_MS)
    assert asked(made, NOW_MS + 20) == [(0, 1, EPOCH)]


def test_the_backoff_grows_to_its_limit_and_is_reset_by_success() -> None:
    one = follower()
    made = fetch_state(one)
    now_ms = NOW_MS
    for pause_ms in (20, 40, 50, 50):
        asked(made, now_ms)
        handled(made, response(answer(one, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)), now_ms)
        assert made.due_ms(now_ms) == pause_ms
        now_ms += pause_ms
    asked(made, now_ms)
    handled(made, response(answer(one, batch(0, b"a"))), now_ms)
    assert made.due_ms(now_ms) == 0
    asked(made, now_ms)
    handled(made, response(answer(one, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)), now_ms)
    assert made.due_ms(now_ms) == 20


def test_without_partitions_nothing_is_due() -> None:
    assert fetch_state().due_ms(NOW_MS) is None


def test_divergence_truncates_and_ignores_the_high_watermark() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    fetched = batch(0, b"a", epoch=2) + batch(1, b"x", epoch=3)
    handled(made, response(answer(one, fetched, high_watermark=1)), NOW_MS)
    asked(made)
    parted = EpochEndOffset(epoch=2, end_offset=1)
    handled(made, response(answer(one, high_watermark=9, diverging_epoch=parted)), NOW_MS)
    assert (one.log.end_offset, one.high_watermark) == (1, 1)
    assert asked(made) == [(0, 1, EPOCH)]


def test_an_offset_out_of_range_is_returned_to_the_fetcher() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    outcome = handled(made, response(answer(one, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)), NOW_MS)
    assert [state.partition for state in outcome.out_of_range] == [one]


def test_records_of_a_later_epoch_are_skipped() -> None:
    """KAFKA-18723."""
    one = follower()
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one, batch(0, b"a") + batch(1, b"b", epoch=EPOCH + 1))), NOW_MS)
    assert one.log.end_offset == 1


def test_one_response_is_appended_over_several_segments() -> None:
    one = follower(segment_bytes=200)
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one, b"".join(batch(offset, b"x" * 40) for offset in range(9)))), NOW_MS)
    assert one.log.end_offset == 9
    assert len(one.log.segments) > 3


def damaged() -> Iterator[tuple[str, bytes]]:
    yield "an offset that goes back", bytes(batch(5, b"a") + batch(3, b"b"))
    backwards = batch(0, b"a")
    backwards[23:27] = (-1 & 0xFFFFFFFF).to_bytes(4, "big")
    yield "an end before its beginning", bytes(backwards)
    yield "a length that cannot be", bytes(batch(0, b"a")[:8]) + (3).to_bytes(4, "big") + bytes(80)


@pytest.mark.parametrize("data", [data for _, data in damaged()], ids=[name for name, _ in damaged()])
def test_malformed_batches_are_not_appended(data: bytes) -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    handled(made, response(answer(one, data)), NOW_MS)
    assert one.log.end_offset in (0, 6)
    assert made.due_ms(NOW_MS) == 20


def test_a_partition_with_an_offline_log_is_no_longer_fetched() -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    one.log.fail(OSError("worn out"))
    handled(made, response(answer(one, batch(0, b"a"))), NOW_MS)
    assert made.partitions == {}


def small_batches(count: int, *, first: int = 0) -> bytes:
    return b"".join(bytes(batch(offset, b"a")) for offset in range(first, first + count))


class Appends:
    """What is appended between two pauses at most: batches, bytes, appends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.most = (0, 0, 0), (0, 0, 0)
        append = Log.append

        def counted(log: Log, data: memoryview, chunk: list[Batch], **options: Any) -> object:
            batches, size_bytes, appends = self.now
            self.now = batches + len(chunk), size_bytes + len(data), appends + 1
            self.most = tuple(map(max, self.most, self.now))  # type: ignore[assignment]
            return append(log, data, chunk, **options)

        patch.setattr(Log, "append", counted)


@pytest.mark.parametrize("tail", [b"", bytes(batch(0, b"cut off"))[:-1]], ids=["", "cut off"])
@pytest.mark.parametrize(
    ("partitions", "sizes"),
    [
        (1, [1] * 5000),
        (1, [1] * BATCHES_AT_ONCE),
        (9, [1] * 400),
        (300, [1]),
        (300, [1000] * 3),
        (3, [100_000] * 50),
        (4, [BYTES_AT_ONCE - 100] * 2),
        (1, []),
    ],
)
def test_whatever_a_response_consists_of_no_step_is_long(
    partitions: int, sizes: list[int], tail: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(bytes(batch(offset, bytes(size))) for offset, size in enumerate(sizes)) + tail
    followers = [follower(FIRST, index, segment_bytes=1 << 30) for index in range(partitions)]
    made = fetch_state(*followers)
    asked(made)
    answers = [answer(one, data, high_watermark=len(sizes)) for one in followers]
    appends, pauses = Appends(monkeypatch), 0
    for _ in made.handle_response(response(*answers), NOW_MS):
        appends.now, pauses = (0, 0, 0), pauses + 1
    assert [(one.log.end_offset, one.high_watermark) for one in followers] == [(len(sizes), len(sizes))] * partitions
    batches, size_bytes, count = appends.most
    assert batches <= WORK_AT_ONCE + BATCHES_AT_ONCE
    assert size_bytes <= WORK_AT_ONCE * BYTES_OF_WORK + BYTES_AT_ONCE
    assert count <= WORK_AT_ONCE // PARTITION_WORK
    work = partitions * (PARTITION_WORK + len(sizes) + len(data) // BYTES_OF_WORK)
    assert pauses <= work // WORK_AT_ONCE, "not without need"


def removed(made: FollowerFetchState, one: Partition) -> None:
    made.remove(one)


def fetched_anew(made: FollowerFetchState, one: Partition) -> None:
    made.remove(one)
    made.add(one)


def of_a_new_epoch(made: FollowerFetchState, one: Partition) -> None:
    one.become(PartitionState(LEADER, EPOCH + 1, 1, (NODE, LEADER), (NODE, LEADER)))
    made.add(one)


def truncated(made: FollowerFetchState, one: Partition) -> None:
    one.truncate_to(7, leader_epoch=EPOCH)


@pytest.mark.parametrize("change", [removed, fetched_anew, of_a_new_epoch, truncated])
def test_the_rest_of_a_response_is_dropped_if_others_change_what_is_fetched(
    change: Callable[[FollowerFetchState, Partition], None],
) -> None:
    one, two = follower(FIRST, 0), follower(FIRST, 1)
    made = fetch_state(one, two)
    asked(made)
    steps = made.handle_response(response(answer(one, small_batches(5000)), answer(two, batch(0, b"a"))), NOW_MS)
    next(steps)
    assert 0 < one.log.end_offset < 5000
    change(made, one)
    end_offset = one.log.end_offset
    at_once(steps)
    assert (one.log.end_offset, two.log.end_offset) == (end_offset, 1)
    again = [] if change is removed else [(0, end_offset, one.leader_epoch)]
    assert sorted(asked(made)) == [*again, (1, 1, EPOCH)]


def test_nothing_is_appended_behind_skipped_records_of_a_later_epoch() -> None:
    """Not in a later step either."""
    one = follower()
    made = fetch_state(one)
    asked(made)
    data = bytes(batch(0, b"a") + batch(1, b"b", epoch=EPOCH + 1)) + small_batches(BATCHES_AT_ONCE, first=2)
    handled(made, response(answer(one, data)), NOW_MS)
    assert one.log.end_offset == 1


@pytest.mark.parametrize("whole", [1, BATCHES_AT_ONCE - 1, BATCHES_AT_ONCE, 2 * BATCHES_AT_ONCE + 1])
@pytest.mark.parametrize("length", [-(1 << 31), -12, -1, 0, 40])
def test_what_precedes_a_malformed_batch_is_appended_however_much_it_is(whole: int, length: int) -> None:
    one = follower()
    made = fetch_state(one)
    asked(made)
    rotten = bytes(batch(whole, b"a")[:8]) + length.to_bytes(4, "big", signed=True) + bytes(80)
    handled(made, response(answer(one, small_batches(whole) + rotten)), NOW_MS)
    assert one.log.end_offset == whole
    assert made.due_ms(NOW_MS) == 20
