"""`ConsumerGroup`: the background task of a member under the consumer protocol; sends `ConsumerMembership`'s requests.

The task reconciles the partitions that the member owns with the target assignment from the coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.seams import Seams
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.consumer_membership import Assigned, ConsumerMembership, Reaction, is_join
from minikafka.client.groups.group_session import GroupSession, Member, PollOverdue
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, UnsupportedVersionError
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_LEAVE_TIMEOUT_MS = 3_000


class ConsumerGroup(GroupSession):
    """The session of a member under the consumer protocol: sends heartbeats, reconciles one assignment at a time."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, member: Member, seams: Seams) -> None:
        super().__init__(cluster, options, member, seams)
        self.membership = ConsumerMembership(options, seams.random)
        self._topics: Sequence[str] | None = None
        self._ids: dict[TopicPartition, bytes] = {}
        self._unknown_topics: frozenset[bytes] = frozenset()
        self._epoch_changed = anyio.Event()

    @property
    def member(self) -> tuple[int, str]:
        """The member epoch, -1 for none, and the member id."""
        return self.membership.epoch, self.membership.member_id

    @property
    def is_stable(self) -> bool:
        """Whether the consumer has a member epoch; see `GroupSession.is_stable`."""
        return self.membership.epoch >= 0

    @property
    def heartbeat_interval_ms(self) -> float:
        """The time between heartbeats, as set by the coordinator."""
        return self.membership.heartbeat_interval_ms

    async def next_epoch(self, member: tuple[int, str]) -> None:
        """Wait until the membership differs from `member`, for one heartbeat interval at most."""
        with anyio.move_on_after(self.heartbeat_interval_ms / 1000):
            while self.member == member:
                await self._epoch_changed.wait()

    def metadata_updated(self) -> None:
        """Handle changed metadata: assigned topics may now be known, or may have been created anew."""
        metadata = self._cluster.metadata
        known = any(metadata.name_of(one) for one in self._unknown_topics)
        if known or any(metadata.topic_id(tp.topic) not in (one, NIL_UUID) for tp, one in self._ids.items()):
            self._changed.set()

    async def run(self) -> None:
        """Send heartbeats and reconcile assignments, until cancelled or until a fatal error."""
        while True:
            try:
                await self._beat()
                self._succeeded()
                if not await self._reconcile():
                    await self._rest()
            except PollOverdue:
                await self._leave_until_polled()
            except KafkaError as error:
                reaction = self._failed(error)
                if reaction is Reaction.FAIL and not error.retriable:
                    await self._end(_explained(error))
                    return
                if reaction is Reaction.REJOIN:
                    await self._removed(error)
                    await self._join_again(error)
                else:
                    await self._back_off(error)

    def rejoin(self) -> None:
        """Report a changed subscription to the coordinator with the next heartbeat, which is sent at once."""
        self._topics = None
        super().rejoin()

    async def _rest(self) -> None:
        """Wait until a heartbeat is due, or a change must be sent at once."""
        with anyio.move_on_after(self.heartbeat_interval_ms / 1000):
            await self._changed.wait()

    async def _beat(self) -> None:
        """Send one heartbeat. Raises KafkaError, and PollOverdue."""
        if self._member.is_poll_overdue():
            raise PollOverdue
        self._changed = anyio.Event()
        if self._topics is None:
            pattern = self._member.group_pattern
            names = await self._member.subscribed_topics()
            self._topics = [] if pattern is not None else list(names)
        subscription = self._topics, self._member.group_pattern
        request = self.membership.heartbeat_request(*subscription)
        before = self.member
        try:
            response = await self._heartbeat_request(request, self._options.request_timeout_ms)
        except anyio.get_cancelled_exc_class():
            self.membership.missed_answer()
            raise
        self.membership.answered(request, response, subscription)
        self._joins = self._joins + 1 if is_join(request) else 0
        self._note_epoch(before)

    def _note_epoch(self, before: tuple[int, str]) -> None:
        if self.member != before:
            self._member.epoch_changed(before, self.member)
            self._epoch_changed.set()
            self._epoch_changed = anyio.Event()

    async def _send_heartbeat(self) -> None:
        """Send a heartbeat while a listener's call is pending. Raises PollOverdue, KafkaError if membership is lost."""
        try:
            await self._beat()
        except KafkaError as error:
            reaction = self.membership.reaction_to(error)
            if reaction is Reaction.REJOIN or (reaction is Reaction.FAIL and not error.retriable):
                raise
            self._failed(error)
            self._cluster.forget_coordinator(self.group_id)

    def _failed(self, error: KafkaError) -> Reaction:
        """Update the membership after an error of a heartbeat; return the reaction."""
        before = self.member
        reaction = self.membership.failed(error)
        self._note_epoch(before)
        if reaction is Reaction.REPORT:
            self._member.fail(error)
        return reaction

    def _forget_assignment(self) -> None:
        self._own({})

    async def _reconcile(self) -> bool:
        """Give up and take over partitions; return whether the next heartbeat must be sent at once.

        Partitions of topics that are not in the metadata yet are taken over once the metadata has them.
        """
        membership, target = self.membership, self.membership.target
        if target is None:
            return False
        began, wanted = anyio.current_time(), await self._named(target)
        removed = [tp for tp in self.known if wanted.get(tp) != self._ids.get(tp)]
        if removed:
            await self._revoke(removed)
            self._own({tp: self._ids[tp] for tp in self.known})
            if membership.target is not target:
                return True
        added = [tp for tp in wanted if tp not in self._ids]
        if added or removed:
            await self._assign(added, sorted(wanted))
            self._own(wanted)
            self.counts.rebalances_ms.add((anyio.current_time() - began) * 1000)
        return membership.must_acknowledge or membership.target is not target

    def _own(self, ids: dict[TopicPartition, bytes]) -> None:
        self._ids = ids
        owned: dict[bytes, list[int]] = {}
        for tp, topic_id in ids.items():
            owned.setdefault(topic_id, []).append(tp.partition)
        self.membership.own(owned)

    async def _named(self, target: Assigned) -> dict[TopicPartition, bytes]:
        """The partitions of a target assignment whose topics are in the metadata, each with its topic's id."""
        names = self._names(target)
        if len(names) < len(target):
            await self._cluster.refresh()
            names = self._names(target)
        self._unknown_topics = frozenset(target.keys() - names.keys())
        if self._unknown_topics:
            self._cluster.refresh_soon()
        return {
            TopicPartition(name, index): topic_id for topic_id, name in names.items() for index in target[topic_id]
        }

    def _names(self, target: Assigned) -> dict[bytes, str]:
        """The names of topics by id: of owned topics also while the metadata lack them, as by `assignedTopicNamesCache`
        of Kafka's client."""
        metadata = self._cluster.metadata
        owned = {one: tp.topic for tp, one in self._ids.items() if metadata.topic_id(tp.topic) == NIL_UUID}
        names = {topic_id: metadata.name_of(topic_id) or owned.get(topic_id) for topic_id in target}
        return {topic_id: name for topic_id, name in names.items() if name is not None}

    async def leave(self) -> None:
        """Leave the group; a static member leaves temporarily, and keeps its partitions until its session ends.

        The request follows the heartbeats on their connection: a join that is in flight is handled before it.
        """
        request = self.membership.leave_request()
        before = self.member
        self.membership.reset()
        self._note_epoch(before)
        if request is None:
            return
        try:
            await self._request(request, _LEAVE_TIMEOUT_MS)
        except KafkaError as error:
            _logger.info("leaving the group failed: group %r: %s", self.group_id, error)


def _explained(error: KafkaError) -> KafkaError:
    if isinstance(error, UnsupportedVersionError):
        return UnsupportedVersionError(
            f"group_protocol='consumer' is not supported by the broker: {error.message};"
            " use group_protocol='classic', or Apache Kafka 4.0 or later"
        )
    return error
