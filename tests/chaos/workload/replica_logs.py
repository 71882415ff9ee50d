"""Reads the log of a replica for the history."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.history import Read, ReplicaLog
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.logs.log import Log
from minikafka.storage.segments.batch_scan import Header
from minikafka.storage.segments.segment import Segment


def replica_log(log: Log, high_watermark: int, partition: TopicPartition, node: int) -> ReplicaLog:
    """The log of a replica from its start to its end, with one `Read` for each batch, at the batch's first offset.

    The value has the batch's last offset, leader epoch and checksum. Replicas have the same batches, as followers
    store the bytes of their leader. A batch whose bytes do not have its checksum is "corrupt". Nothing is written.
    Of a compacted log, which each replica compacts itself, there is one `Read` for each record.

    Args:
        log: An open log. It should be at rest: closed connections, no appends.
        partition: Its name in the history.

    Raises:
        OSError: The disk cannot be read.
    """
    reads = _records(log, partition) if log.config.compacts else _reads(log, partition)
    return ReplicaLog(partition, node, log.start_offset, high_watermark, tuple(reads))


def _records(log: Log, partition: TopicPartition) -> Iterator[Read]:
    for index in range(len(log.segments)):
        segment = log.segments[index]
        for header in segment.scan(segment.base_offset):
            batch = segment.batch(header)
            for record in batch.records():
                if record.offset >= log.start_offset:
                    value = record.headers if record.value is None else record.value
                    said = f"{value!r} at {record.timestamp} in epoch {batch.leader_epoch}"
                    yield Read(partition, record.offset, str(record.key), said)


def _reads(log: Log, partition: TopicPartition) -> Iterator[Read]:
    for index in range(len(log.segments)):
        segment = log.segments[index]
        for header in segment.scan(segment.base_offset):
            if header.last_offset >= log.start_offset:
                yield Read(partition, header.base_offset, None, _digest(segment, header))


def _digest(segment: Segment, header: Header) -> str:
    batch = segment.batch(header)
    try:
        batch.check_crc()
    except CorruptRecords as error:
        return f"corrupt: {error}"
    return f"to {batch.last_offset} in epoch {batch.leader_epoch}, checksum {batch.crc:08x}"
