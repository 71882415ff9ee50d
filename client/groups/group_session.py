"""The background task of a consumer in a group: sends `Membership`'s requests, heartbeats, rejoins and leaves.

The task uses a separate connection, as the coordinator delays JoinGroup responses. It notifies the consumer of
assignments through the `Member` interface. If the consumer has a listener, the application makes these calls where it
requests records, as in the JVM client; the task waits, and its heartbeats keep the membership meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.groups.application_calls import ApplicationCall
from minikafka.client.groups.membership import ErrorAction, Membership, State
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

_logger = logging.getLogger("minikafka.client.consumer")
_PURPOSE = "group"
_LEAVE_TIMEOUT_MS = 3_000
_GRACE_MS = 5_000
"""Added to the rebalance timeout when waiting for JoinGroup and SyncGroup responses."""


class Member(Protocol):
    """The interface through which a group notifies its consumer."""

    async def subscribed_topics(self) -> Sequence[str]:
        """The names of subscribed topics, from refreshed metadata."""
        ...

    async def partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists."""
        ...

    @property
    def called_in_polls(self) -> bool:
        """Whether the application makes the next two calls; it is told of each by `announced`."""
        ...

    def announced(self) -> None:
        """Have the application run `Group.pending` before its next record."""
        ...

    async def partitions_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Stop consuming these. `lost`: other members may have them already, and commits would be rejected."""
        ...

    async def partitions_assigned(self, added: Sequence[TopicPartition], everything: Sequence[TopicPartition]) -> None:
        """Consume `added`; `everything` is the whole assignment."""
        ...

    def is_poll_overdue(self) -> bool:
        """Whether the user has not requested records for longer than max_poll_interval_ms."""
        ...

    def fail(self, error: KafkaError) -> None:
        """Report a fatal error, with which the membership has ended, to the user."""
        ...


class _PollOverdue(Exception):
    """The application has not requested records for max_poll_interval_ms."""


class Group:
    """Runs a consumer's membership of a group.

    Attributes:
        known: the assigned partitions, as far as the consumer was told of them.
        pending: the call that the application has to make next.
    """

    def __init__(self, cluster: Cluster, options: ConsumerOptions, member: Member, seams: Seams) -> None:
        self.membership = Membership(options)
        self._cluster = cluster
        self._options = options
        self._member = member
        self._changed = anyio.Event()
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)
        self._failures = 0
        self.known: list[TopicPartition] = []
        self.pending: ApplicationCall | None = None

    @property
    def member(self) -> tuple[int, str]:
        """The generation, -1 for none, and the member id."""
        return self.membership.generation, self.membership.member_id

    def rejoin(self) -> None:
        """Join again: the subscription or its topics have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled or until a fatal error, which is reported to the member."""
        while True:
            try:
                await (self._heartbeat() if self.membership.state is State.STABLE else self._join())
                self._failures = 0
            except _PollOverdue:
                await self._leave_until_polled()
            except KafkaError as error:
                action = self.membership.failed(error)
                if action is ErrorAction.FAIL and not error.retriable:
                    await self._lose_partitions()
                    self._member.fail(error)
                    return
                await self._react(action, error)

    async def _react(self, action: ErrorAction, error: KafkaError) -> None:
        if action is ErrorAction.REJOIN_AS_NEW:
            await self._lose_partitions()
        elif action is not ErrorAction.REJOIN:
            self._cluster.forget_coordinator(self.membership.group_id)
            _logger.info("group request failed, retrying: group %r: %s", self.membership.group_id, error)
            await anyio.sleep(self._backoff.delay_ms(self._failures) / 1000)
            self._failures += 1

    async def _lose_partitions(self) -> None:
        self.membership.owned = []
        if self.known:
            await self._tell(partial(self._member.partitions_revoked, self.known, lost=True))
        self.known = []

    async def _join(self) -> None:
        membership = self.membership
        self._changed = anyio.Event()
        if not membership.cooperative and self.known:
            await self._tell(partial(self._member.partitions_revoked, self.known, lost=False))
            self.known, membership.owned = [], []
        topics = await self._member.subscribed_topics()
        wait_ms = self._options.max_poll_interval_ms + _GRACE_MS
        membership.joined(await self._request(membership.join_request(topics), wait_ms))
        counts: Mapping[str, int] = {}
        if membership.is_leader:
            counts = await self._member.partition_counts(membership.group_topics)
        assigned = membership.synced(await self._request(membership.sync_request(counts), wait_ms))
        await self._apply(assigned)

    async def _apply(self, assigned: list[TopicPartition]) -> None:
        """Apply the new generation's assignment; partitions revoked under a cooperative protocol require a rejoin."""
        membership, before = self.membership, self.known
        removed = [tp for tp in before if tp not in assigned]
        membership.owned = assigned
        if removed:
            await self._tell(partial(self._member.partitions_revoked, removed, lost=False))
            self.known = [tp for tp in before if tp in assigned]
        added = [tp for tp in assigned if tp not in before]
        await self._tell(partial(self._member.partitions_assigned, added, assigned))
        self.known = assigned
        if removed:
            membership.state = State.UNJOINED

    async def _tell(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call, or have the application call, and keep the membership until it has.

        Raises KafkaError if the membership is lost, and _PollOverdue; the call is withdrawn then.
        """
        if not self._member.called_in_polls:
            await call()
            return
        pending = self.pending = ApplicationCall(call)
        self._member.announced()
        try:
            while not pending.done.is_set():
                with anyio.move_on_after(self._options.heartbeat_interval_ms / 1000):
                    await pending.done.wait()
                if not pending.done.is_set() and self.membership.generation >= 0:
                    with anyio.CancelScope() as pending.waiting:
                        await self._keep_membership()
        except (_PollOverdue, KafkaError):
            if not pending.running:
                raise
            await pending.done.wait()
        finally:
            self.pending = None

    async def _keep_membership(self) -> None:
        """Send a heartbeat. Raises KafkaError if the membership is lost, and _PollOverdue."""
        if self._member.is_poll_overdue():
            raise _PollOverdue
        try:
            response = await self._request(self.membership.heartbeat_request(), self._options.session_timeout_ms)
        except KafkaError:
            self._cluster.forget_coordinator(self.membership.group_id)
            return
        if response.error_code:
            error = error_for(response.error_code)
            action = self.membership.action_for(error)
            if action in (ErrorAction.REJOIN_AS_NEW, ErrorAction.FAIL):
                raise error_for(response.error_code, f"group {self.membership.group_id!r}: {error}")
            if action is ErrorAction.FIND_COORDINATOR:
                self._cluster.forget_coordinator(self.membership.group_id)

    async def _heartbeat(self) -> None:
        membership = self.membership
        with anyio.move_on_after(self._options.heartbeat_interval_ms / 1000):
            await self._changed.wait()
            membership.state = State.UNJOINED
            return
        if self._member.is_poll_overdue():
            raise _PollOverdue
        response = await self._request(membership.heartbeat_request(), self._options.session_timeout_ms)
        if response.error_code:
            raise error_for(response.error_code, f"group {membership.group_id!r}: {error_for(response.error_code)}")

    async def _leave_until_polled(self) -> None:
        _logger.warning(
            "poll interval exceeded, leaving the group until the next poll: group %r, max_poll_interval_ms %d;"
            " process records faster, reduce max_poll_records or raise max_poll_interval_ms",
            self.membership.group_id,
            self._options.max_poll_interval_ms,
        )
        await self.leave()
        await self._lose_partitions()
        while self._member.is_poll_overdue():
            await anyio.sleep(self._options.heartbeat_interval_ms / 1000)

    async def _request(self, request: Any, timeout_ms: float) -> Any:
        node_id = await self._cluster.coordinator(self.membership.group_id)
        return await self._cluster.request(request, node_id, purpose=_PURPOSE, timeout_ms=timeout_ms)

    async def leave(self) -> None:
        """Leave the group, so that its partitions are reassigned before this member's session times out."""
        try:
            node_id = await self._cluster.coordinator(self.membership.group_id)
            connection = await self._cluster.connection(node_id)
            request = self.membership.leave_request(connection.version_for(LeaveGroupRequest))
            if request is not None:
                await connection.request(request, timeout_ms=_LEAVE_TIMEOUT_MS)
        except KafkaError as error:
            _logger.info("leaving the group failed: group %r: %s", self.membership.group_id, error)
        self.membership.reset()
