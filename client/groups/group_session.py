"""`GroupSession`: the base class of a consumer's group sessions under both protocols; `Member`: its consumer interface.

The task of a session uses a separate connection, as the coordinator may delay responses. The task notifies the consumer
of assignments through the `Member` interface. If the consumer has a listener, the application makes these calls when it
requests records, as in the JVM client; the task waits, and its heartbeats keep the membership meanwhile.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.application_calls import ApplicationCall
from minikafka.client.groups.group_counts import GroupCounts
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
PURPOSE = "group"
"""The purpose of the connection on which a session sends its requests, which the coordinator may delay."""
_JOINS_AT_ONCE = 2
"""How many joins in a row, without a successful heartbeat in between, are made without a pause, as in a rebalance."""


class Member(Protocol):
    """The interface through which a group notifies its consumer."""

    async def subscribed_topics(self) -> Sequence[str]:
        """The names of subscribed topics, from refreshed metadata."""
        ...

    @property
    def group_pattern(self) -> str | None:
        """The regular expression that the coordinator matches; None for a subscription by names."""
        ...

    async def partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists."""
        ...

    @property
    def called_in_polls(self) -> bool:
        """Whether the application calls `partitions_revoked` and `partitions_assigned`, each after `announced`."""
        ...

    def announced(self) -> None:
        """Make the application run `GroupSession.pending` before it gets its next record."""
        ...

    async def partitions_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Stop consuming partitions. If `lost`, other members may own them already, and commits would be rejected."""
        ...

    async def partitions_assigned(self, added: Sequence[TopicPartition], everything: Sequence[TopicPartition]) -> None:
        """Consume `added`; `everything` is the whole assignment."""
        ...

    def epoch_changed(self, before: tuple[int, str], now: tuple[int, str]) -> None:
        """Note that the generation or epoch and member id have changed; kept partitions were owned all the time."""
        ...

    def is_poll_overdue(self) -> bool:
        """Whether the application has not requested records for longer than max_poll_interval_ms."""
        ...

    def fail(self, error: KafkaError) -> None:
        """Report an error to the application, which may have ended the membership (`GroupSession.ended_by`)."""
        ...


class PollOverdue(Exception):
    """The application has not requested records for max_poll_interval_ms."""


class GroupSession(ABC):
    """The background task that keeps a consumer's membership of a group.

    Attributes:
        known: the assigned partitions of which the consumer was notified, without those that are being revoked.
        pending: the listener's call that the application has to make next, or None.
        last_error: the error after which requests are being retried, or None.
        ended_by: the error that has ended the membership for good, or None.
        failing_since: when requests began to fail, on the event loop's clock; None if the last request succeeded.
        counts: the counts of commits, heartbeats and rebalances. They belong to the consumer, which may have had
            another session before.
        departing: an event while this member leaves the group because the application requests no records; else None.
            It is set once the application can be told that its partitions are lost. Until then the application must
            get no records, since its partitions belong to other members.
    """

    def __init__(self, cluster: Cluster, options: ConsumerOptions, member: Member, seams: Seams) -> None:
        assert options.group_id is not None
        self.group_id = options.group_id
        self.known: list[TopicPartition] = []
        self.pending: ApplicationCall | None = None
        self.departing: anyio.Event | None = None
        self.last_error: KafkaError | None = None
        self.ended_by: KafkaError | None = None
        self.failing_since: float | None = None
        self.counts = GroupCounts()
        self._cluster = cluster
        self._options = options
        self._member = member
        self._changed = anyio.Event()
        self._polled = anyio.Event()
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)
        self._failures = 0
        self._joins = 0
        """The number of joins that succeeded since the last successful heartbeat."""

    @property
    @abstractmethod
    def member(self) -> tuple[int, str]:
        """The generation or member epoch, -1 for none, and the member id."""

    @property
    @abstractmethod
    def is_stable(self) -> bool:
        """Whether `rejoin` must report a changed subscription. During a join, the change is noticed at its end."""

    async def next_epoch(self, member: tuple[int, str]) -> None:  # noqa: B027 (only epochs change meanwhile)
        """Wait for a bounded time until `self.member` is not `member`; return at once if only joining changes it."""

    @property
    def led_topics(self) -> Sequence[str] | None:
        """The topics that this member, as the group's leader, assigns to all members; None if it is not the leader."""
        return None

    @property
    @abstractmethod
    def heartbeat_interval_ms(self) -> float:
        """The time between heartbeats."""

    @abstractmethod
    async def run(self) -> None:
        """Keep the membership until cancelled, or until a fatal error, which is reported by `Member.fail`."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group, so that its partitions are reassigned before this member's session times out."""

    @abstractmethod
    async def _send_heartbeat(self) -> None:
        """Send a heartbeat. Raises KafkaError if the membership is lost."""

    @abstractmethod
    def _forget_assignment(self) -> None:
        """Note that this member owns no partitions."""

    def rejoin(self) -> None:
        """Report to the group that the subscription or its topics have changed."""
        self._changed.set()

    async def polled(self) -> None:
        """Handle a request for records: join again at once if the member has left because there was none."""
        self._polled.set()
        if self.departing is not None:
            await self.departing.wait()

    def metadata_updated(self) -> None:  # noqa: B027 (only target assignments name topics by id)
        """Handle changed metadata."""

    async def _lose_partitions(self) -> None:
        self._forget_assignment()
        if self.known:
            await self._revoke(self.known, lost=True)
        self.known = []

    async def _removed(self, error: KafkaError) -> None:
        """Handle an error that says that the group no longer knows this member or its generation; it joins again."""
        if self.known:
            _logger.warning(
                "group has removed this member, what it has not committed is read again: group %r: %s",
                self.group_id,
                error,
            )
        await self._lose_partitions()

    async def _revoke(self, partitions: Sequence[TopicPartition], *, lost: bool = False) -> None:
        """Tell the consumer that partitions are revoked. Raises the errors of `_tell`."""
        kept = [tp for tp in self.known if tp not in partitions]

        async def call() -> None:
            before, self.known = self.known, kept
            try:
                await self._member.partitions_revoked(partitions, lost=lost)
            except anyio.get_cancelled_exc_class():
                self.known = before
                raise

        await self._tell(call)

    async def _assign(self, added: Sequence[TopicPartition], everything: list[TopicPartition]) -> None:
        """Tell the consumer which partitions are assigned. Raises the errors of `_tell`."""

        async def call() -> None:
            self.known = everything
            await self._member.partitions_assigned(added, everything)

        await self._tell(call)

    async def _tell(self, call: Callable[[], Awaitable[None]]) -> None:
        """Make a call, or let the application make it, and keep the membership until the call has ended.

        Raises KafkaError if the membership is lost, and PollOverdue; the call is withdrawn in both cases.
        """
        if not self._member.called_in_polls:
            await call()
            return
        pending = self.pending = ApplicationCall(call)
        self._member.announced()
        if self.departing is not None:
            self.departing.set()
        try:
            while not pending.done.is_set():
                with anyio.move_on_after(self.heartbeat_interval_ms / 1000):
                    await pending.done.wait()
                if not pending.done.is_set() and self.member[0] >= 0:
                    with anyio.CancelScope() as pending.waiting:
                        await self._keep_membership()
        except (PollOverdue, KafkaError):
            if not pending.running:
                raise
            await pending.done.wait()
        finally:
            self.pending = None

    async def _keep_membership(self) -> None:
        """Send a heartbeat. Raises KafkaError if the membership is lost, and PollOverdue."""
        if self._member.is_poll_overdue():
            raise PollOverdue
        await self._send_heartbeat()

    async def _leave_until_polled(self) -> None:
        _logger.warning(
            "poll interval exceeded, leaving the group until the next poll: group %r, max_poll_interval_ms %d;"
            " process records faster, reduce max_poll_records or raise max_poll_interval_ms",
            self.group_id,
            self._options.max_poll_interval_ms,
        )
        self.departing = anyio.Event()
        try:
            await self.leave()
            await self._lose_partitions()
        finally:
            self.departing.set()
            self.departing = None
        while self._member.is_poll_overdue():
            self._polled = anyio.Event()
            with anyio.move_on_after(self.heartbeat_interval_ms / 1000):
                await self._polled.wait()

    def _succeeded(self) -> None:
        self._failures, self.last_error, self.failing_since = 0, None, None

    async def _end(self, error: KafkaError) -> None:
        """End the membership after an error that is not retriable."""
        await self._lose_partitions()
        self.ended_by = error
        self._member.fail(error)

    async def _join_again(self, error: KafkaError) -> None:
        """Return so that the task joins again: at once, or after a backoff if earlier joins were in vain."""
        if self._failures or self._joins > _JOINS_AT_ONCE:
            await self._back_off(error)
        else:
            self._failures = 1

    async def _back_off(self, error: KafkaError) -> None:
        """Forget the cached coordinator, and pause before the next request."""
        self._cluster.forget_coordinator(self.group_id)
        self.last_error = error
        if self.failing_since is None:
            self.failing_since = anyio.current_time()
        _logger.info("group request failed, retrying: group %r: %s", self.group_id, error)
        await anyio.sleep(self._backoff.delay_ms(max(self._failures, self._joins - _JOINS_AT_ONCE)) / 1000)
        self._failures += 1

    async def _heartbeat_request(self, request: Any, timeout_ms: float) -> Any:
        began = anyio.current_time()
        response = await self._request(request, timeout_ms)
        self.counts.heartbeats_ms.add((anyio.current_time() - began) * 1000)
        return response

    async def _request(self, request: Any, timeout_ms: float) -> Any:
        node_id = await self._cluster.coordinator(self.group_id)
        return await self._cluster.request(request, node_id, purpose=PURPOSE, timeout_ms=timeout_ms)
