"""The state machine of a member under the consumer protocol, heartbeat by heartbeat."""

from __future__ import annotations

import random
from typing import Any

import pytest

from minikafka.client.groups.consumer_membership import ConsumerMembership, Reaction
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.codec.schema import fields_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    InvalidRegularExpressionError,
    KafkaError,
    NetworkError,
    NotCoordinatorError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
)
from minikafka.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC = bytes(15) + b"\1"


def membership(**options: Any) -> ConsumerMembership:
    known = {"group_id": "g", "group_protocol": "consumer", "max_poll_interval_ms": 7_000, **options}
    return ConsumerMembership(make(ConsumerOptions, known, "Consumer"), random.Random(1))


def beat(
    member: ConsumerMembership, epoch: int, assigned: list[int] | None = None, pattern: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    """One heartbeat that is answered."""
    subscription = ([] if pattern else ["t"]), pattern
    request = member.heartbeat_request(*subscription)
    assignment = None
    if assigned is not None:
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC, partitions=assigned)])
    response = ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=9, assignment=assignment)
    member.answered(request, response, subscription)
    return request


def changes(request: ConsumerGroupHeartbeatRequest) -> dict[str, Any]:
    """The fields that are not null."""
    always = ("group_id", "member_id", "member_epoch")
    values = {one.name: getattr(request, one.name) for one in fields_of(type(request)) if one.name not in always}
    return {name: value for name, value in values.items() if value is not None and value != -1}


def test_the_first_heartbeat_names_everything_and_the_next_ones_what_has_changed() -> None:
    member = membership(group_instance_id="i", client_rack="r", group_remote_assignor="range")
    first = beat(member, 1, [1, 0])
    assert (first.member_epoch, len(first.member_id)) == (0, 22)
    assert changes(first) == {
        "instance_id": "i",
        "rack_id": "r",
        "rebalance_timeout_ms": 7_000,
        "server_assignor": "range",
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    assert (member.epoch, member.heartbeat_interval_ms, member.target) == (1, 9, {TOPIC: (0, 1)})
    assert changes(beat(member, 1)) == {}
    member.own({TOPIC: [1, 0]})
    assert member.must_acknowledge
    assert changes(beat(member, 2)) == {"topic_partitions": [TopicPartitions(topic_id=TOPIC, partitions=[0, 1])]}
    assert not member.must_acknowledge
    assert member.heartbeat_request(["t", "a"], None).subscribed_topic_names == ["a", "t"]


def test_each_assignment_that_comes_unasked_is_acknowledged_by_a_list_even_by_the_one_sent_before() -> None:
    """The member gave up all it had before the coordinator took it away, which waits for a list since."""
    member = membership()
    beat(member, 1, [0])
    member.own({TOPIC: [0]})
    beat(member, 2)
    member.own({})
    assert changes(beat(member, 2)) == {"topic_partitions": []}
    assert changes(beat(member, 2, [])) == {}
    assert member.must_acknowledge
    assert changes(beat(member, 3, [1])) == {"topic_partitions": []}
    assert not member.must_acknowledge, "it is the answer to a list"


def test_a_pattern_replaces_names_and_names_replace_a_pattern() -> None:
    member = membership()
    assert changes(beat(member, 1))["subscribed_topic_names"] == ["t"]
    assert changes(beat(member, 2, pattern="t.*")) == {"subscribed_topic_names": [], "subscribed_topic_regex": "t.*"}
    assert changes(beat(member, 2, pattern="t.*")) == {}
    assert changes(beat(member, 3)) == {"subscribed_topic_names": ["t"], "subscribed_topic_regex": ""}
    assert changes(beat(member, 3)) == {}


@pytest.mark.parametrize(
    ("error", "reaction"),
    [
        (FencedMemberEpochError(), Reaction.REJOIN),
        (UnknownMemberIdError(), Reaction.REJOIN),
        (NotCoordinatorError(), Reaction.FIND_COORDINATOR),
        (NetworkError("cut"), Reaction.FIND_COORDINATOR),
        (TopicAuthorizationFailedError(), Reaction.REPORT),
        (GroupAuthorizationFailedError(), Reaction.REPORT),
        (InvalidRegularExpressionError(), Reaction.FAIL),
    ],
)
def test_errors(error: KafkaError, reaction: Reaction) -> None:
    member = membership()
    beat(member, 4, [0])
    member.own({TOPIC: [0]})
    beat(member, 4)
    assert member.failed(error) is reaction
    request = member.heartbeat_request(["t"], None)
    joins = reaction is Reaction.REJOIN
    assert request.member_epoch == (0 if joins else 4)
    assert request.rebalance_timeout_ms == 7_000, "after a failure everything is named again"
    assert [list(one.partitions) for one in request.topic_partitions or []] == ([] if joins else [[0]])
    assert (member.epoch, member.target) == ((-1, None) if joins else (4, {TOPIC: (0,)}))


def test_the_error_of_a_response_is_raised_with_its_text() -> None:
    member = membership()
    request = member.heartbeat_request(["t"], None)
    response = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, error_message="who is it?")
    with pytest.raises(UnknownMemberIdError, match=r"group 'g': who is it\?"):
        member.answered(request, response, (["t"], None))


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_static_members_leave_for_a_time(instance_id: str | None, epoch: int) -> None:
    member = membership(group_instance_id=instance_id)
    assert member.leave_request() is None
    beat(member, 1)
    request = member.leave_request()
    assert request is not None
    assert (request.member_epoch, request.instance_id) == (epoch, instance_id)
