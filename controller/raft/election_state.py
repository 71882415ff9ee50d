"""The election state, which must survive a restart: the highest epoch seen, and the vote in it.

The election state is stored beside the log in the file `quorum-state`, one line of JSON in Kafka's format:
`QuorumStateData` v0 for static voters, v1 for a dynamic quorum (KIP-853). A file of an unknown version is refused: it
must not be taken for "no vote yet" (KAFKA-15412).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.controller.raft.voter_set import NO_DIRECTORY
from minikafka.protocol.names import uuid_from_text, uuid_text

NO_NODE = -1
"""The node id that stands for no known leader, or no vote."""
FILE_NAME = "quorum-state"
STATIC, DYNAMIC = 0, 1
"""The versions of the file."""


class UnreadableElectionState(Exception):
    """The file is damaged or of another version: the node must not take part."""


@dataclass(frozen=True, slots=True)
class ElectionState:
    """An epoch, and this node's vote and leader in it.

    Attributes:
        epoch: the greatest epoch seen; it never decreases. 0 before the first election.
        voted_for: the candidate that got this node's vote. *Invariant:* once set, it stays for this epoch.
        leader: the leader. *Use:* a restarted node knows its leader, and a restarted leader that it was one.
        voted_directory: the directory of the candidate that got the vote, in a dynamic quorum. *Use:* a candidate whose
            disk was replaced is another candidate.
    """

    epoch: int = 0
    voted_for: int = NO_NODE
    leader: int = NO_NODE
    voted_directory: bytes = NO_DIRECTORY


def encode_election_state(state: ElectionState, voters: Sequence[int], *, kraft_version: int = 0) -> bytes:
    """Encode the content of the file; a vote for a directory needs version 1."""
    if kraft_version or state.voted_directory != NO_DIRECTORY:
        dynamic = {
            "leaderId": state.leader,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_for,
            "votedDirectoryId": uuid_text(state.voted_directory),
            "data_version": DYNAMIC,
        }
        return json.dumps(dynamic, separators=(",", ":")).encode()
    fields = {
        "clusterId": "",
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_for,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": STATIC,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


EPOCH_MAX = (1 << 31) - 1
"""The greatest epoch of files, messages and records (int32). Elections do not reach it, and never go beyond."""


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
    if type(version) is not int or not STATIC <= version <= DYNAMIC:
        raise UnreadableElectionState(
            f"{FILE_NAME} has version {version!r}, supported are {STATIC} to {DYNAMIC}: was it written by a newer "
            "minikafka?"
        )
    numbers = [fields.get(name) for name in ("leaderEpoch", "votedId", "leaderId")]
    epoch, voted_for, leader = (number if type(number) is int else -2 for number in numbers)
    if not 0 <= epoch <= EPOCH_MAX or voted_for < NO_NODE or leader < NO_NODE:
        raise UnreadableElectionState(f"{FILE_NAME} has invalid values: epoch, vote, leader are {numbers!r}")
    return ElectionState(epoch, voted_for, leader, _directory_of(fields) if version == DYNAMIC else NO_DIRECTORY)


def what_to_do(directory: str) -> str:
    """What an operator can do if the file in the metadata log's directory cannot be read."""
    return (
        f"It has this voter's vote. If this node is the only voter, delete the file; otherwise replace the voter (move "
        f"{directory} away while the other voters run), or restore a backup of the directory"
    )


def fixed_voters(data: bytes) -> list[int]:
    """The voters that the settings named when the file was written; none in a dynamic quorum.

    Raises:
        UnreadableElectionState: the file is damaged or of another version.
    """
    decode_election_state(data)
    voters = json.loads(data).get("currentVoters") or []
    try:
        return sorted({int(voter["voterId"]) for voter in voters})
    except (TypeError, KeyError, ValueError) as error:
        raise UnreadableElectionState(f"{FILE_NAME} has invalid voters: {voters!r}") from error


def _directory_of(fields: Mapping[str, Any]) -> bytes:
    text = fields.get("votedDirectoryId")
    try:
        return uuid_from_text(text if isinstance(text, str) else "")
    except ValueError as error:
        raise UnreadableElectionState(f"{FILE_NAME} has the invalid votedDirectoryId {text!r}: {error}") from None
