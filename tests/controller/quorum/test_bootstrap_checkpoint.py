"""The bootstrap checkpoint of a dynamic quorum: Kafka's bytes, read and written."""

from random import Random

import pytest

from minikafka.controller.metadata.records import UnreadableRecord
from minikafka.controller.quorum.bootstrap_checkpoint import read_bootstrap_checkpoint, write_bootstrap_checkpoint
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.protocol.names import uuid_from_text
from minikafka.storage.disks.memory_disk import MemoryDisk

PATH = "/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
KAFKAS = bytes.fromhex(
    "00000000000000000000009a00000000028ab6ff85002000000002000001a207041495000001a207041495ffffffffffffff"
    "ffffffffffffff000000032a0000000800000003160000000001a20704146b00001e00000208000000050a00000001000082"
    "0100000408000000066e000002000000013c4678a6496e43fbb78748ac41147905020b434f4e54524f4c4c45520a3132372e"
    "302e302e3165ed00000000010000000000000000000000030000003f0000000002ba261402002000000000000001a2070415"
    "0b000001a20704150bffffffffffffffffffffffffffff000000011a00000008000000040600000000"
)
"""A file that `kafka-storage format --standalone` of Kafka 4.3 wrote."""
VOTERS = VoterSet(
    [
        Voter(
            ReplicaKey(1, uuid_from_text("PEZ4pkluQ_u3h0isQRR5BQ")), (VoterEndpoint("CONTROLLER", "127.0.0.1", 26093),)
        )
    ]
)


def disk_with(data: bytes) -> MemoryDisk:
    disk = MemoryDisk(Random(0))
    disk.make_directory("/data/__cluster_metadata-0")
    disk.write_atomically(PATH, data)
    return disk


def test_kafkas_checkpoint_is_read() -> None:
    assert read_bootstrap_checkpoint(disk_with(KAFKAS), "/data") == Membership(1, VOTERS)


def test_ours_has_the_size_and_the_content_of_kafkas() -> None:
    disk = MemoryDisk(Random(0))
    write_bootstrap_checkpoint(disk, "/data", VOTERS, now_ms=1_795_000_000_000)
    assert read_bootstrap_checkpoint(disk, "/data") == Membership(1, VOTERS)
    assert len(disk.read_bytes(PATH)) == len(KAFKAS)


def test_a_directory_without_one_names_nobody() -> None:
    assert read_bootstrap_checkpoint(MemoryDisk(Random(0)), "/data") is None


def test_a_damaged_one_is_refused() -> None:
    with pytest.raises(UnreadableRecord):
        read_bootstrap_checkpoint(disk_with(KAFKAS[:120] + b"?" + KAFKAS[121:]), "/data")


def test_an_empty_one_is_refused() -> None:
    with pytest.raises(UnreadableRecord, match=f"{PATH} is an empty file: restore"):
        read_bootstrap_checkpoint(disk_with(b""), "/data")
