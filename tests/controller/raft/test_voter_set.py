"""Voter sets, their records in Kafka's bytes, and the history that a truncation takes back."""

import pytest

from minikafka.controller.raft.membership_records import (
    UnreadableMembership,
    control_batch,
    control_value,
    membership_in,
)
from minikafka.controller.raft.voter_history import Membership, VoterHistory
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterEndpoint, VoterSet
from minikafka.protocol.names import uuid_from_text
from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.control import ControlType

A, B = b"a" * 16, b"b" * 16
KAFKAS = bytes.fromhex(
    "000002000000013c4678a6496e43fbb78748ac411479"
    "05020b434f4e54524f4c4c45520a3132372e302e302e3165ed0000000001000000"
)
"""The value of KRAFT_VOTERS that Kafka 4.3 wrote."""


def voters(*ids: int, directory: bytes = A) -> VoterSet:
    return VoterSet(Voter(ReplicaKey(id_, directory)) for id_ in ids)


def test_a_voter_of_another_directory_is_another_voter() -> None:
    known = voters(1, 2)
    assert known.is_voter(ReplicaKey(1, A))
    assert not known.is_voter(ReplicaKey(1, B))
    assert not known.is_voter(ReplicaKey(1, NO_DIRECTORY))
    assert not known.is_voter(ReplicaKey(3, A))


def test_a_voter_of_the_settings_is_any_directory() -> None:
    assert VoterSet.of_ids([1, 2]).is_voter(ReplicaKey(2, B))


def test_sets_are_ordered_values() -> None:
    assert VoterSet([*voters(3), *voters(1)]) == voters(1, 3)
    assert hash(voters(1, 3)) == hash(voters(3, 1))
    assert voters(1, 2).with_voter(Voter(ReplicaKey(2, B))).keys == (ReplicaKey(1, A), ReplicaKey(2, B))
    assert voters(1, 2).without(1) == voters(2)
    assert [voters(*range(count)).majority for count in range(1, 6)] == [1, 2, 2, 3, 3]
    with pytest.raises(ValueError, match="same node id"):
        VoterSet([*voters(1), *voters(1, directory=B)])


def test_the_record_of_voters_has_kafkas_bytes() -> None:
    endpoint = VoterEndpoint("CONTROLLER", "127.0.0.1", 26093)
    kafkas = VoterSet([Voter(ReplicaKey(1, uuid_from_text("PEZ4pkluQ_u3h0isQRR5BQ")), (endpoint,), 0, 1)])
    assert control_value(kafkas) == (ControlType.KRAFT_VOTERS, KAFKAS)
    assert control_value(1) == (ControlType.KRAFT_VERSION, bytes.fromhex("0000000100"))
    batch = control_batch([control_value(1), control_value(kafkas)], timestamp_ms=5, base_offset=7)
    assert membership_in(parse_header(batch)) == [(7, 1), (8, kafkas)]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 20, 22, 30, 50, len(KAFKAS) - 4])
def test_a_record_that_is_cut_is_refused(size: int) -> None:
    batch = control_batch([(ControlType.KRAFT_VOTERS, KAFKAS[:size])], timestamp_ms=0)
    with pytest.raises(UnreadableMembership):
        membership_in(parse_header(batch))


def test_a_record_of_a_newer_version_is_refused() -> None:
    batch = control_batch([(ControlType.KRAFT_VOTERS, b"\0\1" + KAFKAS[2:])], timestamp_ms=0)
    with pytest.raises(UnreadableMembership, match="newer"):
        membership_in(parse_header(batch))


def test_a_truncation_takes_voters_back() -> None:
    history = VoterHistory()
    history.append([(3, 1), (4, voters(1))])
    history.append([(9, voters(1, 2))])
    assert history.latest == Membership(1, voters(1, 2), 9)
    history.truncate_to(10)
    assert history.latest == Membership(1, voters(1, 2), 9)
    history.truncate_to(9)
    assert history.latest == Membership(1, voters(1), 4)
    history.truncate_to(4)
    assert history.latest == Membership(1, None, 3)
    history.truncate_to(0)
    assert history.latest == Membership()


def test_a_snapshot_has_the_voters_before_its_offset() -> None:
    history = VoterHistory(Membership(1, voters(1)))
    history.append([(9, voters(1, 2))])
    assert history.before(9) == Membership(1, voters(1))
    assert history.before(10) == history.before(99) == Membership(1, voters(1, 2), 9)
    history.forget_before(10)
    history.truncate_to(10)
    assert history.latest == history.before(10) == Membership(1, voters(1, 2), 9)
    history.start_at(Membership(1, voters(3), 20))
    assert history.latest.voters == voters(3)
