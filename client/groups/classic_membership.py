"""A consumer's membership of a group under the classic protocol (KIP-62, 345, 394, 429): a state machine. Pure.

The state machine builds requests and handles responses; `classic_session.py` sends the requests.

    UNJOINED ──join──► JOINING ──ok──► SYNCING ──ok──► STABLE
        ▲                 │ error         │ error        │ REBALANCE_IN_PROGRESS, subscription changed
        └─────────────────┴───────────────┴──────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from minikafka.client.argument_kinds import Kind, Refused, kind_of, shown
from minikafka.client.assignor import Assignor, Subscription
from minikafka.client.broker_limits import explained
from minikafka.client.groups.assignors import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.client.options import ConsumerOptions
from minikafka.client.user_code import ENDS_PROGRAM
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import InconsistentGroupProtocolError, KafkaError, NetworkError, error_for
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from minikafka.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from minikafka.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from minikafka.protocol.names import TopicPartition

_PROTOCOL_TYPE = "consumer"
_FIRST_VERSION_WITH_MEMBERS = 3
_USER_DATA: Kind = kind_of(bytes | None)
_ASSIGNMENT: Kind = kind_of(Mapping[str, Sequence[TopicPartition]])


class State(Enum):
    UNJOINED = "unjoined"
    JOINING = "joining"
    SYNCING = "syncing"
    STABLE = "stable"


class ErrorAction(Enum):
    """The reaction to an error."""

    REJOIN = "join again"
    REJOIN_AS_NEW = "join as a new member; the partitions are lost"
    FIND_COORDINATOR = "find the coordinator and retry"
    REPORT = "report the error to the user, and retry"
    FAIL = "report the error to the user"


_ERROR_ACTIONS = {
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorAction.REJOIN,
    ErrorCode.MEMBER_ID_REQUIRED: ErrorAction.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorAction.REJOIN_AS_NEW,
    ErrorCode.ILLEGAL_GENERATION: ErrorAction.REJOIN_AS_NEW,
    ErrorCode.NOT_COORDINATOR: ErrorAction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorAction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorAction.FIND_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION: ErrorAction.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorAction.FIND_COORDINATOR,
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorAction.FIND_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorAction.REPORT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorAction.REPORT,
}


class ClassicMembership:
    """The state of one member of a group under the classic protocol.

    Attributes:
        owned: the partitions assigned to this member, as reported in JoinGroup.
        is_leader: whether this member computes the assignment of the current generation.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        assert options.group_id is not None
        self.group_id = options.group_id
        self.state = State.UNJOINED
        self.member_id = ""
        self.generation = -1
        self.owned: list[TopicPartition] = []
        self.is_leader = False
        self.protocol = ""
        self.members: dict[str, Subscription] = {}
        self._options = options
        self._assignors: dict[str, Assignor] = {
            assignor.name: assignor
            for assignor in (
                ASSIGNORS[one] if isinstance(one, str) else one for one in options.partition_assignment_strategy
            )
        }

    @property
    def cooperative(self) -> bool:
        """Whether partitions are kept while joining: only if all assignors are cooperative, as in Kafka."""
        return all(assignor.cooperative for assignor in self._assignors.values())

    def join_request(self, topics: Sequence[str]) -> JoinGroupRequest:
        """The request to join the next generation. Raises InconsistentGroupProtocolError if an assignor misbehaves."""
        self.state = State.JOINING
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=encode_subscription(
                    Subscription(
                        topics=topics,
                        owned=self.owned if self.cooperative else (),
                        generation=self.generation,
                        user_data=_answer(assignor, "user_data", _USER_DATA, self.generation),
                    )
                ),
            )
            for assignor in self._assignors.values()
        ]
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._options.session_timeout_ms,
            rebalance_timeout_ms=self._options.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=protocols,
        )

    def joined(self, response: JoinGroupResponse) -> None:
        """Handle a JoinGroup response; `sync_request` comes next. Raises its KafkaError, NetworkError if malformed."""
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if response.error_code:
            raise self._error(response.error_code)
        self.state = State.SYNCING
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.protocol = response.protocol_name or ""
        self.is_leader = response.leader == response.member_id
        if self.is_leader and self.protocol not in self._assignors:
            raise NetworkError(f"the JoinGroup response names assignor {self.protocol!r}, which was not offered")
        self.members = {
            one.member_id: _subscription(bytes(one.metadata), one.group_instance_id)
            for one in response.members
        }

    @property
    def group_topics(self) -> list[str]:
        """All topics of the members, whose partition counts the leader needs."""
        return sorted({topic for member in self.members.values() for topic in member.topics})

    def sync_request(self, partition_counts: Mapping[str, int]) -> SyncGroupRequest:
        """The request for this member's assignment; the leader's request contains the assignments of all members.

        Raises InconsistentGroupProtocolError if the assignor raises, or returns no valid assignment.
        """
        assignments: list[SyncGroupRequestAssignment] = []
        if self.is_leader and self.members:
            known = {name: partition_counts[name] for name in self.group_topics if name in partition_counts}
            assigned = _answer(self._assignors[self.protocol], "assign", _ASSIGNMENT, known, self.members)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
                for member, partitions in assigned.items()
            ]
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=assignments,
        )

    def synced(self, response: SyncGroupResponse) -> list[TopicPartition]:
        """Handle a SyncGroup response; return this member's partitions in the new generation.

        Raises the response's KafkaError, and InconsistentGroupProtocolError for a malformed assignment.
        """
        if response.error_code:
            raise self._error(response.error_code)
        try:
            assigned = decode_assignment(bytes(response.assignment))
        except MalformedMessage as error:
            text = f"group {self.group_id!r}: malformed assignment from the group leader: {error}"
            raise InconsistentGroupProtocolError(text) from error
        self.state = State.STABLE
        return assigned

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
        )

    def leave_request(self, version: int) -> LeaveGroupRequest | None:
        """The request to leave; None for a static member, which keeps its place (KIP-345), and for a non-member."""
        if not self.member_id or self._options.group_instance_id is not None:
            return None
        if version < _FIRST_VERSION_WITH_MEMBERS:
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        member = MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")
        return LeaveGroupRequest(group_id=self.group_id, members=[member])

    def _error(self, code: int) -> KafkaError:
        return error_for(code, f"group {self.group_id!r}: {explained(code, self._options)}")

    @staticmethod
    def action_for(error: KafkaError) -> ErrorAction:
        """The action to take after an error in a response."""
        return _ERROR_ACTIONS.get(error.code, ErrorAction.FAIL)

    def failed(self, error: KafkaError) -> ErrorAction:
        """Update the state after an error in a response; return the action to take."""
        action = self.action_for(error)
        if action is ErrorAction.REJOIN_AS_NEW:
            self.reset(keep_id=error.code == ErrorCode.ILLEGAL_GENERATION)
        elif action is ErrorAction.REJOIN or self.state in (State.JOINING, State.SYNCING):
            self.state = State.UNJOINED
        return action

    def reset(self, *, keep_id: bool = False) -> None:
        """Forget the last generation and its assignment and, without `keep_id`, the member id."""
        self.state = State.UNJOINED
        self.generation = -1
        self.owned = []
        if not keep_id:
            self.member_id = ""


def _subscription(metadata: bytes, instance_id: str | None) -> Subscription:
    """Decode a member's subscription. A malformed one counts as empty, so that only that member gets no partitions."""
    try:
        return decode_subscription(metadata, instance_id)
    except MalformedMessage:
        return Subscription([], instance_id=instance_id)


def _answer(assignor: Assignor, method: str, kind: Kind, *arguments: Any) -> Any:
    """Call a method of an assignor, and check the result's type if the assignor is the application's.

    Raises InconsistentGroupProtocolError if the method raises or returns a value of another type.
    """
    try:
        answer = getattr(assignor, method)(*arguments)
        return answer if ASSIGNORS.get(assignor.name) is assignor else kind(answer)
    except Refused as refused:
        where = f" in {refused.path.strip()}" if refused.path else ""
        what = f"returned {shown(refused.value)}{where}: must be {refused.allowed}"
        cause: BaseException | None = None
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # noqa: BLE001 (the application gets it from its next request for records)
        what, cause = f"raised {shown(error)}", error
    raise InconsistentGroupProtocolError(f"assignor {assignor.name!r}: {method}() {what}") from cause
