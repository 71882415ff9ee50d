"""Reads and writes `bootstrap.checkpoint`: feature levels and users of a new cluster, chosen at the format.

The file is the same as Kafka's, byte for byte: a snapshot of FeatureLevelRecords and UserScramCredentialRecords. Only
the first controller of a new cluster reads it. kraft.version is in another file, with the first voters
(`quorum/bootstrap_checkpoint.py`).

Source: `BootstrapDirectory`; `FeatureLevelRecord` and `UserScramCredentialRecord` version 0.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.controller.metadata.records import ScramRecord
from minikafka.protocol.codec.varint import read_uvarint, uvarint
from minikafka.protocol.message_errors import MalformedMessage
from minikafka.protocol.records.batch import CONTROL, BatchHeader, batches, encode_batch
from minikafka.protocol.records.control import ControlType, control_key, control_type
from minikafka.protocol.records.record import CorruptRecords, Record
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import Disk

__all__ = ["FILE_NAME", "Formatted", "read_formatted", "write_formatted"]

FILE_NAME = "bootstrap.checkpoint"
_FRAME_VERSION, _SCRAM, _FEATURE_LEVEL, _VERSION = 1, 11, 12, 0
_LEVEL, _ITERATIONS = struct.Struct(">h"), struct.Struct(">i")
_HEADER, _FOOTER = struct.pack(">hqB", 0, 0, 0), struct.pack(">hB", 0, 0)


@dataclass(frozen=True, slots=True)
class Formatted:
    """What a new cluster begins with.

    Attributes:
        levels: the level of each feature; empty if the directory was not formatted.
        users: the SCRAM credentials of its first users.
    """

    levels: Mapping[str, int] = field(default_factory=dict[str, int])
    users: tuple[ScramRecord, ...] = ()


def write_formatted(disk: Disk, directory: str, formatted: Formatted, *, now_ms: int) -> None:
    """Write the file into an existing data directory. Raises OSError."""
    values = [_feature_record(name, level) for name, level in formatted.levels.items()]
    values += [_scram_record(user) for user in formatted.users]
    records = [Record(-1, now_ms, None, value) for value in values]
    ends = [
        [Record(-1, now_ms, control_key(kind), value)]
        for kind, value in ((ControlType.SNAPSHOT_HEADER, _HEADER), (ControlType.SNAPSHOT_FOOTER, _FOOTER))
    ]
    content = encode_batch(ends[0], BatchHeader(CONTROL, leader_epoch=0))
    content += encode_batch(records, BatchHeader(base_offset=1, leader_epoch=0))
    content += encode_batch(ends[1], BatchHeader(CONTROL, base_offset=1 + len(records), leader_epoch=0))
    disk.write_atomically(f"{directory}/{FILE_NAME}", content)


def read_formatted(disk: Disk, directory: str) -> Formatted:
    """Read the file; without it, nothing was chosen.

    Raises:
        BrokenCheckpoint: the file is damaged, or has other records than those above.
        OSError: the file cannot be read.
    """
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return Formatted()
    levels: dict[str, int] = {}
    users: list[ScramRecord] = []
    last = ControlType.UNKNOWN
    try:
        for batch in batches(disk.read_bytes(path)):
            batch.check_crc()
            for record in batch.records():
                last = control_type(record.key) if batch.is_control else ControlType.UNKNOWN
                if not batch.is_control:
                    _take(record.value or b"", levels, users)
        if last != ControlType.SNAPSHOT_FOOTER:
            raise ValueError("its end is missing")
    except (CorruptRecords, MalformedMessage, IndexError, struct.error, ValueError) as error:
        raise BrokenCheckpoint(f"{path}: {error}") from error
    return Formatted(levels, tuple(users))


def _head(kind: int) -> bytes:
    """Frame version, type and version of a record; its fields follow."""
    return uvarint(_FRAME_VERSION) + uvarint(kind) + uvarint(_VERSION)


def _bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def _feature_record(name: str, level: int) -> bytes:
    return _head(_FEATURE_LEVEL) + _bytes(name.encode()) + _LEVEL.pack(level) + uvarint(0)


def _scram_record(user: ScramRecord) -> bytes:
    keys = _bytes(user.salt) + _bytes(user.stored_key) + _bytes(user.server_key)
    fields = _bytes(user.user.encode()) + bytes([user.mechanism]) + keys + _ITERATIONS.pack(user.iterations)
    return _head(_SCRAM) + fields + uvarint(0)


def _take(value: bytes, levels: dict[str, int], users: list[ScramRecord]) -> None:
    """Add what a record says."""
    position, kind = 0, []
    for _ in range(3):
        number, position = read_uvarint(value, position)
        kind.append(number)
    if kind not in ([_FRAME_VERSION, _FEATURE_LEVEL, _VERSION], [_FRAME_VERSION, _SCRAM, _VERSION]):
        raise ValueError(f"a record of type {kind[1]}, version {kind[2]}, where feature levels are expected")
    name, position = _read_bytes(value, position)
    if kind[1] == _FEATURE_LEVEL:
        (levels[name.decode()],) = _LEVEL.unpack_from(value, position)
        return
    mechanism, position = value[position], position + 1
    salt, position = _read_bytes(value, position)
    stored_key, position = _read_bytes(value, position)
    server_key, position = _read_bytes(value, position)
    (iterations,) = _ITERATIONS.unpack_from(value, position)
    users.append(ScramRecord(name.decode(), mechanism, salt, stored_key, server_key, iterations))


def _read_bytes(value: bytes, position: int) -> tuple[bytes, int]:
    length, position = read_uvarint(value, position)
    end = position + length - 1
    if not position <= end <= len(value):
        raise ValueError("a field is longer than its record")
    return value[position:end], end
