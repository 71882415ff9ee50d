"""The membership's state transitions, response by response."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.client.groups.assignors import decode_assignment, decode_subscription, encode_assignment
from minikafka.client.groups.classic_membership import ClassicMembership, ErrorAction, State
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    NetworkError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from minikafka.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from minikafka.protocol.messages.sync_group import SyncGroupResponse
from minikafka.protocol.names import TopicPartition


def membership(**options: Any) -> ClassicMembership:
    return ClassicMembership(make(ConsumerOptions, {"group_id": "g", **options}, "Consumer"))


def stable(**options: Any) -> ClassicMembership:
    """A member that leads its own group in generation 1."""
    made = membership(**options)
    request = made.join_request(["t"])
    members = [JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)]
    made.joined(
        JoinGroupResponse(
            generation_id=1, member_id="m", leader="m", protocol_name=request.protocols[0].name, members=members
        )
    )
    sync = made.sync_request({"t": 2})
    share = made.synced(SyncGroupResponse(assignment=sync.assignments[0].assignment))
    assert share == [TopicPartition("t", 0), TopicPartition("t", 1)]
    made.owned = share
    return made


def test_a_leader_assigns_partitions() -> None:
    made = stable()
    assert (made.state, made.is_leader, made.generation, made.member_id) == (State.STABLE, True, 1, "m")
    assert made.heartbeat_request().generation_id == 1


def test_the_first_join_requests_a_member_id() -> None:
    made = membership()
    made.join_request(["t"])
    with pytest.raises(MemberIdRequiredError) as caught:
        made.joined(
            JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given", protocol_name=None)
        )
    assert made.failed(caught.value) is ErrorAction.REJOIN
    assert made.join_request(["t"]).member_id == "given"


def test_a_follower_sends_no_assignments() -> None:
    made = membership()
    made.join_request(["t"])
    made.joined(JoinGroupResponse(generation_id=4, member_id="m", leader="other", protocol_name="range"))
    assert (made.is_leader, made.sync_request({"t": 5}).assignments) == (False, [])
    assert made.synced(SyncGroupResponse(assignment=encode_assignment([]))) == []


@pytest.mark.parametrize(
    ("error", "what", "state", "member_id"),
    [
        (RebalanceInProgressError(), ErrorAction.REJOIN, State.UNJOINED, "m"),
        (IllegalGenerationError(), ErrorAction.REJOIN_AS_NEW, State.UNJOINED, "m"),
        (UnknownMemberIdError(), ErrorAction.REJOIN_AS_NEW, State.UNJOINED, ""),
        (NotCoordinatorError(), ErrorAction.FIND_COORDINATOR, State.STABLE, "m"),
        (NetworkError(), ErrorAction.FIND_COORDINATOR, State.STABLE, "m"),
        (GroupAuthorizationFailedError(), ErrorAction.REPORT, State.STABLE, "m"),
        (InconsistentGroupProtocolError(), ErrorAction.FAIL, State.STABLE, "m"),
    ],
)
def test_reactions_to_errors(error: KafkaError, what: ErrorAction, state: State, member_id: str) -> None:
    made = stable()
    assert (made.failed(error), made.state, made.member_id) == (what, state, member_id)


def test_a_failed_join_starts_over() -> None:
    made = membership()
    made.join_request(["t"])
    assert made.failed(NetworkError()) is ErrorAction.FIND_COORDINATOR
    assert made.state is State.UNJOINED


def test_only_cooperative_members_join_with_their_partitions() -> None:
    for strategy, owned in (("range", []), ("cooperative-sticky", [TopicPartition("t", 0), TopicPartition("t", 1)])):
        made = stable(partition_assignment_strategy=[strategy])
        [protocol] = made.join_request(["t"]).protocols
        assert decode_subscription(bytes(protocol.metadata)).owned == owned
        assert made.cooperative == bool(owned)


def test_the_default_strategies_are_eager_as_in_kafka() -> None:
    made = membership()
    assert [one.name for one in made.join_request(["t"]).protocols] == ["range", "cooperative-sticky"]
    assert not made.cooperative


def test_static_members_send_no_leave_request() -> None:
    assert stable(group_instance_id="i").leave_request(5) is None
    assert stable().leave_request(2).member_id == "m"  # type: ignore[union-attr]
    assert stable().leave_request(5).members[0].member_id == "m"  # type: ignore[union-attr]
    assert membership().leave_request(5) is None


def test_a_leader_assigns_only_existing_topics() -> None:
    made = stable()
    sync = made.sync_request({})
    assert decode_assignment(bytes(sync.assignments[0].assignment)) == []


def test_a_member_with_a_malformed_subscription_gets_no_partitions() -> None:
    made = membership()
    good = made.join_request(["t"]).protocols[0].metadata
    members = [
        JoinGroupResponseMember(member_id="m", metadata=good),
        JoinGroupResponseMember(member_id="x", metadata=b"\x00\x01\x7f\xff\xff\xff"),
    ]
    made.joined(
        JoinGroupResponse(generation_id=1, member_id="m", leader="m", protocol_name="range", members=members)
    )
    assignments = made.sync_request({"t": 1}).assignments
    shares = {one.member_id: decode_assignment(bytes(one.assignment)) for one in assignments}
    assert shares == {"m": [TopicPartition("t", 0)], "x": []}


def test_a_malformed_assignment_is_reported() -> None:
    made = membership()
    made.join_request(["t"])
    made.joined(JoinGroupResponse(generation_id=4, member_id="m", leader="other", protocol_name="range"))
    with pytest.raises(InconsistentGroupProtocolError, match="malformed assignment") as caught:
        made.synced(SyncGroupResponse(assignment=b"\xff\xff"))
    assert made.failed(caught.value) is ErrorAction.FAIL
