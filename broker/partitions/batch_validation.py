"""Validates produced record batches before they are appended. Pure.

Input is the bytes of a Produce request; the result is a checked `Batch`, or the error that Apache Kafka would return.
The checks run in Kafka's order (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`LogValidator`), so that a request with two faults gets the same error as from Kafka.

Records are scanned, not built: a batch with wrong counts or lengths would break every consumer that reads it later.
Scanning one record takes most of a microsecond, so in a large uncompressed batch only the first
`SCANNED_RECORDS_MAX` records are checked, which finds producers that write another format than they declare. Where a
topic's settings concern single records (compaction, timestamp bounds), all records are checked.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from minikafka.protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from minikafka.protocol.records.batch import Batch, Codec, CorruptRecords, encode_batch, parse_header
from minikafka.protocol.records.compression import decompress
from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import TOPIC_SETTINGS
from minikafka.storage.log_config import LogConfig

HEADER_SIZE_BYTES = 61
SIZE_PREFIX_BYTES = 12
MAGIC_END = 17
DECOMPRESSED_SIZE_BYTES_MAX = 256 << 20
SCANNED_RECORDS_MAX = 64
RECORD_ERRORS_MAX = 1000
NO_BOUND = 2**63 - 1
NO_TIMESTAMP = -1
CREATE_TIME, LOG_APPEND_TIME = 0, 1
CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE}}
CODECS_OWN_LEVEL = -1
LEVELS = {
    Codec.GZIP: "compression_gzip_level",
    Codec.LZ4: "compression_lz4_level",
    Codec.ZSTD: "compression_zstd_level",
}


@dataclass(slots=True, frozen=True)
class Rules:
    """The settings of a topic that decide what may be appended, with the units of Kafka's names."""

    max_message_bytes: int = setting_field(TOPIC_SETTINGS["max.message.bytes"])
    log_append_time: bool = False
    timestamp_before_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.before.max.ms"])
    timestamp_after_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.after.max.ms"])
    compacted: bool = False
    codec: Codec | None = None
    """The topic's compression; None keeps the producer's (`compression.type=producer`)."""
    codec_level: int | None = None


def rules_of(config: LogConfig) -> Rules:
    """The validation rules in a topic's settings."""
    codec = CODECS.get(config.compression_type)
    level: int | None = getattr(config, LEVELS[codec]) if codec in LEVELS else None
    return Rules(
        max_message_bytes=config.max_message_bytes,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted="compact" in config.cleanup_policy,
        codec=codec,
        codec_level=None if level == CODECS_OWN_LEVEL else level,
    )


@dataclass(slots=True)
class RejectedRecords(Exception):
    """A batch was rejected because of single records in it.

    Attributes:
        error: The error of the partition.
        indices: (index in the batch, message) of the rejected records (KIP-467).
    """

    error: KafkaError
    indices: list[tuple[int, str]] = field(default_factory=lambda: [])


def produced_batch(records: bytes | memoryview | None, version: int) -> Batch:
    """Parse the single batch of a partition in a Produce request; checks the frame, not the content.

    Raises:
        InvalidRecordError: No batch, more than one, an incomplete one, or format 0 or 1.
        CorruptMessageError: Unknown format, or an impossible size.
        UnsupportedCompressionTypeError: zstd before Produce version 7 (KIP-110).
    """
    data = memoryview(records or b"")
    if len(data) >= SIZE_PREFIX_BYTES and int.from_bytes(data[8:12], "big", signed=True) < 14:
        raise CorruptMessageError("Found record size smaller than minimum record overhead (14).")
    if len(data) >= MAGIC_END and data[16] > 2:
        raise CorruptMessageError(f"Invalid magic found in record: {data[16]}")
    size = SIZE_PREFIX_BYTES + int.from_bytes(data[8:12], "big") if len(data) >= MAGIC_END else 0
    if not size or size > len(data):
        raise InvalidRecordError(
            f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if data[16] != 2:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with "
            "magic version 2"
        )
    if size < HEADER_SIZE_BYTES:
        raise CorruptMessageError(f"Record batch of {size} bytes is smaller than its header")
    if len(data) - size >= SIZE_PREFIX_BYTES:
        raise InvalidRecordError(
            f"Produce requests with version {version} must contain exactly one record batch per partition"
        )
    batch = parse_header(data, 0)
    if batch.attributes & 7 > Codec.ZSTD:
        raise InvalidRecordError(f"Unknown compression type id: {batch.attributes & 7}")
    if version < 7 and batch.codec is Codec.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )
    return batch


def validate(batch: Batch, rules: Rules, now_ms: int) -> Batch:
    """Check a client's batch against a topic's rules and convert it to the form that is stored.

    Returns:
        The batch to append: the one given, whose buffer must be writable since its timestamps are set in place, or a
        new one if the topic has another compression.

    Raises:
        InvalidRecordError, MessageTooLargeError, CorruptMessageError: As Kafka's `UnifiedLog` and `LogValidator`.
        RejectedRecords: Single records are invalid; nothing may be written.
    """
    _check_envelope(batch, rules)
    _check_header(batch)
    payload = _payload(batch)
    bound = SCANNED_RECORDS_MAX if batch.codec is Codec.NONE and not rules.compacted else NO_BOUND
    scanned = _scan(payload, batch.record_count, bound)
    if (scanned.null_keys and rules.compacted) or _may_have_bad_timestamps(batch, scanned, rules, now_ms):
        _reject_bad_records(batch, rules, now_ms)
    if rules.codec is not None and rules.codec is not batch.codec:
        batch = _recompressed(batch, rules)
    if rules.log_append_time:
        return _with_timestamp(batch, timestamp_type=LOG_APPEND_TIME, max_timestamp=now_ms)
    max_timestamp = batch.max_timestamp
    if batch.record_count <= bound:
        max_timestamp = batch.base_timestamp + scanned.max_timestamp_delta
    if batch.timestamp_type or batch.max_timestamp != max_timestamp:
        return _with_timestamp(batch, timestamp_type=CREATE_TIME, max_timestamp=max_timestamp)
    return batch


def _recompressed(batch: Batch, rules: Rules) -> Batch:
    assert rules.codec is not None
    data = encode_batch(
        batch.records(max_size_bytes=DECOMPRESSED_SIZE_BYTES_MAX),
        codec=rules.codec,
        level=rules.codec_level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
    return parse_header(memoryview(bytearray(data)), 0)


def _with_timestamp(batch: Batch, *, timestamp_type: int, max_timestamp: int) -> Batch:
    """Set the timestamp type and the largest timestamp in place, and recompute the CRC, which covers both."""
    data = batch.data
    attributes = batch.attributes & ~8 | timestamp_type << 3
    data[21:23] = attributes.to_bytes(2, "big")
    data[35:43] = max_timestamp.to_bytes(8, "big", signed=True)
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return parse_header(data, 0)


def _check_envelope(batch: Batch, rules: Rules) -> None:
    if batch.base_offset != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch should be 0, but it is {batch.base_offset}"
        )
    if batch.size_bytes > rules.max_message_bytes:
        raise MessageTooLargeError(
            f"The record batch size is {batch.size_bytes} bytes which exceeds the maximum configured value of "
            f"{rules.max_message_bytes}."
        )
    try:
        batch.check_crc()
    except CorruptRecords as error:
        raise CorruptMessageError(f"Record is corrupt: {error}") from error


def _check_header(batch: Batch) -> None:
    count = batch.record_count
    if batch.last_offset_delta + 1 <= 0 or count <= 0:
        raise InvalidRecordError(f"Invalid reported count for record batch: {count}")
    if batch.last_offset_delta + 1 != count:
        raise InvalidRecordError(
            f"Inconsistent batch offset range [0, {batch.last_offset_delta}] and count of records {count}"
        )
    if batch.is_control:
        raise InvalidRecordError("Clients are not allowed to write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {batch.base_sequence} in record batch with producerId {batch.producer_id}"
        )


def _payload(batch: Batch) -> bytes | memoryview:
    if batch.codec is Codec.NONE:
        return batch.payload
    try:
        return memoryview(decompress(batch.codec, batch.payload, DECOMPRESSED_SIZE_BYTES_MAX))
    except CorruptRecords as error:
        raise InvalidRecordError(f"The batch cannot be decompressed: {error}") from error


class ScanResult(NamedTuple):
    """The result of the scan."""

    max_timestamp_delta: int
    null_keys: int


def _scan(payload: bytes | memoryview, count: int, bound: int) -> ScanResult:
    """Check the boundaries and offset deltas (0, 1, 2 …) of up to `bound` records, as `DefaultRecord.readFrom` does.

    This is the broker's only loop over produced records, written for speed.
    """
    position, null_keys, latest = 0, 0, -(2**63)
    try:
        for index in range(min(count, bound)):
            size, position = payload[position], position + 1
            if size > 0x7F:
                size, position = _long_varint(payload, size, position)
            record_end = position + (size >> 1)
            delta, position = payload[position + 1], position + 2  # past the attributes, always 0
            if delta > 0x7F:
                delta, position = _long_varint(payload, delta, position)
            latest = max(latest, (delta >> 1) ^ -(delta & 1))
            offset, position = payload[position], position + 1
            if offset > 0x7F:
                offset, position = _long_varint(payload, offset, position)
            key, position = payload[position], position + 1
            if key > 0x7F:
                key, position = _long_varint(payload, key, position)
            if key == 1:
                null_keys += 1
            else:
                position += key >> 1
            value, position = payload[position], position + 1
            if value > 0x7F:
                value, position = _long_varint(payload, value, position)
            if value != 1:
                position += value >> 1
            headers, position = payload[position], position + 1
            if headers:
                position = _skip_headers(payload, headers, position, index)
            negative = size & 1 or (key & 1 and key > 1) or (value & 1 and value > 1)
            if position != record_end or offset != index << 1 or negative:
                raise _malformed_record(index, size, offset, key, value)
    except IndexError:
        raise InvalidRecordError(f"The batch ends within its records; it claims {count}") from None
    if position > len(payload) or (count <= bound and position < len(payload)):
        raise InvalidRecordError(f"the batch's {count} records end at {position} of {len(payload)} bytes")
    return ScanResult(latest, null_keys)


def _malformed_record(index: int, size: int, offset: int, key: int, value: int) -> InvalidRecordError:
    """The error for a malformed record; sizes and offset are zigzag-encoded."""
    if offset != index << 1:
        return InvalidRecordError(f"Record {index} of the batch has another offset than {index}")
    for what, number in (("size", size), ("key size", key), ("value size", value)):
        if number & 1 and (number != 1 or what == "size"):
            return InvalidRecordError(f"Record {index} has a negative {what}")
    return InvalidRecordError(f"Invalid size of record {index}: it does not end where it should")


def _long_varint(payload: bytes | memoryview, value: int, position: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte is `value`; the result is still zigzag-encoded."""
    value &= 0x7F
    shift = 7
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise InvalidRecordError("A variable length number has more than 10 bytes")


def _skip_headers(payload: bytes | memoryview, count: int, position: int, index: int) -> int:
    if count > 0x7F:
        count, position = _long_varint(payload, count, position)
    if count & 1 or count >> 1 > len(payload) - position:
        raise InvalidRecordError(f"Found invalid number of record headers in record {index}")
    for _ in range(count >> 1):
        for what in ("key", "value"):
            size, position = _long_varint(payload, payload[position] | 0x80, position + 1) if (
                payload[position] > 0x7F
            ) else (payload[position], position + 1)
            if not size & 1:
                position += size >> 1
            elif size != 1 or what == "key":
                raise InvalidRecordError(f"Invalid header {what} size in record {index}")
    return position


def _may_have_bad_timestamps(batch: Batch, scanned: ScanResult, rules: Rules, now_ms: int) -> bool:
    """Whether a record may be outside the topic's timestamp bounds, so that each one has to be checked."""
    if rules.log_append_time:
        return False
    latest = max(batch.max_timestamp, batch.base_timestamp + scanned.max_timestamp_delta)
    return rules.timestamp_before_max_ms < NO_BOUND or latest - now_ms > rules.timestamp_after_max_ms


def _reject_bad_records(batch: Batch, rules: Rules, now_ms: int) -> None:
    """Find the invalid records (KIP-467).

    Raises:
        RejectedRecords: There are some. A record without a timestamp (-1) is never too old.
    """
    bad: list[tuple[int, str]] = []
    wrong_time = False
    for index, record in enumerate(batch.records(max_size_bytes=DECOMPRESSED_SIZE_BYTES_MAX)):
        timestamp = record.timestamp
        if rules.compacted and record.key is None:
            bad.append((index, "Compacted topic cannot accept message without key in topic partition."))
        elif rules.log_append_time or timestamp == NO_TIMESTAMP:
            continue
        elif (
            now_ms - timestamp > rules.timestamp_before_max_ms
            or timestamp - now_ms > rules.timestamp_after_max_ms
        ):
            wrong_time = True
            bad.append((index, f"Timestamp {timestamp} of message with offset {index} is out of range."))
    if not bad:
        return
    error: KafkaError = InvalidRecordError(f"{len(bad)} records of the batch are not allowed here")
    if wrong_time:
        error = InvalidTimestampError(
            "One or more records have been rejected due to invalid timestamp"
        )
    raise RejectedRecords(error, bad[:RECORD_ERRORS_MAX])
