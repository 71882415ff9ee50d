"""Validation of produced batches: every fault is found and reported with the error of Apache Kafka."""

import random
from collections.abc import Callable

import pytest
from crc32c import crc32c
from support.batches import encode_batch

from minikafka.broker.partitions import batch_validation
from minikafka.broker.partitions.batch_validation import (
    AT_ONCE_RECORDS,
    BELIEVED_MS_MAX,
    MANY_RECORDS,
    NOT_THE_PRODUCERS,
    SCANNED_RECORDS_MAX,
    LargeBatch,
    RejectedRecords,
    Rules,
    produced_batch,
    validate,
    validate_in_steps,
)
from minikafka.broker.partitions.record_scan import HEADERS_AT_ONCE, RECORDS_AT_ONCE
from minikafka.protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from minikafka.protocol.records.batch import Batch, Codec
from minikafka.protocol.records.compression import compress
from minikafka.protocol.records.record import Record, encode_records

NOW_MS = 1_700_000_000_000
RULES = Rules()


def records(count: int, **fields: object) -> list[Record]:
    headers = [("h", b"1"), ("n", None)]
    return [
        Record(index, NOW_MS + index, b"k%d" % index, b"v" * index, headers)._replace(**fields)
        for index in range(count)
    ]


def buffer(batch: bytes) -> bytearray:
    return bytearray(batch)


def with_crc(data: bytearray) -> bytearray:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


def check(data: bytearray, rules: Rules = RULES, version: int = 9) -> Batch:
    return validate(produced_batch(memoryview(data), version), rules, NOW_MS)


def decoded_or_reason(batch: Batch) -> int | str:
    try:
        return len(batch.records())
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("count", [1, 2, SCANNED_RECORDS_MAX, SCANNED_RECORDS_MAX + 1, 1000])
def test_a_valid_batch_is_stored_unchanged(codec: Codec, count: int) -> None:
    data = buffer(encode_batch(records(count), codec=codec))
    before = bytes(data)
    assert bytes(in_steps(bytearray(data))[0].data) == before
    assert bytes(check(data).data) == before


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_compressed_batch_of_very_many_records_is_for_a_thread(codec: Codec) -> None:
    small = [Record(offset, NOW_MS, b"k", b"v") for offset in range(AT_ONCE_RECORDS + 1)]
    data = buffer(encode_batch(small, codec=codec))
    with pytest.raises(LargeBatch):
        check(bytearray(data))
    assert bytes(in_steps(bytearray(data))[0].data) == bytes(data)


def test_the_first_scan_is_for_a_thread_as_it_imports_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_validation, "is_scan_loaded", lambda: False)
    few, many = (buffer(encode_batch(records(count), codec=Codec.LZ4)) for count in (MANY_RECORDS - 1, MANY_RECORDS))
    check(few)
    with pytest.raises(LargeBatch):
        check(many)


def test_no_batch_and_an_incomplete_batch_are_invalid_records() -> None:
    whole = encode_batch(records(2))
    for data in (b"", whole[:5], whole[:16], whole[:-1], whole[:60]):
        with pytest.raises(InvalidRecordError, match="at least one"):
            check(buffer(data))


def test_two_batches_of_one_partition_are_an_invalid_record() -> None:
    with pytest.raises(InvalidRecordError, match="exactly one"):
        check(buffer(encode_batch(records(1)) * 2))


@pytest.mark.parametrize(
    ("magic", "error"), [(0, InvalidRecordError), (1, InvalidRecordError), (3, CorruptMessageError)]
)
def test_other_formats_are_rejected(magic: int, error: type[KafkaError]) -> None:
    data = buffer(encode_batch(records(1)))
    data[16] = magic
    with pytest.raises(error):
        check(data)


def test_zstd_needs_version_7() -> None:
    data = encode_batch(records(1), codec=Codec.ZSTD)
    with pytest.raises(UnsupportedCompressionTypeError):
        check(buffer(data), version=6)
    check(buffer(data), version=7)


def test_a_codec_that_does_not_exist_is_an_invalid_record() -> None:
    data = buffer(encode_batch(records(1)))
    data[22] |= 5
    with pytest.raises(InvalidRecordError, match="compression type"):
        check(with_crc(data))


def test_a_wrong_checksum_is_a_corrupt_message() -> None:
    data = buffer(encode_batch(records(1)))
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        check(data)


def test_the_limit_counts_the_whole_batch() -> None:
    data = encode_batch(records(3))
    check(buffer(data), Rules(max_message_bytes=len(data)))
    with pytest.raises(MessageTooLargeError):
        check(buffer(data), Rules(max_message_bytes=len(data) - 1))


@pytest.mark.parametrize("field", [23, 57], ids=["last offset", "count"])
@pytest.mark.parametrize("claimed", [-1, 0, 1, 4, 70, 2**31 - 1])
def test_wrong_counts_are_invalid_records(field: int, claimed: int) -> None:
    data = buffer(encode_batch(records(3)))
    data[field : field + 4] = claimed.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecordError):
        check(with_crc(data))


def test_consistently_wrong_counts_are_invalid_records() -> None:
    for claimed in (1, 2, 4, 64):
        data = buffer(encode_batch(records(3)))
        data[23:27] = (claimed - 1).to_bytes(4, "big")
        data[57:61] = claimed.to_bytes(4, "big")
        with pytest.raises(InvalidRecordError):
            check(with_crc(data))


@pytest.mark.parametrize("flip", range(6))
def test_damage_within_the_scanned_records_is_always_a_kafka_error(flip: int) -> None:
    """With the CRC made right again: an invalid record, or a batch that decodes in full."""
    source = random.Random(flip)
    whole = encode_batch(records(12))
    for _ in range(1500):
        data = buffer(whole)
        for _ in range(source.randint(1, 3)):
            data[source.randrange(61, len(data))] = source.randrange(256)
        try:
            batch = check(with_crc(data))
        except (InvalidRecordError, RejectedRecords):
            continue
        decoded = decoded_or_reason(batch)
        assert decoded == 12 or "utf-8" in str(decoded).lower()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_garbage_is_an_invalid_record(codec: Codec) -> None:
    data = buffer(encode_batch(records(3), codec=codec)[:61] + b"garbage")
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="decompressed"):
        check(with_crc(data))


def test_lz4_that_consumers_cannot_read_is_an_invalid_record() -> None:
    batch = encode_batch(records(3), codec=Codec.LZ4)
    data = buffer(batch + batch[61:])
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with pytest.raises(InvalidRecordError, match="followed by other data"):
        check(with_crc(data))


def test_lz4_of_very_many_blocks_is_for_a_thread_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = buffer(encode_batch(records(3), codec=Codec.LZ4))
    monkeypatch.setattr(batch_validation, "LZ4_BLOCK_BYTES", 2 * batch_validation.AT_ONCE_SIZE_BYTES)
    with pytest.raises(LargeBatch):
        check(data)
    assert bytes(in_steps(data)[0].data) == bytes(data)
    monkeypatch.setattr(batch_validation, "LZ4_BLOCK_BYTES", 1 << 40)
    with pytest.raises(MessageTooLargeError, match="very many blocks"):
        in_steps(data)


def test_control_batches_and_missing_sequences_are_invalid_records() -> None:
    with pytest.raises(InvalidRecordError, match="control"):
        check(buffer(encode_batch(records(1), control=True)))
    with pytest.raises(InvalidRecordError, match="sequence"):
        check(buffer(encode_batch(records(1), producer_id=7, producer_epoch=0, base_sequence=-1)))


def test_a_base_offset_other_than_0_is_invalid() -> None:
    with pytest.raises(InvalidRecordError, match="baseOffset"):
        check(buffer(encode_batch(records(1), base_offset=1)))


def test_a_compacted_topic_reports_the_records_without_key() -> None:
    mixed = [record._replace(key=None) if record.offset in (1, 70) else record for record in records(80)]
    with pytest.raises(RejectedRecords) as rejected:
        check(buffer(encode_batch(mixed)), Rules(compacted=True))
    assert [index for index, _ in rejected.value.indices] == [1, 70]
    assert isinstance(rejected.value.error, InvalidRecordError)


def test_timestamps_out_of_range_are_reported_per_record() -> None:
    hour = 3_600_000
    late = [*records(2), Record(2, NOW_MS + hour + 1, None, b"")]
    with pytest.raises(RejectedRecords) as rejected:
        check(buffer(encode_batch(late)))
    assert [index for index, _ in rejected.value.indices] == [2]
    assert isinstance(rejected.value.error, InvalidTimestampError)
    old = [Record(0, NOW_MS, None, b""), Record(1, NOW_MS - 11, None, b""), Record(2, -1, None, b"")]
    with pytest.raises(RejectedRecords) as rejected:
        check(buffer(encode_batch(old)), Rules(timestamp_before_max_ms=10))
    assert [index for index, _ in rejected.value.indices] == [1]
    check(buffer(encode_batch(old)))


STAMPED, BOUNDED = Rules(log_append_time=True), Rules(timestamp_before_max_ms=10)
CLAIMS: dict[str, tuple[Rules, list[int], int, list[int]]] = {
    "where the node sets the time": (STAMPED, [NOW_MS, NOW_MS], NOW_MS, [0, 1]),
    "of a compacted topic where the node sets the time": (
        Rules(log_append_time=True, compacted=True), [NOW_MS, NOW_MS], NOW_MS, [0, 1],
    ),
    "without a time": (RULES, [-1, -1], -1, [0, 1]),
    "with a record without a time": (RULES, [-1, NOW_MS], NOW_MS, []),
    "out of bounds": (BOUNDED, [5, 7], 7, [0, 1]),
    "of old records in a batch within the bounds": (BOUNDED, [5, NOW_MS], NOW_MS, []),
    "elsewhere": (RULES, [5, 7], 7, []),
}  # fmt: skip
"""A batch that claims LogAppendTime: the topic's rules, the records' timestamps, the batch's, and the refused records;
as in `tests/conversations/own/produce/log-append-time-that-a-producer-claims.txt`."""


@pytest.mark.parametrize(("rules", "times_ms", "max_ms", "refused"), CLAIMS.values(), ids=CLAIMS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_that_claims_log_append_time(
    rules: Rules, times_ms: list[int], max_ms: int, refused: list[int], codec: Codec
) -> None:
    claiming = [Record(index, time_ms, b"k", b"") for index, time_ms in enumerate(times_ms)]
    data = buffer(encode_batch(claiming, codec=codec))
    data[22] |= 8
    data[35:43] = max_ms.to_bytes(8, "big", signed=True)
    if not refused:
        assert check(with_crc(data), rules).timestamp_type == 0
        return
    with pytest.raises(RejectedRecords) as rejected:
        check(with_crc(data), rules)
    assert [index for index, _ in rejected.value.indices] == refused
    assert isinstance(rejected.value.error, InvalidTimestampError)
    said = {message.split(" of message")[0] for _, message in rejected.value.indices}
    assert said == ({f"Timestamp {max_ms}"} if rules is BOUNDED else {NOT_THE_PRODUCERS})


def test_log_append_time_is_set_and_the_producers_flag_ignored() -> None:
    stamped = check(buffer(encode_batch(records(3))), Rules(log_append_time=True))
    assert {record.timestamp for record in stamped.records()} == {NOW_MS}
    stamped.check_crc()
    claimed = check(buffer(encode_batch(records(3), timestamp_type=1)))
    claimed.check_crc()
    assert [record.timestamp for record in claimed.records()] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]


@pytest.mark.parametrize("bit", range(4, 16))
@pytest.mark.parametrize("rules", [RULES, Rules(log_append_time=True)])
def test_attributes_without_a_meaning_are_kept(bit: int, rules: Rules) -> None:
    data = buffer(encode_batch(records(3)))
    data[21:23] = (1 << bit).to_bytes(2, "big")
    data[35:43] = (NOW_MS + 1000).to_bytes(8, "big")
    if bit == 5:  # A control batch.
        with pytest.raises(InvalidRecordError):
            check(with_crc(data), rules)
        return
    batch = check(with_crc(data), rules)
    batch.check_crc()
    assert batch.attributes & 0xFFFF == 1 << bit | 8 * rules.log_append_time


def test_a_wrong_max_timestamp_is_corrected() -> None:
    data = buffer(encode_batch(records(3)))
    data[35:43] = (NOW_MS + 1000).to_bytes(8, "big")
    batch = check(with_crc(data))
    assert batch.max_timestamp == NOW_MS + 2
    batch.check_crc()


@pytest.mark.parametrize("count", [3, SCANNED_RECORDS_MAX, SCANNED_RECORDS_MAX + 1, 1000, 2 * RECORDS_AT_ONCE])
@pytest.mark.parametrize("claimed", [0, NOW_MS - 1, NOW_MS + 10, NOW_MS + BELIEVED_MS_MAX + 100_000, 1 << 62])
def test_the_max_timestamp_of_a_batch_of_any_size_is_that_of_its_records(claimed: int, count: int) -> None:
    """As in Apache Kafka. The last record is the latest, by more than the first ones but for what is believed."""
    latest = NOW_MS + BELIEVED_MS_MAX // 2
    last = Record(count - 1, latest, b"k", b"v", ())
    data = buffer(encode_batch([*records(count - 1, timestamp=NOW_MS + 20, value=b"v", headers=()), last]))
    data[35:43] = claimed.to_bytes(8, "big")
    batch = in_steps(with_crc(data))[0] if count > RECORDS_AT_ONCE else check(with_crc(data))
    assert batch.max_timestamp == latest
    batch.check_crc()


def test_a_max_timestamp_like_those_of_the_first_records_is_believed() -> None:
    """To look at each record of each large batch costs more than all else (DECISIONS 1)."""
    data = buffer(encode_batch(records(SCANNED_RECORDS_MAX + 1, timestamp=NOW_MS)))
    data[35:43] = (NOW_MS + BELIEVED_MS_MAX).to_bytes(8, "big")
    assert check(with_crc(data)).max_timestamp == NOW_MS + BELIEVED_MS_MAX
    data[35:43] = (NOW_MS + BELIEVED_MS_MAX + 1).to_bytes(8, "big")
    assert check(with_crc(data)).max_timestamp == NOW_MS


@pytest.mark.parametrize("codec", list(Codec))
def test_a_topics_codec_replaces_the_producers(codec: Codec) -> None:
    data = buffer(encode_batch(records(3), codec=Codec.GZIP, producer_id=5, producer_epoch=1, base_sequence=4))
    batch = check(data, Rules(codec=codec))
    assert (batch.codec, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (codec, 5, 1, 4)
    assert batch.records() == records(3)
    assert not batch.data.readonly


def in_steps(data: bytearray, rules: Rules = RULES) -> tuple[Batch, int]:
    """The result of the validation in steps, and the number of its pauses."""
    steps = validate_in_steps(produced_batch(memoryview(data), 9), rules, NOW_MS)
    result, pauses = None, 0
    try:
        while True:
            function = steps.send(result)
            pauses += function is None
            result = None if function is None else function()
    except StopIteration as done:
        return done.value, pauses


def outcome(check: Callable[[], Batch]) -> object:
    try:
        return bytes(check().data)
    except RejectedRecords as rejected:
        return type(rejected.error), rejected.indices
    except KafkaError as error:
        return type(error), error.message


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.SNAPPY])
@pytest.mark.parametrize(
    "rules",
    [RULES, Rules(compacted=True), Rules(timestamp_before_max_ms=1, timestamp_after_max_ms=1), Rules(codec=Codec.GZIP)],
    ids=["plain", "compacted", "timestamps", "recompressed"],
)
@pytest.mark.parametrize("flip", range(0, 400, 29))
def test_validation_in_steps_has_the_same_results(codec: Codec, rules: Rules, flip: int) -> None:
    data = buffer(encode_batch(records(30, key=None) + records(100)[30:], codec=codec))
    if flip:
        data[61 + flip % (len(data) - 61)] ^= 1 << flip % 8
    data = with_crc(data)
    at_once = outcome(lambda: check(bytearray(data), rules))
    assert outcome(lambda: in_steps(bytearray(data), rules)[0]) == at_once


def test_many_records_take_pauses() -> None:
    data = buffer(encode_batch([Record(i, NOW_MS, b"", b"") for i in range(10 * RECORDS_AT_ONCE)]))
    compacted = Rules(compacted=True)
    with pytest.raises(LargeBatch):
        check(bytearray(data), compacted)
    batch, pauses = in_steps(data, compacted)
    assert (batch.record_count, pauses) == (10 * RECORDS_AT_ONCE, 9)


@pytest.mark.parametrize(
    ("codec", "level", "most"),
    [
        *((Codec.ZSTD, 22, 2 << 10), (Codec.ZSTD, 10, 2 << 10), (Codec.LZ4, 12, 2 << 10), (Codec.LZ4, 17, 2 << 10)),
        *((Codec.GZIP, None, 8 << 10), (Codec.GZIP, 9, 8 << 10), (Codec.LZ4, None, 8 << 10), (Codec.LZ4, 9, 8 << 10)),
        *((Codec.ZSTD, None, 128 << 10), (Codec.ZSTD, 9, 128 << 10), (Codec.SNAPPY, None, 128 << 10)),
    ],
)
def test_what_takes_long_to_compress_is_left_to_a_thread(codec: Codec, level: int | None, most: int) -> None:
    """The slowest content is text of two letters: `most` bytes of it take up to about 10 ms."""
    few, many = ([Record(0, NOW_MS, b"k", bytes(size))] for size in (most - 100, most + 100))
    rules = Rules(codec=codec, codec_level=level)
    assert check(buffer(encode_batch(few)), rules).codec == codec
    with pytest.raises(LargeBatch):
        check(buffer(encode_batch(many)), rules)


def test_many_headers_take_pauses() -> None:
    headers = [("", b"")] * (5 * HEADERS_AT_ONCE)
    data = buffer(encode_batch([Record(offset, NOW_MS, b"k", b"v", headers) for offset in range(2)]))
    with pytest.raises(LargeBatch):
        check(bytearray(data))
    assert in_steps(data)[1] == 9


def test_records_may_decompress_to_sixteen_times_the_largest_batch() -> None:
    small, large = ([Record(0, NOW_MS, b"k", bytes(size << 20))] for size in (15, 17))
    assert in_steps(buffer(encode_batch(small, codec=Codec.ZSTD)))[0].record_count == 1
    with pytest.raises(MessageTooLargeError, match="decompress to more"):
        in_steps(buffer(encode_batch(large, codec=Codec.ZSTD)))


def number(value: int, size_bytes: int) -> bytes:
    """A zigzag varint of so many bytes, or more if it needs them."""
    value, data = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F or len(data) < size_bytes - 1:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*data, value])


def batch_of(count: int, codec: Codec, **sizes: int) -> bytearray:
    """A batch of which the numbers of these names have so many bytes."""

    def sized(name: str, value: int) -> bytes:
        return number(value, sizes.get(name, 1))

    payload, has_headers = b"", any(name.startswith("header") for name in sizes)
    for index in range(count):
        fields = b"\0" + sized("timestamp", 0) + sized("offset", index)
        fields += sized("key", 1) + b"k" + sized("value", 1) + b"v" + sized("headers", has_headers)
        if has_headers:
            fields += sized("header key", 1) + b"h" + sized("header value", 1) + b"v"
        payload += sized("length", len(fields)) + fields
    data = bytearray(encode_batch(records(count), codec=codec)[:61]) + compress(codec, payload)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    return with_crc(data)


NUMBERS = ["length", "timestamp", "offset", "key", "value", "headers", "header key", "header value"]


@pytest.mark.parametrize("count", [1, MANY_RECORDS])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("size_bytes", [2, 5, 6, 7, 9, 10, 11])
def test_numbers_are_as_long_as_consumers_read_them(name: str, size_bytes: int, codec: Codec, count: int) -> None:
    data = batch_of(count, codec, **{name: size_bytes})
    if size_bytes <= (10 if name == "timestamp" else 5):
        assert len(in_steps(data)[0].records()) == count
    else:
        with pytest.raises(InvalidRecordError):
            in_steps(data)


FIRST, LAST = -(2**63), 2**63 - 1
ANY_TIME = Rules(timestamp_after_max_ms=LAST)
OVERFLOWING = {
    "before 64 bits": ([FIRST, FIRST - 1], RULES),
    "the first of 64 bits": ([FIRST], RULES),
    "so old that Kafka takes it for new": ([NOW_MS - LAST - 1], RULES),
    "before 64 bits, after no time": ([-1, FIRST - 1], RULES),
    "beyond 64 bits": ([LAST, LAST + 1], ANY_TIME),
}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize(("timestamps", "rules"), OVERFLOWING.values(), ids=OVERFLOWING)
def test_timestamps_that_overflow_are_invalid(timestamps: list[int], rules: Rules, codec: Codec) -> None:
    at_times = [Record(index, timestamp, b"k", b"v") for index, timestamp in enumerate(timestamps)]
    data = buffer(encode_batch(records(len(at_times)), codec=codec))
    payload = encode_records(at_times, range(len(at_times)), timestamps[0])
    data = data[:61] + compress(codec, payload)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[27:35] = data[35:43] = timestamps[0].to_bytes(8, "big", signed=True)
    with pytest.raises(RejectedRecords) as rejected:
        check(with_crc(data), rules)
    assert isinstance(rejected.value.error, InvalidTimestampError)


@pytest.mark.parametrize("timestamps", [[-1, -1], [0, LAST], [NOW_MS - LAST, -1], [LAST, 0]])
def test_timestamps_of_64_bits_are_valid_where_there_is_no_bound(timestamps: list[int]) -> None:
    at_times = [Record(index, timestamp, b"k", b"v") for index, timestamp in enumerate(timestamps)]
    assert check(buffer(encode_batch(at_times)), ANY_TIME).records() == at_times
