"""The file `quorum-state`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minikafka.controller.raft.election_state import (
    EPOCH_MAX,
    ElectionState,
    UnreadableElectionState,
    decode_election_state,
    encode_election_state,
)
from minikafka.controller.raft.messages import BeginEpoch, request_from_map

WRITTEN_BY_KAFKA = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":5,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
    b'"data_version":0}'
)


def test_the_file_has_kafkas_format() -> None:
    state = ElectionState(epoch=5, voted_for=-1, leader=1)
    assert encode_election_state(state, [1]) == WRITTEN_BY_KAFKA
    assert decode_election_state(WRITTEN_BY_KAFKA) == state


def test_the_file_of_a_dynamic_quorum_has_kafkas_format() -> None:
    """As Kafka 4.3 wrote it after `kafka-storage format --standalone`."""
    written = (
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    state = ElectionState(epoch=1, leader=1)
    assert encode_election_state(state, [1], kraft_version=1) == written
    assert decode_election_state(written) == state


def test_a_vote_for_a_directory_survives_encoding() -> None:
    state = ElectionState(epoch=7, voted_for=3, voted_directory=b"a" * 16)
    assert decode_election_state(encode_election_state(state, [1, 2, 3])) == state


def test_a_vote_survives_encoding() -> None:
    state = ElectionState(epoch=7, voted_for=3)
    assert decode_election_state(encode_election_state(state, [1, 2, 3])) == state


@pytest.mark.parametrize(
    "change",
    [
        {"data_version": 1},
        {"data_version": 99},
        {"data_version": None},
        {"data_version": False},
        {"leaderEpoch": -1},
        {"leaderEpoch": "5"},
        {"leaderEpoch": 1 << 31},
        {"leaderEpoch": 1 << 40},
        {"votedId": None},
        {"leaderId": -2},
    ],
    ids=str,
)
def test_an_unreadable_file_is_never_taken_for_no_vote(change: dict[str, Any]) -> None:
    """KAFKA-15412."""
    fields = json.loads(WRITTEN_BY_KAFKA) | change
    with pytest.raises(UnreadableElectionState):
        decode_election_state(json.dumps(fields).encode())


@pytest.mark.parametrize("epoch", [0, (1 << 30) + 1, EPOCH_MAX])
def test_every_epoch_that_a_node_can_be_in_can_be_read(epoch: int) -> None:
    state = ElectionState(epoch, voted_for=1)
    assert decode_election_state(encode_election_state(state, [1])) == state
    assert request_from_map(BeginEpoch(epoch, 1).to_map()) == BeginEpoch(epoch, 1)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", WRITTEN_BY_KAFKA[:-9]])
def test_a_torn_file_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableElectionState):
        decode_election_state(data)
