"""UpdateRaftVoter, API key 82: a voter reports its endpoints and versions (KIP-853).

Version 0, flexible (KIP-482).
"""

from __future__ import annotations

from minikafka.protocol.message import FRESH, field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uint16, uuid


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterRequest:
    """The voter, with its endpoints."""

    cluster_id: string | None
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = NIL_UUID
    listeners: list[Listener] = []
    k_raft_version_feature: KRaftVersionFeature = FRESH


@struct
class Listener:
    name: string = ""
    host: string = ""
    port: uint16 = 0


@struct
class KRaftVersionFeature:
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse:
    """An error, and the leader."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: CurrentLeader = field(default=FRESH, tag=0)


@struct
class CurrentLeader:
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: string = ""
    port: int32 = 0
