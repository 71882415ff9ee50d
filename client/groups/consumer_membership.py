"""A consumer's membership of a group under the consumer protocol (KIP-848): a state machine. Pure.

It builds heartbeats and handles their responses; `consumer_session.py` sends them. The coordinator computes the
assignments. A heartbeat names what has changed since the last one that was answered; the first one, and the first one
after a failure, name everything. Source: Kafka's `ConsumerMembershipManager` and `ConsumerHeartbeatRequestManager`.
"""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import Enum

from minikafka.client.options import ConsumerOptions
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

_JOINING = 0
_LEAVING = -1
_LEAVING_FOR_A_TIME = -2
_NO_EPOCH = -1
_HEARTBEAT_INTERVAL_MS = 5_000
"""Kafka's default, until the coordinator has told its own."""

Assigned = dict[bytes, tuple[int, ...]]
"""Partitions by topic id."""


class Reaction(Enum):
    """The reaction to an error."""

    REJOIN = "join again, since the partitions are lost"
    FIND_COORDINATOR = "find the coordinator and retry"
    FAIL = "report the error to the user"


_REACTIONS = {
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.FIND_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: Reaction.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
    ErrorCode.BROKER_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
}


def is_join(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat is that of a member which joins."""
    return request.member_epoch == _JOINING


class ConsumerMembership:
    """One member.

    Attributes:
        member_id: generated here, and kept until the consumer is closed.
        epoch: the member epoch; -1 while this is no member.
        target: the partitions that the coordinator wants this member to have; None until it has told.
        owned: the partitions that this member has.
        heartbeat_interval_ms: as the coordinator wants it; as before if it names none, or one that cannot be.
    """

    def __init__(self, options: ConsumerOptions, randomness: random.Random) -> None:
        assert options.group_id is not None
        self.member_id = urlsafe_b64encode(randomness.randbytes(16)).decode().rstrip("=")
        self.epoch = _NO_EPOCH
        self.target: Assigned | None = None
        self.owned: Assigned = {}
        self.heartbeat_interval_ms = _HEARTBEAT_INTERVAL_MS
        self._group_id = options.group_id
        self._options = options
        self._sent: tuple[tuple[str, ...], str | None, Assigned | None] | None = None
        """What the coordinator knows: topics, pattern, partitions; None instead of partitions that it waits for."""
        self._pattern_was_sent = False

    def heartbeat_request(self, topics: Sequence[str], pattern: str | None) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat, with the subscription: names, or the regular expression that the coordinator matches."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=max(self.epoch, _JOINING)
        )
        names = tuple(sorted(topics))
        if self._sent is None:
            request.instance_id = self._options.group_instance_id
            request.rack_id = self._options.client_rack
            request.rebalance_timeout_ms = self._options.max_poll_interval_ms
            request.server_assignor = self._options.group_remote_assignor
        if self._sent is None or self._sent[0] != names:
            request.subscribed_topic_names = list(names)
        if pattern is not None and (self._sent is None or self._sent[1] != pattern):
            request.subscribed_topic_regex = pattern
        elif pattern is None and self._pattern_was_sent and (self._sent is None or self._sent[1] is not None):
            request.subscribed_topic_regex = ""
        if self._sent is None or self._sent[2] != self.owned:
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=list(some)) for topic_id, some in self.owned.items()
            ]
        return request

    def answered(
        self,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        subscription: tuple[Sequence[str], str | None],
    ) -> None:
        """Handle the response to `request`, which was built from `subscription`. Raises the response's KafkaError.

        An assignment has to be acknowledged by a list of partitions, even if it is the list that was sent before, since
        the coordinator does not remember lists. Kafka's client does so by the `localEpoch` of its assignment. If the
        request had a list, the assignment is the answer to it: another list is due only if it changes.
        """
        if response.error_code:
            text = response.error_message or str(error_for(response.error_code))
            raise error_for(response.error_code, f"group {self._group_id!r}: {text}")
        topics, pattern = subscription
        self._sent = tuple(sorted(topics)), pattern, self._told_of_owned(request, response)
        self._pattern_was_sent = self._pattern_was_sent or pattern is not None
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        if response.heartbeat_interval_ms > 0:
            self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self.target = {
                one.topic_id: tuple(sorted(one.partitions)) for one in response.assignment.topic_partitions
            }

    def _told_of_owned(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> Assigned | None:
        if request.topic_partitions is not None:
            return {one.topic_id: tuple(one.partitions) for one in request.topic_partitions}
        return None if self._sent is None or response.assignment is not None else self._sent[2]

    @property
    def must_acknowledge(self) -> bool:
        """Whether the coordinator does not know yet which partitions this member has."""
        return self._sent is None or self._sent[2] != self.owned

    def own(self, assigned: Mapping[bytes, Sequence[int]]) -> None:
        """Note that this member has these partitions, and no others."""
        self.owned = {topic_id: tuple(sorted(some)) for topic_id, some in assigned.items() if some}

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """The request to leave, for a static member for a time; None for a non-member."""
        if self.epoch < _JOINING:
            return None
        static = self._options.group_instance_id is not None
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=_LEAVING_FOR_A_TIME if static else _LEAVING,
            instance_id=self._options.group_instance_id,
        )

    def reaction_to(self, error: KafkaError) -> Reaction:
        """The reaction to an error of a heartbeat.

        A group that has lost its member, as in a cluster that was made anew, is joined again, where Kafka's client
        fails. One that does not let it join is not to be had: it may be of the classic protocol.
        """
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > _JOINING:
            return Reaction.REJOIN
        return _REACTIONS.get(error.code, Reaction.FAIL)

    def failed(self, error: KafkaError) -> Reaction:
        """Update the state after an error; return the reaction. The next heartbeat names everything."""
        reaction = self.reaction_to(error)
        self._sent = None
        if reaction is Reaction.REJOIN:
            self.reset()
        return reaction

    def missed_answer(self) -> None:
        """Note that a heartbeat was sent whose answer is not read.

        It may have had an assignment, which comes only once. The next heartbeat names everything, and so asks for it.
        """
        self._sent = None

    def reset(self) -> None:
        """Forget the membership and its assignment: the next heartbeat joins."""
        self.epoch = _NO_EPOCH
        self.target = None
        self.owned = {}
        self._sent = None
