"""The bootstrap checkpoint: the first voters of a dynamic quorum, written by `format` before the first start (KIP-853).

`00000000000000000000-0000000000.checkpoint` in the metadata log's directory, byte for byte as Kafka writes it: control
records SNAPSHOT_HEADER, KRAFT_VERSION, KRAFT_VOTERS in one batch, SNAPSHOT_FOOTER in another.
"""

import struct

from minikafka.controller.metadata.metadata_log import METADATA
from minikafka.controller.metadata.records import UnreadableRecord
from minikafka.controller.raft.membership_records import (
    UnreadableMembership,
    control_batch,
    control_value,
    membership_in,
)
from minikafka.controller.raft.voter_history import Membership, VoterHistory
from minikafka.controller.raft.voter_set import VoterSet
from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.control import ControlType
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.directories.directory_identity import make_durable_directory
from minikafka.storage.disks.disk import Disk

__all__ = ["BOOTSTRAP_CHECKPOINT", "read_bootstrap_checkpoint", "write_bootstrap_checkpoint"]

BOOTSTRAP_CHECKPOINT = f"{0:020d}-{0:010d}.checkpoint"
_HEADER = struct.Struct(">hq")
_FOOTER = struct.Struct(">h")


def write_bootstrap_checkpoint(disk: Disk, metadata_directory: str, voters: VoterSet, *, now_ms: int) -> None:
    """Write the checkpoint into the metadata directory of a voter or an observer of a dynamic quorum.

    Args:
        disk: the disk.
        metadata_directory: `metadata.log.dir`.
        voters: the first voters of the quorum.
        now_ms: the time of the wall clock in milliseconds.

    Raises:
        OSError: the checkpoint cannot be written.
    """
    path = f"{metadata_directory}/{METADATA}"
    make_durable_directory(disk, path)
    disk.write_atomically(f"{path}/{BOOTSTRAP_CHECKPOINT}", _content(voters, now_ms))
    disk.sync_directory(metadata_directory)


def _content(voters: VoterSet, now_ms: int) -> bytes:
    header = (ControlType.SNAPSHOT_HEADER, _HEADER.pack(0, 0) + b"\0")
    first = control_batch([header, control_value(1), control_value(voters)], timestamp_ms=now_ms, leader_epoch=0)
    footer = (ControlType.SNAPSHOT_FOOTER, _FOOTER.pack(0) + b"\0")
    return first + control_batch([footer], timestamp_ms=now_ms, base_offset=3, leader_epoch=0)


def read_bootstrap_checkpoint(disk: Disk, metadata_directory: str) -> Membership | None:
    """Read kraft.version and the voters from the checkpoint; None if there is no checkpoint. The checkpoint of a static
    quorum has kraft.version 0.

    Raises:
        UnreadableRecord: the checkpoint is damaged, or written by a newer version.
        OSError: the checkpoint cannot be read.
    """
    path = f"{metadata_directory}/{METADATA}/{BOOTSTRAP_CHECKPOINT}"
    if not disk.exists(path):
        return None
    history, data = VoterHistory(), disk.read_bytes(path)
    if not data:
        raise UnreadableRecord(f"{path} is an empty file: restore a backup of it, or format the directory again")
    try:
        for batch in batches(data):
            batch.check_crc()
            history.append(membership_in(batch))
    except (CorruptRecords, UnreadableMembership) as error:
        raise UnreadableRecord(f"{path}: {error}") from error
    return Membership(history.latest.kraft_version, history.latest.voters)
