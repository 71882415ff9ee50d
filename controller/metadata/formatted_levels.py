"""Reads and writes `bootstrap.checkpoint`: the feature levels of a new cluster, chosen when directories are formatted.

The file is the same as Kafka's, byte for byte: a snapshot whose records are FeatureLevelRecords. Only the first
controller of a new cluster reads it. kraft.version is in another file, with the first voters
(`quorum/bootstrap_checkpoint.py`).

Source: `BootstrapDirectory`, `FeatureLevelRecord` version 0.
"""

import struct
from collections.abc import Mapping

from minikafka.protocol.codec.varint import read_uvarint, uvarint
from minikafka.protocol.message_errors import MalformedMessage
from minikafka.protocol.records.batch import CONTROL, BatchHeader, batches, encode_batch
from minikafka.protocol.records.control import ControlType, control_key, control_type
from minikafka.protocol.records.record import CorruptRecords, Record
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import Disk

__all__ = ["FILE_NAME", "read_formatted_levels", "write_formatted_levels"]

FILE_NAME = "bootstrap.checkpoint"
_FRAME_VERSION, _FEATURE_LEVEL, _VERSION = 1, 12, 0
_LEVEL = struct.Struct(">h")
_HEADER, _FOOTER = struct.pack(">hqB", 0, 0, 0), struct.pack(">hB", 0, 0)


def write_formatted_levels(disk: Disk, directory: str, levels: Mapping[str, int], *, now_ms: int) -> None:
    """Write the file into an existing data directory. Raises OSError."""
    records = [Record(-1, now_ms, None, _record(name, level)) for name, level in levels.items()]
    ends = [
        [Record(-1, now_ms, control_key(kind), value)]
        for kind, value in ((ControlType.SNAPSHOT_HEADER, _HEADER), (ControlType.SNAPSHOT_FOOTER, _FOOTER))
    ]
    content = encode_batch(ends[0], BatchHeader(CONTROL, leader_epoch=0))
    content += encode_batch(records, BatchHeader(base_offset=1, leader_epoch=0))
    content += encode_batch(ends[1], BatchHeader(CONTROL, base_offset=1 + len(records), leader_epoch=0))
    disk.write_atomically(f"{directory}/{FILE_NAME}", content)


def read_formatted_levels(disk: Disk, directory: str) -> dict[str, int]:
    """Read the level of each feature; empty if the directory was not formatted.

    Raises:
        BrokenCheckpoint: the file is damaged, or has other records than FeatureLevelRecords.
        OSError: the file cannot be read.
    """
    path = f"{directory}/{FILE_NAME}"
    if not disk.exists(path):
        return {}
    levels: dict[str, int] = {}
    last = ControlType.UNKNOWN
    try:
        for batch in batches(disk.read_bytes(path)):
            batch.check_crc()
            for record in batch.records():
                last = control_type(record.key) if batch.is_control else ControlType.UNKNOWN
                if not batch.is_control:
                    levels.update([_feature(record.value or b"")])
        if last != ControlType.SNAPSHOT_FOOTER:
            raise ValueError("its end is missing")
    except (CorruptRecords, MalformedMessage, IndexError, struct.error, ValueError) as error:
        raise BrokenCheckpoint(f"{path}: {error}") from error
    return levels


def _record(name: str, level: int) -> bytes:
    """Encode a FeatureLevelRecord: frame version, type and version of the record, then its fields."""
    data = name.encode()
    frame = uvarint(_FRAME_VERSION) + uvarint(_FEATURE_LEVEL) + uvarint(_VERSION)
    return frame + uvarint(len(data) + 1) + data + _LEVEL.pack(level) + uvarint(0)


def _feature(value: bytes) -> tuple[str, int]:
    position, kind = 0, []
    for _ in range(3):
        number, position = read_uvarint(value, position)
        kind.append(number)
    if kind != [_FRAME_VERSION, _FEATURE_LEVEL, _VERSION]:
        raise ValueError(f"a record of type {kind[1]}, version {kind[2]}, where feature levels are expected")
    length, position = read_uvarint(value, position)
    end = position + length - 1
    name = value[position:end].decode()
    (level,) = _LEVEL.unpack_from(value, end)
    return name, level
