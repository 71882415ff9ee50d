"""What a node must never forget: the epoch that it has seen, and whom it voted for in it.

It is kept beside the log in the file `quorum-state`, one line of JSON in the form that Kafka writes for a quorum of
static voters (`QuorumStateData` v0). Of a version that is not known nothing may be assumed, least of all that there
was no vote (KAFKA-15412).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

NOBODY = -1
"""No leader is known; no vote was given."""
FILE_NAME = "quorum-state"
FILE_VERSION = 0


class UnreadableElectionState(Exception):
    """The file is damaged or of another version: the node must not take part."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """An epoch, and what this node did in it.

    Attributes:
        epoch: the greatest one seen; it never shrinks. 0: there has been no election.
        voted_for: who got this node's vote in it. *Invariant:* once set, it stays for this epoch.
        leader: who leads it. *Use:* a restart finds its leader again; a leader that is restarted knows that it was one.
    """

    epoch: int = 0
    voted_for: int = NOBODY
    leader: int = NOBODY


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
    """What the file says. No file at all is `ElectionState()`, which only the caller can know.

    Raises:
        UnreadableElectionState: for anything but a whole file of the known version.
    """
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise UnreadableElectionState(f"{FILE_NAME} is damaged: {error}") from None
    version = fields.get("data_version") if isinstance(fields, dict) else None
    if version != FILE_VERSION or isinstance(version, bool):
        raise UnreadableElectionState(
            f"{FILE_NAME} has version {version!r}, known is {FILE_VERSION}: was it written by a newer minikafka?"
        )
    numbers = [fields.get(name) for name in ("leaderEpoch", "votedId", "leaderId")]
    epoch, voted_for, leader = (number if type(number) is int else -2 for number in numbers)
    if epoch < 0 or voted_for < NOBODY or leader < NOBODY:
        raise UnreadableElectionState(f"{FILE_NAME} says what cannot be: {numbers!r}")
    return ElectionState(epoch, voted_for, leader)
