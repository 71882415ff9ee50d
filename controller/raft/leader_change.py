"""The first record of each leader's term: a control batch, LEADER_CHANGE, as Kafka writes it.

A leader may count replicas only for records of its own epoch (Raft, section 5.4.2); with this one it has something to
count at once, and everything before is committed along with it.
"""

import struct
from collections.abc import Iterable

from minikafka.protocol.codec.varint import uvarint
from minikafka.protocol.records.control import ControlType, encode_control

_HEAD = struct.Struct(">hi")
_VOTER = struct.Struct(">ib")


def encode_leader_change(leader: int, voters: Iterable[int], granting: Iterable[int], *, timestamp_ms: int) -> bytes:
    """A batch of one record that holds a `LeaderChangeMessage` v0; offset and epoch are the log's to give."""
    value = _HEAD.pack(0, leader) + _compact(voters) + _compact(granting) + b"\0"
    return encode_control(ControlType.LEADER_CHANGE, value, timestamp=timestamp_ms)


def _compact(voters: Iterable[int]) -> bytes:
    """A compact array of `Voter`; none of ours has tagged fields."""
    encoded = [_VOTER.pack(voter, 0) for voter in voters]
    return uvarint(len(encoded) + 1) + b"".join(encoded)
