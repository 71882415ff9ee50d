"""Encodes and decodes the control records of the voters, KRAFT_VERSION and KRAFT_VOTERS, as Kafka does (KIP-853).

Source: `KRaftVersionRecord` and `VotersRecord`, version 0.
"""

import struct
from collections.abc import Sequence
from typing import TypeAlias

from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.protocol.codec.varint import read_uvarint, skip_tagged_fields, uvarint
from minikafka.protocol.message_errors import MalformedMessage
from minikafka.protocol.records.batch import CONTROL, Batch, BatchHeader, encode_batch
from minikafka.protocol.records.control import ControlType, control_key, control_type
from minikafka.protocol.records.record import Record

__all__ = ["MembershipRecord", "UnreadableMembership", "control_batch", "control_value", "membership_in", "voters_from"]

MembershipRecord: TypeAlias = int | VoterSet
"""The content of a control record: a finalized kraft.version, or the voters from this record on."""
_VERSION = struct.Struct(">hh")
_VOTER = struct.Struct(">i16s")
_RANGE = struct.Struct(">hh")
_PORT = struct.Struct(">H")


class UnreadableMembership(ValueError):
    """A record of the voters that this version of minikafka cannot read: the node must not take part."""


def control_value(record: MembershipRecord) -> tuple[ControlType, bytes]:
    """Encode the content of a control record as its type and its value."""
    if isinstance(record, VoterSet):
        return ControlType.KRAFT_VOTERS, b"\0\0" + _array([_voter(voter) for voter in record]) + b"\0"
    return ControlType.KRAFT_VERSION, _VERSION.pack(0, record) + b"\0"


def control_batch(
    records: Sequence[tuple[ControlType, bytes]], *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """Encode a control batch of records, each given as type and value."""
    entries = [Record(-1, timestamp_ms, control_key(kind), value) for kind, value in records]
    return encode_batch(entries, BatchHeader(CONTROL, base_offset, leader_epoch))


def membership_in(batch: Batch) -> list[tuple[int, MembershipRecord]]:
    """The records of the voters in a batch, with their offsets; most batches have none.

    Raises:
        UnreadableMembership: a record is damaged, or of a newer version.
    """
    if not batch.is_control:
        return []
    found: list[tuple[int, MembershipRecord]] = []
    for record in batch.records():
        kind = control_type(record.key)
        if kind not in (ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS):
            continue
        try:
            found.append((record.offset, _decode(kind, record.value or b"")))
        except (struct.error, IndexError, MalformedMessage, UnicodeDecodeError, ValueError) as error:
            raise UnreadableMembership(f"the {kind.name} record at offset {record.offset}: {error}") from error
    return found


def _decode(kind: ControlType, value: bytes) -> MembershipRecord:
    (version,) = struct.unpack_from(">h", value)
    if version != 0:
        raise UnreadableMembership(f"version {version} is newer than this minikafka")
    if kind == ControlType.KRAFT_VERSION:
        return int(_VERSION.unpack_from(value)[1])
    return voters_from(value)


def voters_from(value: bytes) -> VoterSet:
    """The voters in the value of a KRAFT_VOTERS record of version 0. Raises ValueError, IndexError, struct.error."""
    count, position = read_uvarint(value, 2)
    voters: list[Voter] = []
    for _ in range(count - 1):
        voter, position = _read_voter(value, position)
        voters.append(voter)
    return VoterSet(voters)


def _voter(voter: Voter) -> bytes:
    endpoints = [_text(name) + _text(host) + _PORT.pack(port) + b"\0" for name, host, port in voter.endpoints]
    versions = _RANGE.pack(voter.min_version, voter.max_version) + b"\0"
    return _VOTER.pack(*voter.key) + _array(endpoints) + versions + b"\0"


def _read_voter(data: bytes, position: int) -> tuple[Voter, int]:
    key = ReplicaKey(*_VOTER.unpack_from(data, position))
    count, position = read_uvarint(data, position + _VOTER.size)
    endpoints: list[VoterEndpoint] = []
    for _ in range(count - 1):
        name, position = _read_text(data, position)
        host, position = _read_text(data, position)
        (port,) = _PORT.unpack_from(data, position)
        endpoints.append(VoterEndpoint(name, host, port))
        position = _after_tags(data, position + _PORT.size)
    low, high = _RANGE.unpack_from(data, position)
    position = _after_tags(data, position + _RANGE.size)
    return Voter(key, tuple(endpoints), low, high), _after_tags(data, position)


def _array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def _text(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = read_uvarint(data, position)
    end = position + size - 1
    if not position <= end <= len(data):
        raise UnreadableMembership("a text that ends after the record")
    return bytes(data[position:end]).decode(), end


def _after_tags(data: bytes, position: int) -> int:
    count, position = read_uvarint(data, position)
    return skip_tagged_fields(count, data, position, len(data))
