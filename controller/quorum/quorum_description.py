"""The state of the quorum for DescribeQuorum: the leader's view of its replicas, and its encoding. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from minikafka.controller.quorum.peer_frames import MalformedFrame
from minikafka.controller.raft.membership_records import control_value, voters_from
from minikafka.controller.raft.raft import Replica
from minikafka.controller.raft.voter_set import NO_DIRECTORY, VoterSet

__all__ = ["QuorumDescription", "ReplicaDescription", "described"]


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """The state of one replica. Times are milliseconds since 1970, -1 for never; `end_offset` is -1 if unknown."""

    node_id: int
    is_voter: bool
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    directory_id: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The state of the quorum: leader, leader epoch and high watermark of the metadata log, its replicas, and the
    voters with their addresses."""

    leader_id: int
    epoch: int
    high_watermark: int
    replicas: tuple[ReplicaDescription, ...]
    voters: VoterSet = field(default_factory=VoterSet)
    kraft_version: int = 0

    def to_map(self) -> dict[str, Any]:
        """Encode as the body of a frame. Nodes from before KIP-853 ignore the last three fields."""
        replicas = [
            [one.node_id, one.is_voter, one.end_offset, one.last_fetch_ms, one.last_caught_up_ms]
            for one in self.replicas
        ]
        return {
            "leader": self.leader_id,
            "epoch": self.epoch,
            "high_watermark": self.high_watermark,
            "replicas": replicas,
            "directories": [one.directory_id for one in self.replicas],
            "voters": control_value(self.voters)[1],
            "kraft_version": self.kraft_version,
        }

    @classmethod
    def from_map(cls, body: Mapping[str, Any]) -> "QuorumDescription":
        """Decode the body of a frame. Raises MalformedFrame."""
        match body:
            case {"leader": int() as leader, "epoch": int() as epoch, "high_watermark": int() as high_watermark}:
                replicas = tuple(map(_replica, body.get("replicas", ())))
                directories = body.get("directories") or [NO_DIRECTORY] * len(replicas)
                complete = (replace(one, directory_id=id_) for one, id_ in zip(replicas, directories, strict=True))
                voters = voters_from(body["voters"]) if "voters" in body else VoterSet()
                return cls(leader, epoch, high_watermark, tuple(complete), voters, body.get("kraft_version", 0))
            case _:
                raise MalformedFrame("malformed description of the quorum")


def _replica(entry: object) -> ReplicaDescription:
    match entry:
        case [int() as node_id, bool() as voter, int() as end, int() as fetch_ms, int() as caught_up_ms]:
            return ReplicaDescription(node_id, voter, end, fetch_ms, caught_up_ms)
        case _:
            raise MalformedFrame("malformed replica in the description of the quorum")


def described(replica: Replica, *, now: float, now_ms: int) -> ReplicaDescription:
    """Describe a replica, with its times converted to the wall clock.

    Args:
        replica: the replica as the leader sees it.
        now: the present time of Raft's clock, in seconds.
        now_ms: the present time of the wall clock, in milliseconds.
    """

    def wall_ms(time: float | None) -> int:
        return -1 if time is None else now_ms - int((now - time) * 1000)

    return ReplicaDescription(
        replica.id,
        replica.is_voter,
        replica.end_offset,
        wall_ms(replica.last_fetch_time),
        wall_ms(replica.last_caught_up_time),
        replica.directory_id,
    )
