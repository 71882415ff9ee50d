"""Drives a `Membership`: joins, keeps the heart beating, joins again when the group changes, leaves at the end.

It runs as a task of its own, on a connection of its own, as the coordinator makes a JoinGroup wait. What a new
generation means for the consumer goes through its `Member` interface.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.groups.membership import Membership, Next, State
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.names import TopicPartition

_logger = logging.getLogger("minikafka.client.consumer")
_PURPOSE = "group"
_LEAVE_TIMEOUT_MS = 3_000
_GRACE_MS = 5_000


class Member(Protocol):
    """The consumer, as its group sees it."""

    async def subscribed_topics(self) -> Sequence[str]:
        """Names of existing or expected topics, fresh."""
        ...

    async def partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Of those that exist."""
        ...

    async def give_up(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """These are read no more; `lost`: somebody else may have them already, commits would be refused."""
        ...

    async def take(self, added: Sequence[TopicPartition], everything: Sequence[TopicPartition]) -> None:
        """These are new; `everything` is what this member has now."""
        ...

    def is_slow(self) -> bool:
        """Whether the user has not asked for records for longer than max_poll_interval_ms."""
        ...

    def fail(self, error: KafkaError) -> None:
        """The membership has ended with an error that only the user can do something about."""
        ...


class Group:
    """A consumer's membership at work."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, member: Member, seams: Seams) -> None:
        self.membership = Membership(options)
        self._cluster = cluster
        self._options = options
        self._member = member
        self._changed = anyio.Event()
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)
        self._failures = 0
        self._known: list[TopicPartition] = []

    def rejoin(self) -> None:
        """The subscription, or the topics behind it, have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled, or until an error that the user has to see."""
        while True:
            try:
                await (self._beat() if self.membership.state is State.STABLE else self._join())
                self._failures = 0
            except KafkaError as error:
                what = self.membership.failed(error)
                if what is Next.FAIL and not error.retriable:
                    await self._lose()
                    self._member.fail(error)
                    return
                await self._react(what, error)

    async def _react(self, what: Next, error: KafkaError) -> None:
        if what is Next.JOIN_ANEW:
            await self._lose()
        elif what is not Next.JOIN_AGAIN:
            self._cluster.forget_coordinator(self.membership.group_id)
            _logger.info("group %r: %s", self.membership.group_id, error)
            await anyio.sleep(self._backoff.delay_ms(self._failures) / 1000)
            self._failures += 1

    async def _lose(self) -> None:
        lost, self.membership.owned = self._known, []
        self._known = []
        if lost:
            await self._member.give_up(lost, lost=True)

    async def _join(self) -> None:
        membership = self.membership
        self._changed = anyio.Event()
        if not membership.cooperative and self._known:
            gone, self._known, membership.owned = self._known, [], []
            await self._member.give_up(gone, lost=False)
        topics = await self._member.subscribed_topics()
        wait_ms = self._options.max_poll_interval_ms + _GRACE_MS
        membership.joined(await self._ask(membership.join_request(topics), wait_ms))
        counts: Mapping[str, int] = {}
        if membership.leads:
            counts = await self._member.partition_counts(membership.group_topics)
        share = membership.synced(await self._ask(membership.sync_request(counts), wait_ms))
        await self._apply(share)

    async def _apply(self, share: list[TopicPartition]) -> None:
        """The new generation's share; what has to be given up under a cooperative protocol needs another round."""
        membership, before = self.membership, self._known
        removed = [tp for tp in before if tp not in share]
        self._known = membership.owned = share
        if removed:
            await self._member.give_up(removed, lost=False)
        await self._member.take([tp for tp in share if tp not in before], share)
        if removed:
            membership.state = State.UNJOINED

    async def _beat(self) -> None:
        membership = self.membership
        with anyio.move_on_after(self._options.heartbeat_interval_ms / 1000):
            await self._changed.wait()
            membership.state = State.UNJOINED
            return
        if self._member.is_slow():
            _logger.warning(
                "group %r: no records were asked for within max_poll_interval_ms (%d ms); leaving the group until"
                " they are: process faster, take less at a time, or raise it",
                membership.group_id,
                self._options.max_poll_interval_ms,
            )
            await self.leave()
            await self._lose()
            while self._member.is_slow():
                await anyio.sleep(self._options.heartbeat_interval_ms / 1000)
            return
        response = await self._ask(membership.heartbeat_request(), self._options.session_timeout_ms)
        if response.error_code:
            raise error_for(response.error_code, f"group {membership.group_id!r}: {error_for(response.error_code)}")

    async def _ask(self, request: Any, timeout_ms: float) -> Any:
        node_id = await self._cluster.coordinator(self.membership.group_id)
        return await self._cluster.request(request, node_id, purpose=_PURPOSE, timeout_ms=timeout_ms)

    async def leave(self) -> None:
        """Leave the group, so that the others need not wait for this member's session to end."""
        try:
            node_id = await self._cluster.coordinator(self.membership.group_id)
            connection = await self._cluster.connection(node_id)
            request = self.membership.leave_request(connection.version_for(LeaveGroupRequest))
            if request is not None:
                await connection.request(request, timeout_ms=_LEAVE_TIMEOUT_MS)
        except KafkaError as error:
            _logger.info("group %r: leaving failed: %s", self.membership.group_id, error)
        self.membership.reset()
