"""Encodes the first record of each epoch, the control record LEADER_CHANGE, as Kafka writes it.

A leader may commit by counting replicas only for records of its own epoch (Raft, section 5.4.2). Its LEADER_CHANGE
record is appended at once, and its commit commits everything before it.
"""

import struct
from collections.abc import Iterable

from minikafka.protocol.codec.varint import uvarint
from minikafka.protocol.records.control import ControlType

_HEAD = struct.Struct(">hi")
_VOTER = struct.Struct(">ib")


def leader_change(leader: int, voters: Iterable[int], granting: Iterable[int]) -> tuple[ControlType, bytes]:
    """The type of the record, and its value: a `LeaderChangeMessage` v0."""
    return ControlType.LEADER_CHANGE, _HEAD.pack(0, leader) + _compact(voters) + _compact(granting) + b"\0"


def _compact(voters: Iterable[int]) -> bytes:
    """A compact array of `Voter` without tagged fields."""
    encoded = [_VOTER.pack(voter, 0) for voter in voters]
    return uvarint(len(encoded) + 1) + b"".join(encoded)
