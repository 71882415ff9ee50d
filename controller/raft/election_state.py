"""The election state, which must survive a restart: the highest epoch seen, and the vote in it.

Stored beside the log in the file `quorum-state`, one line of JSON in the format that Kafka writes for a quorum of
static voters (`QuorumStateData` v0). A file of an unknown version is refused: it must not be taken for "no vote yet"
(KAFKA-15412).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

NO_NODE = -1
"""No known leader, or no vote."""
FILE_NAME = "quorum-state"
FILE_VERSION = 0


class UnreadableElectionState(Exception):
    """The file is damaged or of another version: the node must not take part."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """An epoch, and this node's vote and leader in it.

    Attributes:
        epoch: the greatest one seen; it never decreases. 0: there has been no election.
        voted_for: the candidate that got this node's vote. *Invariant:* once set, it stays for this epoch.
        leader: the leader. *Use:* a restarted node knows its leader, and a restarted leader that it was one.
    """

    epoch: int = 0
    voted_for: int = NO_NODE
    leader: int = NO_NODE


def encode_election_state(state: ElectionState, voters: Sequence[int]) -> bytes:
    """The content of the file."""
    fields = {
        "clusterId": "",
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_for,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": FILE_VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_election_state(data: bytes) -> ElectionState:
    """Decode the file. The caller handles a missing file, which stands for `ElectionState()`.

    Raises:
        UnreadableElectionState: the file is damaged or of another version.
    """
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise UnreadableElectionState(f"{FILE_NAME} is damaged: {error}") from None
    version = fields.get("data_version") if isinstance(fields, dict) else None
    if version != FILE_VERSION or isinstance(version, bool):
        raise UnreadableElectionState(
            f"{FILE_NAME} has version {version!r}, supported is {FILE_VERSION}: was it written by a newer minikafka?"
        )
    numbers = [fields.get(name) for name in ("leaderEpoch", "votedId", "leaderId")]
    epoch, voted_for, leader = (number if type(number) is int else -2 for number in numbers)
    if epoch < 0 or voted_for < NO_NODE or leader < NO_NODE:
        raise UnreadableElectionState(f"{FILE_NAME} has invalid values: epoch, vote, leader are {numbers!r}")
    return ElectionState(epoch, voted_for, leader)
