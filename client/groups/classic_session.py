"""`ClassicGroup`: the background task of a member under the classic protocol; sends `ClassicMembership`'s requests."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.seams import Seams
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.classic_membership import ClassicMembership, ErrorAction, State
from minikafka.client.groups.group_session import PURPOSE, GroupSession, Member, PollOverdue
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, RebalanceInProgressError, error_for
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_LEAVE_TIMEOUT_MS = 3_000
_NAMING_S = 1
"""How long a member that leaves waits for its member id, which coordinators assign at once."""
_GRACE_MS = 5_000
"""Added to the rebalance timeout when waiting for JoinGroup and SyncGroup responses."""


class ClassicGroup(GroupSession):
    """The session of a member under the classic protocol: joins, sends heartbeats, joins again and leaves."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, member: Member, seams: Seams) -> None:
        super().__init__(cluster, options, member, seams)
        self.membership = ClassicMembership(options)

    @property
    def member(self) -> tuple[int, str]:
        """The generation, -1 for none, and the member id."""
        return self.membership.generation, self.membership.member_id

    @property
    def is_stable(self) -> bool:
        """Whether the member has joined, and has its assignment; see `GroupSession.is_stable`."""
        return self.membership.state is State.STABLE

    @property
    def led_topics(self) -> Sequence[str] | None:
        """The topics that this member assigns as the group's leader; None if it is not the leader."""
        return self.membership.group_topics if self.membership.is_leader else None

    @property
    def heartbeat_interval_ms(self) -> float:
        """The time between heartbeats, the option of the same name."""
        return self._options.heartbeat_interval_ms

    async def run(self) -> None:
        """Join the group and send heartbeats, until cancelled or until a fatal error."""
        while True:
            try:
                await (self._heartbeat() if self.is_stable else self._join())
                self._succeeded()
            except PollOverdue:
                await self._leave_until_polled()
            except KafkaError as error:
                action = self.membership.failed(error)
                if action is ErrorAction.FAIL and not error.retriable:
                    await self._end(error)
                    return
                await self._react(action, error)

    async def _react(self, action: ErrorAction, error: KafkaError) -> None:
        if action is ErrorAction.REPORT:
            self._member.fail(error)
        if action is ErrorAction.REJOIN_AS_NEW:
            await self._removed(error)
        if action in (ErrorAction.REJOIN, ErrorAction.REJOIN_AS_NEW):
            await self._join_again(error)
        else:
            await self._back_off(error)

    def _forget_assignment(self) -> None:
        self.membership.owned = []

    async def _join(self) -> None:
        membership, began = self.membership, anyio.current_time()
        self._changed = anyio.Event()
        if not membership.cooperative and self.known:
            await self._revoke(self.known)
            membership.owned = []
        topics = await self._member.subscribed_topics()
        wait_ms = self._options.max_poll_interval_ms + _GRACE_MS
        membership.joined(await self._join_response(membership.join_request(topics), wait_ms))
        counts: Mapping[str, int] = {}
        if membership.is_leader:
            counts = await self._member.partition_counts(membership.group_topics)
        assigned = membership.synced(await self._request(membership.sync_request(counts), wait_ms))
        self._joins += 1
        self._succeeded()
        await self._apply(assigned)
        self.counts.rebalances_ms.add((anyio.current_time() - began) * 1000)

    async def _join_response(self, request: JoinGroupRequest, wait_ms: float) -> JoinGroupResponse:
        """Send a JoinGroup request. Of one without a member id, `leave` needs the id that the coordinator assigns.

        Without it the group would wait for this member until its session ends. Kafka's client does not leave then.
        Cancellation is delayed until the response is there, for `_NAMING_S` at most.
        """
        if request.member_id or request.group_instance_id is not None:
            return await self._request(request, wait_ms)
        node_id = await self._cluster.coordinator(self.group_id)
        connection = await self._cluster.connection(node_id, PURPOSE)
        named = anyio.Event()

        def heard(reply: JoinGroupResponse | KafkaError) -> None:
            if isinstance(reply, JoinGroupResponse):
                self.membership.member_id = reply.member_id
            named.set()

        try:
            return await connection.request(request, timeout_ms=wait_ms, heard=heard)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_NAMING_S, shield=True):
                await named.wait()
            raise

    async def _apply(self, assigned: list[TopicPartition]) -> None:
        """Apply the new generation's assignment; partitions revoked under a cooperative protocol require a rejoin."""
        membership, before = self.membership, self.known
        removed = [tp for tp in before if tp not in assigned]
        membership.owned = assigned
        if removed:
            if membership.cooperative:
                # In this generation nobody else owns the removed partitions: they become free in the next one.
                generation, member_id = self.member
                self._member.epoch_changed((generation - 1, member_id), self.member)
            await self._revoke(removed)
        added = [tp for tp in assigned if tp not in before]
        await self._assign(added, assigned)
        if removed:
            membership.state = State.UNJOINED
            await self._join_again(RebalanceInProgressError(f"group {self.group_id!r}: partitions are to be given up"))

    async def _send_heartbeat(self) -> None:
        """Send a heartbeat while a listener's call is pending. Raises KafkaError if the membership is lost."""
        try:
            request = self.membership.heartbeat_request()
            response = await self._heartbeat_request(request, self._options.session_timeout_ms)
        except KafkaError:
            self._cluster.forget_coordinator(self.group_id)
            return
        if response.error_code:
            error = error_for(response.error_code)
            action = self.membership.action_for(error)
            if action in (ErrorAction.REJOIN_AS_NEW, ErrorAction.FAIL):
                raise error_for(response.error_code, f"group {self.group_id!r}: {error}")
            if action is ErrorAction.FIND_COORDINATOR:
                self._cluster.forget_coordinator(self.group_id)
        else:
            self._joins = 0

    async def _heartbeat(self) -> None:
        membership = self.membership
        with anyio.move_on_after(self.heartbeat_interval_ms / 1000):
            await self._changed.wait()
            membership.state = State.UNJOINED
            return
        if self._member.is_poll_overdue():
            raise PollOverdue
        response = await self._heartbeat_request(membership.heartbeat_request(), self._options.session_timeout_ms)
        if response.error_code:
            raise error_for(response.error_code, f"group {self.group_id!r}: {error_for(response.error_code)}")
        self._joins = 0

    async def leave(self) -> None:
        """Leave the group; a static member sends no request and keeps its place (KIP-345)."""
        try:
            node_id = await self._cluster.coordinator(self.group_id)
            connection = await self._cluster.connection(node_id)
            request = self.membership.leave_request(connection.version_for(LeaveGroupRequest))
            if request is not None:
                await connection.request(request, timeout_ms=_LEAVE_TIMEOUT_MS)
        except KafkaError as error:
            _logger.info("leaving the group failed: group %r: %s", self.group_id, error)
        self.membership.reset()
