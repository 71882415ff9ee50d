"""Validates produced record batches before they are appended. Pure.

Input is the bytes of a Produce request; the result is a checked `Batch`, or the error that Apache Kafka would return.
The checks run in Kafka's order (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`LogValidator`), so that a request with two faults gets the same error as from Kafka.

Records are scanned, not built: a batch with wrong counts or lengths would break every consumer that reads it later.
Scanning one record takes most of a microsecond, or a tenth with numpy, so in a large uncompressed batch only the first
`SCANNED_RECORDS_MAX` records are checked, which finds producers that write another format than they declare. Where a
topic's settings concern single records (compaction, timestamp bounds, another compression), all records are checked,
and so they are if the largest timestamp that the header claims is far from those of the first records.

A small compressed batch can be costly: it may hold millions of records or headers. So the decompressed size of a batch
is bounded, to `DECOMPRESSED_FACTOR` times `max.message.bytes`. A larger batch is refused with MESSAGE_TOO_LARGE, upon
which Kafka's producer divides the batch and sends it again (Kafka itself has no bound). A batch that takes longer than
a step of a task may take is validated in steps (`validate_in_steps`).
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from crc32c import crc32c

from minikafka.broker.partitions.record_scan import ScanResult, forbidden_records, scan
from minikafka.protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    UnsupportedCompressionTypeError,
)
from minikafka.protocol.records.batch import Batch, Codec, CorruptRecords, parse_header
from minikafka.protocol.records.column_codec import is_scan_loaded, scan_usual
from minikafka.protocol.records.compression import TooMuchContent, check_lz4, compress, decompress
from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import TOPIC_SETTINGS
from minikafka.storage.log_config import LogConfig
from minikafka.storage.steps import Steps

HEADER_SIZE_BYTES = 61
SIZE_PREFIX_BYTES = 12
MAGIC_END = 17
AT_ONCE_SIZE_BYTES = 1 << 20
"""Batches that decompress to more bytes are decompressed in a thread, and validated in steps."""
AT_ONCE_RECORDS = 10_000
"""Compressed batches with more records are decompressed and scanned in a thread. Scanning 10,000 records takes 1.5 ms
with numpy. For smaller batches a thread would cost more than it saves other tasks in waiting time."""
MANY_RECORDS = 500
"""Compressed batches with at least this many records are scanned with numpy, if numpy is installed."""
LZ4_BLOCK_BYTES = 256
"""A batch that may decompress to N bytes may have N / `LZ4_BLOCK_BYTES` LZ4 blocks."""
HIGH_LEVEL = 9
COMPRESSED_AT_ONCE_BYTES = 128 << 10
"""The largest payload that is compressed at once with snappy, or with zstd up to `HIGH_LEVEL`: takes up to 10 ms."""
SLOWLY_COMPRESSED_AT_ONCE_BYTES = 8 << 10
"""The same with gzip or lz4 up to `HIGH_LEVEL`, which are slow with text of few letters."""
HIGHLY_COMPRESSED_AT_ONCE_BYTES = 2 << 10
"""The same with any codec above `HIGH_LEVEL`."""
DECOMPRESSED_FACTOR = 16
KEPT_ATTRIBUTES = 0x18
"""The attributes that a recompressed batch keeps: the timestamp type, and whether the batch is transactional."""
SCANNED_RECORDS_MAX = 64
BELIEVED_MS_MAX = 60_000
"""How far the largest timestamp that a header claims may be above those of the first records, to be believed. A batch
of records that have the time at which they were sent covers some milliseconds."""
RECORD_ERRORS_MAX = 1000
NO_BOUND = 2**63 - 1
UNBOUNDED = 1 << 70
OUT_OF_RANGE = (
    "Timestamp {timestamp} of message with offset {offset} is out of range. "
    "The timestamp should be within [{earliest}, {latest}]"
)
REJECTED = (
    "One or more records have been rejected due to {count} record errors in total, "
    "and only showing the first three errors at most: "
)
NOT_THE_PRODUCERS = "Invalid timestamp type. Producer should not set timestamp type to LogAppendTime."
NO_KEY = "Compacted topic cannot accept message without key in topic partition"
NO_TIMESTAMP = -1
CREATE_TIME, LOG_APPEND_TIME = 0, 1
CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE}}
LEVELS = {
    Codec.GZIP: "compression_gzip_level",
    Codec.LZ4: "compression_lz4_level",
    Codec.ZSTD: "compression_zstd_level",
}


@dataclass(slots=True, frozen=True)
class Rules:
    """The settings of a topic that decide which batches may be appended, with the units of Kafka's names."""

    max_message_bytes: int = setting_field(TOPIC_SETTINGS["max.message.bytes"])
    log_append_time: bool = False
    timestamp_before_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.before.max.ms"])
    timestamp_after_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.after.max.ms"])
    compacted: bool = False
    codec: Codec | None = None
    """The topic's compression; None keeps the producer's (`compression.type=producer`)."""
    codec_level: int | None = None


def rules_of(config: LogConfig) -> Rules:
    """Derive the validation rules from a topic's settings."""
    codec = CODECS.get(config.compression_type)
    level: int | None = getattr(config, LEVELS[codec]) if codec in LEVELS else None
    return Rules(
        max_message_bytes=config.max_message_bytes,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted="compact" in config.cleanup_policy,
        codec=codec,
        codec_level=level,
    )


@dataclass(slots=True)
class RejectedRecords(Exception):
    """A batch was rejected because of single records in it.

    Attributes:
        error: The error of the partition.
        indices: (index in the batch, message) of the rejected records (KIP-467). The message about a missing key ends
            before the name of the partition, which the validation does not know.
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
    try:
        batch = parse_header(data)
    except CorruptRecords:
        raise _malformed_frame(data, version) from None
    if len(data) - len(batch.data) >= SIZE_PREFIX_BYTES:
        raise _malformed_frame(data, version)
    if batch.is_compressed:
        _check_codec(batch, version)
    return batch


def _malformed_frame(data: memoryview, version: int) -> KafkaError:
    """The error for bytes that are not exactly one batch of format 2."""
    if len(data) >= SIZE_PREFIX_BYTES and int.from_bytes(data[8:12], "big", signed=True) < 14:
        return CorruptMessageError("Found record size smaller than minimum record overhead (14).")
    if len(data) >= MAGIC_END and data[16] > 2:
        signed = int.from_bytes(data[16:17], signed=True)
        return CorruptMessageError(f"Invalid magic found in record: {signed}")
    size = SIZE_PREFIX_BYTES + int.from_bytes(data[8:12], "big") if len(data) >= MAGIC_END else 0
    if not size or size > len(data):
        return InvalidRecordError(
            f"Produce requests with version {version} must have at least one record batch per partition"
        )
    if data[16] != 2:
        return InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
    if size < HEADER_SIZE_BYTES:
        return CorruptMessageError(f"Record batch of {size} bytes is smaller than its header")
    return InvalidRecordError(
        f"Produce requests with version {version} must contain exactly one record batch per partition"
    )


def _check_codec(batch: Batch, version: int) -> None:
    if batch.attributes & 7 > Codec.ZSTD:
        raise InvalidRecordError(f"Unknown compression type id: {batch.attributes & 7}")
    if version < 7 and batch.codec is Codec.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests with version {version} are not allowed to use ZStandard compression"
        )


class LargeBatch(Exception):
    """Raised for a batch that takes longer to validate than a step of a task may take: use `validate_in_steps`."""


def validate(batch: Batch, rules: Rules, now_ms: int) -> Batch:
    """Check a client's batch against a topic's rules and convert it to the form that is stored.

    Returns:
        The batch to append: the given batch, whose buffer must be writable since its timestamps are set in place, or a
        new batch if the topic has another compression.

    Raises:
        InvalidRecordError, MessageTooLargeError, CorruptMessageError: As Kafka's `UnifiedLog` and `LogValidator`.
        RejectedRecords: Single records are invalid; nothing may be written.
        LargeBatch: Header and checksum are valid, but the records take long; the batch is unchanged.
    """
    _check_header(batch, rules)
    payload: bytes | memoryview = batch.payload
    usual: ScanResult | None = None
    if batch.is_compressed:
        if len(payload) > AT_ONCE_SIZE_BYTES or _takes_long(batch.record_count):
            raise LargeBatch
        payload, usual = _payload_and_scan(batch, rules, AT_ONCE_SIZE_BYTES)
    scanned = _at_once(_scanned(batch, rules, payload, now_ms, usual))
    if _is_recompressed(batch, rules):
        if len(payload) > _compressed_at_once_bytes(rules):
            raise LargeBatch
        batch = _recompressed(batch, rules, payload)
    return _with_timestamps(batch, rules, now_ms, scanned)


def _compressed_at_once_bytes(rules: Rules) -> int:
    if (rules.codec_level or 0) > HIGH_LEVEL:
        return HIGHLY_COMPRESSED_AT_ONCE_BYTES
    is_slow = rules.codec in (Codec.GZIP, Codec.LZ4)
    return SLOWLY_COMPRESSED_AT_ONCE_BYTES if is_slow else COMPRESSED_AT_ONCE_BYTES


def _takes_long(record_count: int) -> bool:
    """Whether the records of a compressed batch are scanned in a thread."""
    return record_count > AT_ONCE_RECORDS or (record_count >= MANY_RECORDS and not is_scan_loaded())


def validate_in_steps(batch: Batch, rules: Rules, now_ms: int) -> Steps[Batch]:
    """Validate a batch in steps, as `validate` does; for a batch for which `validate` raised `LargeBatch`.

    Raises: As `validate`, without `LargeBatch`.
    """
    most = decompressed_size_bytes_max(rules)
    payload: bytes | memoryview = batch.payload
    usual: ScanResult | None = None
    if batch.is_compressed:
        payload, usual = yield partial(_payload_and_scan, batch, rules, most)
    scanned = yield from _scanned(batch, rules, payload, now_ms, usual)
    if _is_recompressed(batch, rules):
        batch = yield partial(_recompressed, batch, rules, payload)
    return _with_timestamps(batch, rules, now_ms, scanned)


def decompressed_size_bytes_max(rules: Rules) -> int:
    """Return to how many bytes the records of one batch may decompress."""
    return DECOMPRESSED_FACTOR * max(rules.max_message_bytes, AT_ONCE_SIZE_BYTES)


T = TypeVar("T")


def _at_once(steps: Generator[None, None, T]) -> T:
    try:
        next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    raise LargeBatch


def _scanned(
    batch: Batch, rules: Rules, payload: bytes | memoryview, now_ms: int, usual: ScanResult | None = None
) -> Generator[None, None, ScanResult | None]:
    """Scan as many records as needed, or take `usual` as the result; returns None if not all records were scanned."""
    count = batch.record_count
    all_needed = batch.is_compressed or rules.compacted or _is_recompressed(batch, rules)
    bound = NO_BOUND if all_needed else SCANNED_RECORDS_MAX
    scanned = usual or (yield from scan(payload, count, bound))
    if count > bound and not _is_believed(batch, scanned, rules):
        scanned, bound = (yield from scan(payload, count, NO_BOUND)), NO_BOUND
    if (scanned.null_keys and rules.compacted) or _may_have_bad_timestamps(batch, scanned, rules, now_ms):
        if count > bound:
            scanned, bound = (yield from scan(payload, count, NO_BOUND)), NO_BOUND
        yield from _reject_bad_records(batch, rules, payload, now_ms)
    return scanned if count <= bound else None


def _is_believed(batch: Batch, scanned: ScanResult, rules: Rules) -> bool:
    """Whether the largest timestamp that a batch claims is plausible, given the first records. Apache Kafka computes it
    from all records."""
    above_ms = batch.max_timestamp - (batch.base_timestamp + scanned.max_timestamp_delta)
    return rules.log_append_time or 0 <= above_ms <= BELIEVED_MS_MAX


def _is_recompressed(batch: Batch, rules: Rules) -> bool:
    return rules.codec is not None and rules.codec is not batch.codec


def _with_timestamps(batch: Batch, rules: Rules, now_ms: int, scanned: ScanResult | None) -> Batch:
    if rules.log_append_time:
        return _with_timestamp(batch, timestamp_type=LOG_APPEND_TIME, max_timestamp=now_ms)
    max_timestamp = batch.max_timestamp
    if scanned is not None:
        max_timestamp = batch.base_timestamp + scanned.max_timestamp_delta
    if batch.timestamp_type or batch.max_timestamp != max_timestamp:
        return _with_timestamp(batch, timestamp_type=CREATE_TIME, max_timestamp=max_timestamp)
    return batch


def _recompressed(batch: Batch, rules: Rules, payload: bytes | memoryview) -> Batch:
    """Compress the records with the topic's compression. Raises MessageTooLargeError if the batch is then too large."""
    assert rules.codec is not None
    data = bytearray(batch.data[:HEADER_SIZE_BYTES])
    data += compress(rules.codec, bytes(payload), rules.codec_level)
    data[8:12] = (len(data) - SIZE_PREFIX_BYTES).to_bytes(4, "big")
    data[21:23] = (batch.attributes & KEPT_ATTRIBUTES | rules.codec).to_bytes(2, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    recompressed = parse_header(memoryview(data), 0)
    if recompressed.size_bytes > rules.max_message_bytes:
        raise _too_large(recompressed, rules)
    return recompressed


def _with_timestamp(batch: Batch, *, timestamp_type: int, max_timestamp: int) -> Batch:
    """Set the timestamp type and the largest timestamp in place, and recompute the CRC, which covers both."""
    data = batch.data
    attributes = batch.attributes & ~8 | timestamp_type << 3
    data[21:23] = attributes.to_bytes(2, "big", signed=True)
    data[35:43] = max_timestamp.to_bytes(8, "big", signed=True)
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    return parse_header(data, 0)


def _too_large(batch: Batch, rules: Rules) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"The record batch size is {batch.size_bytes} bytes which exceeds the maximum configured value of "
        f"{rules.max_message_bytes}."
    )


def _check_header(batch: Batch, rules: Rules) -> None:
    if batch.base_offset != 0:
        raise InvalidRecordError(f"The baseOffset of the record batch should be 0, but it is {batch.base_offset}")
    if len(batch.data) > rules.max_message_bytes:
        raise _too_large(batch, rules)
    try:
        batch.check_crc()
    except CorruptRecords as error:
        raise CorruptMessageError(f"Record is corrupt: {error}") from error
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


def _payload(batch: Batch, rules: Rules, size_bytes_max: int) -> memoryview:
    """Decompress the records. May run in a thread."""
    try:
        if batch.codec is Codec.LZ4:
            check_lz4(batch.payload, size_bytes_max // LZ4_BLOCK_BYTES)
        return memoryview(decompress(batch.codec, batch.payload, size_bytes_max))
    except TooMuchContent as error:
        most = decompressed_size_bytes_max(rules)
        if size_bytes_max < most:
            raise LargeBatch from error
        raise MessageTooLargeError(
            f"The records of the batch decompress to more than {most} bytes, {DECOMPRESSED_FACTOR} times the maximum "
            f"configured value of {rules.max_message_bytes}, or are in very many blocks."
        ) from error
    except CorruptRecords as error:
        raise InvalidRecordError(f"The batch cannot be decompressed: {error}") from error


def _payload_and_scan(batch: Batch, rules: Rules, size_bytes_max: int) -> tuple[memoryview, ScanResult | None]:
    """Decompress the records; of many usual records also return the result of their scan. May run in a thread."""
    payload = _payload(batch, rules, size_bytes_max)
    found = scan_usual(payload, batch.record_count) if batch.record_count >= MANY_RECORDS else None
    return payload, None if found is None else ScanResult(*found)


def _may_have_bad_timestamps(batch: Batch, scanned: ScanResult, rules: Rules, now_ms: int) -> bool:
    """Whether a record may be outside the topic's timestamp bounds, so that each one has to be checked.

    Timestamps before 1970 may also be outside 64 bits, and so far in the past that Apache Kafka takes them for future.
    """
    if batch.timestamp_type == LOG_APPEND_TIME:
        return True
    if rules.log_append_time:
        return False
    latest_max = now_ms + rules.timestamp_after_max_ms
    if latest_max > NO_BOUND:
        latest_max = NO_BOUND
    base_ms = batch.base_timestamp
    is_late = batch.max_timestamp > latest_max or base_ms + scanned.max_timestamp_delta > latest_max
    return rules.timestamp_before_max_ms < NO_BOUND or base_ms < 0 or is_late


def _reject_bad_records(
    batch: Batch, rules: Rules, payload: bytes | memoryview, now_ms: int
) -> Generator[None, None, None]:
    """Find the invalid records (KIP-467).

    A record without a timestamp (-1) is never too old.

    Raises:
        RejectedRecords: There are invalid records.
    """
    delta_min, delta_max = _allowed_deltas(batch, rules, now_ms)
    base, claimed = batch.base_timestamp, batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    count, bad = yield from forbidden_records(
        payload,
        batch.record_count,
        delta_min=delta_min,
        delta_max=delta_max,
        exempt=NO_TIMESTAMP - base if claimed is None else UNBOUNDED,
        keys_needed=rules.compacted,
        most=RECORD_ERRORS_MAX,
    )
    if not bad:
        return
    error: KafkaError = InvalidRecordError(REJECTED.format(count=count))
    if any(delta is not None for _, delta in bad):
        error = InvalidTimestampError("One or more records have been rejected due to invalid timestamp")
    bounds = {
        "earliest": max(now_ms - rules.timestamp_before_max_ms, NO_TIMESTAMP),
        "latest": min(now_ms + rules.timestamp_after_max_ms, NO_BOUND),
    }
    late = NOT_THE_PRODUCERS if claimed is not None and _is_the_nodes(claimed, rules) else OUT_OF_RANGE

    def message(index: int, delta: int | None) -> str:
        if delta is None:
            return NO_KEY
        return late.format(timestamp=base + delta if claimed is None else claimed, offset=index, **bounds)

    raise RejectedRecords(error, [(index, message(index, delta)) for index, delta in bad])


def _allowed_deltas(batch: Batch, rules: Rules, now_ms: int) -> tuple[int, int]:
    """The lowest and the highest timestamp delta that a record may have.

    In a batch that claims LogAppendTime, all records have the timestamp of the batch, whatever they say.
    """
    base = batch.base_timestamp
    earliest, latest = now_ms - rules.timestamp_before_max_ms, min(now_ms + rules.timestamp_after_max_ms, NO_BOUND)
    if batch.timestamp_type == LOG_APPEND_TIME:
        claimed = batch.max_timestamp
        allowed = not _is_the_nodes(claimed, rules) and earliest <= claimed <= latest
        return (-UNBOUNDED, UNBOUNDED) if allowed else (UNBOUNDED, -UNBOUNDED)
    return (-UNBOUNDED, UNBOUNDED) if rules.log_append_time else (earliest - base, latest - base)


def _is_the_nodes(claimed: int, rules: Rules) -> bool:
    """Whether a batch may not claim LogAppendTime: the node sets it, or the batch has no timestamp instead."""
    return rules.log_append_time or claimed == NO_TIMESTAMP
