"""Encodes an image as the content of a snapshot file, and decodes it to records. Pure.

A snapshot is one file (`snapshot_files.py`): a line with the format's name, the records of the image, each preceded by
its length, and a CRC-32C of everything before. It replaces every record below its offset. In a dynamic quorum a control
batch with kraft.version and the voters precedes the records, with its length: that is format 1.
"""

import struct
from collections.abc import Generator, Iterable, Iterator

import crc32c

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    AclRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    TopicRecord,
    UnreadableRecord,
    decode_record,
    encode_record,
)
from minikafka.controller.metadata.steps import RECORDS_IN_A_STEP, record_weight
from minikafka.controller.raft.membership_records import (
    UnreadableMembership,
    control_batch,
    control_value,
    membership_in,
)
from minikafka.controller.raft.voter_history import Membership, VoterHistory
from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.steps import Pauses, at_once

__all__ = [
    "check_snapshot",
    "decode_snapshot",
    "encode_snapshot",
    "records_of",
    "snapshot_content",
    "snapshot_membership",
    "snapshot_records",
]


def records_of(image: Image) -> Iterator[Record]:
    """Records that produce this image from an empty one, in a deterministic order."""
    if image.cluster_id:
        yield ClusterRecord(image.cluster_id, image.last_broker_epoch)
    for name, level in sorted(image.features.items()):
        yield FeatureRecord(name, level)
    for _, broker in sorted(image.brokers.items()):
        yield broker
    yield from _topics(image)
    for (resource_type, resource), values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(resource_type, resource, name, value)
    if image.next_producer_id:
        yield ProducerIdsRecord(node_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    for entity, quotas in sorted(image.quotas.items(), key=str):
        for key, limit in sorted(quotas.items()):
            yield ClientQuotaRecord(entity, key, limit)
    for _, credential in sorted(image.scram.items()):
        yield credential
    for acl in image.acls:
        yield AclRecord(acl)
    yield from image.tokens.values()


def _topics(image: Image) -> Iterator[Record]:
    """The records of the topics in order of creation, which is visible in the Metadata response for all topics."""
    for topic in image.topics.values():
        yield TopicRecord(topic.id, topic.name)
        for index, state in enumerate(topic.partitions):
            yield PartitionRecord(
                topic_id=topic.id,
                partition=index,
                replicas=state.replicas,
                isr=state.isr,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                adding_replicas=state.adding_replicas,
                removing_replicas=state.removing_replicas,
                elr=state.elr,
                last_known_elr=state.last_known_elr,
                directories=state.directories,
            )


_MAGIC = b"minikafka metadata snapshot 0\n"
_MAGIC_DYNAMIC = b"minikafka metadata snapshot 1\n"
_LENGTH = struct.Struct(">I")


def encode_snapshot(records: Iterable[Record]) -> bytes:
    """Encode records as the content of a snapshot file."""
    return at_once(snapshot_content(records))


def snapshot_content(
    records: Iterable[Record], membership: Membership | None = None
) -> Generator[None, None, bytes]:
    """Encode records as the content of a snapshot file, in steps, between which their image must not change.

    Args:
        records: the records of the image.
        membership: kraft.version and the voters; written only if kraft.version is not 0.
    """
    data = bytearray(_MAGIC)
    if membership is not None and membership.voters is not None and membership.kraft_version:
        named = [control_value(membership.kraft_version), control_value(membership.voters)]
        batch = control_batch(named, timestamp_ms=0)
        data = bytearray(_MAGIC_DYNAMIC + _LENGTH.pack(len(batch)) + batch)
    pauses = Pauses(RECORDS_IN_A_STEP)
    for record in records:
        encoded = encode_record(record)
        data += _LENGTH.pack(len(encoded))
        data += encoded
        if pauses.is_due(items=record_weight(len(encoded))):
            yield
    data += _LENGTH.pack(crc32c.crc32c(data))
    yield
    return bytes(data)


def decode_snapshot(data: bytes) -> list[Record]:
    """Decode the content of a snapshot file into its records.

    Raises:
        UnreadableRecord: the file is damaged or its format is unknown.
    """
    return at_once(snapshot_records(data))


def check_snapshot(data: bytes) -> None:
    """Check the format and the checksum of a snapshot file, not its records. Raises UnreadableRecord."""
    end = len(data) - _LENGTH.size
    if not data:
        raise UnreadableRecord("metadata snapshot is an empty file")
    if not data.startswith((_MAGIC, _MAGIC_DYNAMIC)):
        raise UnreadableRecord("metadata snapshot of an unknown format: written by a newer minikafka?")
    if end < len(_MAGIC) or _LENGTH.unpack_from(data, end)[0] != crc32c.crc32c(memoryview(data)[:end]):
        raise UnreadableRecord("metadata snapshot is damaged: its checksum is wrong")


def snapshot_membership(data: bytes, offset: int) -> Membership:
    """kraft.version and the voters in a snapshot that replaces all records before `offset`. Raises UnreadableRecord."""
    check_snapshot(data)
    history = VoterHistory()
    try:
        if data.startswith(_MAGIC_DYNAMIC):
            history.append(membership_in(parse_header(data, len(_MAGIC_DYNAMIC) + _LENGTH.size)))
    except (CorruptRecords, UnreadableMembership) as error:
        raise UnreadableRecord(f"metadata snapshot: {error}") from error
    return history.latest._replace(offset=offset - 1)


def _records_start(data: bytes) -> int:
    start = len(_MAGIC)
    if data.startswith(_MAGIC_DYNAMIC):
        start += _LENGTH.size + int(_LENGTH.unpack_from(data, start)[0])
    return start


def snapshot_records(data: bytes) -> Generator[None, None, list[Record]]:
    """Decode the content of a snapshot file into its records, like `decode_snapshot`, but in steps."""
    check_snapshot(data)
    yield
    end = len(data) - _LENGTH.size
    records: list[Record] = []
    position, pauses = _records_start(data), Pauses(RECORDS_IN_A_STEP)
    while position < end:
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        records.append(decode_record(data[position : position + length]))
        position += length
        if pauses.is_due(items=record_weight(length)):
            yield
    return records
