"""Raft in pull form: one leader in an epoch, one log, and whoever has it votes.

The tour is written with the last of it; `raft.Raft` is the door.
"""

from minikafka.controller.raft.election_state import (
    FILE_NAME,
    NOBODY,
    ElectionState,
    UnreadableElectionState,
    decode_election_state,
    encode_election_state,
)
from minikafka.controller.raft.log import EpochEnd, RaftLog, SnapshotId
from minikafka.controller.raft.raft import Inconsistent, NotLeader, Raft, Replica
from minikafka.controller.raft.roles import Role
from minikafka.controller.raft.settings import RaftSettings

__all__ = [
    "FILE_NAME",
    "NOBODY",
    "ElectionState",
    "EpochEnd",
    "Inconsistent",
    "NotLeader",
    "Raft",
    "RaftLog",
    "RaftSettings",
    "Replica",
    "Role",
    "SnapshotId",
    "UnreadableElectionState",
    "decode_election_state",
    "encode_election_state",
]
