"""`Subscriptions`: determines a consumer's partitions, by `assign`, subscription or group, and commits offsets.

`Subscriptions` also implements `group_session.Member`, the interface through which a group calls the consumer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from minikafka.client.argument_kinds import shown
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import missing_patience_s, missing_topics
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.auto_commits import AutoCommits
from minikafka.client.consumer.choice import Choice, checked_choice
from minikafka.client.consumer.failures import Failures
from minikafka.client.consumer.fetch_state import NOT_CHOSEN, Fetcher
from minikafka.client.consumer.lacking_topics import LackingTopics
from minikafka.client.consumer.last_call import last_call
from minikafka.client.consumer.leaving import Leaving
from minikafka.client.consumer.listener import Listener
from minikafka.client.consumer.offset_commits import OffsetCommits
from minikafka.client.consumer.record_owners import RecordOwners
from minikafka.client.consumer.without_partitions import WithoutPartitions
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.group_counts import GroupCounts
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.groups.group_session import GroupSession
from minikafka.client.groups.group_waits import GroupWaits
from minikafka.client.groups.session_task import SessionTask
from minikafka.client.groups.sessions import SESSIONS
from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, TopicAuthorizationFailedError
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))


class Subscriptions:
    """Assigns partitions to the fetcher, calls the listener, and commits offsets."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        tasks: TaskGroup,
        wake: Callable[[], None],
        arrived: Callable[[], None],
        failures: Failures,
        is_poll_overdue: Callable[[], bool],
        seams: Seams,
    ) -> None:
        self._failures = failures
        self.is_poll_overdue = is_poll_overdue
        self.counts = GroupCounts()
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._tasks = tasks
        self._wake = wake
        self._arrived = arrived
        self._seams = seams
        self._choice = self._choice_read = Choice()
        self._group: GroupSession | None = None
        self._group_task: SessionTask | None = None
        self._group_waits = GroupWaits(cluster, lambda: self._group, is_poll_overdue)
        self.without_partitions = WithoutPartitions(fetcher, lambda: self._group)
        self._lacking = LackingTopics(cluster.metadata, missing_patience_s(options.default_api_timeout_ms))
        self._seen: dict[str, int] = {}
        self._matched: list[str] = []
        self._owners = RecordOwners()
        self._commits = OffsetCommits(cluster, fetcher, options, self.counts, self._owners.owner_of, self._lacking)
        self._auto_commits = AutoCommits(self._commits, fetcher, options, seams.random)
        self._leaving = Leaving()
        self._told_missing: list[str] = []
        self._without_partitions_since = anyio.current_time()
        self.is_requested = False
        """Whether the application is requesting records now; all records returned before then count as processed."""
        self.settled_only = False
        """Whether a listener is being called: `commit` then only commits records that were processed."""

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Assign these partitions. Raises RuntimeError while subscribed, and before an `unsubscribe` has ended."""
        self._leaving.check("assign()")
        if self._group is not None or self._choice.is_made_here:
            raise RuntimeError("assign() cannot be combined with a subscription: call unsubscribe() first")
        self._fetcher.left, self._fetcher.why_nothing = {}, ""
        self._read(partitions)

    async def subscribe(self, topics: list[str], pattern: str | None, listener: Listener | None) -> None:
        """Subscribe to topics, or to all that match a pattern; without a group all their partitions are assigned.

        Raises ValueError without topics and pattern, with both, and for an invalid pattern unless the coordinator
        evaluates the pattern; RuntimeError before an `unsubscribe` has ended.
        """
        self._leaving.check("subscribe()")
        choice = checked_choice(topics, pattern, listener, self._options)
        if self._options.group_id is None:
            await self._read_all(choice)
            return
        self._choice, self._fetcher.why_nothing = choice, ""
        if self._group is None:
            self._group = SESSIONS[self._options.group_protocol](self._cluster, self._options, self, self._seams)
            self._group.counts = self.counts
            self._group_waits.begin()
            self._group_task = SessionTask(self._tasks, self._group)
        else:
            self._group.rejoin()

    async def unsubscribe(self) -> None:
        """Leave the group, and assign no partitions."""
        try:
            with self._leaving:
                await self.close(None)
        finally:  # Without the group, nothing says that another member owns the partitions now.
            self._choice = Choice()
            self._fetcher.left, self._fetcher.why_nothing = {}, NOT_CHOSEN
            self._read([])

    async def close(
        self,
        left_by: BaseException | None,
        *,
        limit: anyio.CancelScope | None = None,
        commit_timeout_ms: float = math.inf,
    ) -> None:
        """Commit a last time (with enable_auto_commit), and leave the group. A failed commit is logged.

        Records that were returned and not yet processed are included, unless the block was left by an exception
        (`left_by`). The commit is retried for `commit_timeout_ms` at most. `limit` is the cancel scope of closing; the
        listener's call is excluded from its time.
        """
        group, task, everything = self._group, self._group_task, left_by is None
        if task is not None:
            task.cancel()
        try:
            if self._options.enable_auto_commit and self._options.group_id is not None:
                limit_ms = min(commit_timeout_ms, self._options.default_api_timeout_ms)
                partitions, only = [tp for tp in self._fetcher.states if tp not in self._fetcher.left], not everything
                commit = self._auto_commits.commit_before_losing
                last = partial(commit, group=group, processed_only=only, retried_ms=limit_ms)
                async with anyio.create_task_group() as tasks:  # Sequential commits could leave no time to leave.
                    for some in (list(self._fetcher.left), partitions):
                        tasks.start_soon(last, some)
            if group is not None and group.known and self._choice.listener is not None:
                lost, unlimited = group.member[0] < 0, left_by is None or isinstance(left_by, Exception)
                known, group.known = group.known, []  # The listener may call `unsubscribe`.
                with last_call(limit, self._cluster.waits, unlimited=unlimited):
                    await self._notify_revoked(self._choice.listener, known, lost=lost, settled_only=not everything)
        finally:
            self._group = None
            if group is not None and task is not None:
                await task.ended()
                await group.leave()

    def is_settled(self) -> bool:
        """Whether the assignment is final for now, so that `stop_at` may end reading.

        A member without partitions under the consumer protocol waits for two heartbeat intervals: the coordinator may
        first have to take partitions from other members. It is not final while the metadata lack a subscribed topic.
        """
        group, now = self._group, anyio.current_time()
        read = {tp.topic for tp in self._fetcher.states}
        if any(name not in read and self._lacking.may_exist(name) for name in self._chosen()):
            return False
        if group is None or not group.is_stable or self._fetcher.states:
            self._without_partitions_since = now
            return group is None or group.is_stable
        waits = 2 * group.heartbeat_interval_ms / 1000 if self._options.group_protocol == "consumer" else 0
        return now - self._without_partitions_since >= waits

    def updated(self) -> None:
        """Handle changed metadata: new topics, new partitions, and topics that were deleted and created anew.

        The consumer protocol assigns topics by id: the partitions of a topic that was created anew will be revoked.
        """
        self._find_lacking()
        self._follow_topics(held=self._group is not None and self._options.group_protocol == "consumer")
        if self._choice.pattern is not None and self._cluster.topics is None:
            no_match = f"no topic matches pattern {shown(self._choice.pattern.pattern)}"
            self._fetcher.why_nothing = "" if self._matching() else no_match
        if self._group is not None:
            self._fetcher.missing = self._cluster.metadata.nonexistent(self._choice.topics)
            self._report_denied()
            self._rejoin_if_changed(self._group)
            self._group.metadata_updated()
        elif self._choice.is_made_here and self._choice is self._choice_read:
            self._read(self._all_partitions())
        self._wake()

    def _report_denied(self) -> None:
        """Report a subscribed topic that this client may not see; the others are read, as by Kafka's client.

        Of a topic that is being read a Fetch will say so.
        """
        errors, read = self._cluster.metadata.errors, {tp.topic for tp in self._fetcher.states}
        for name in self._choice.topics:
            if name not in read and isinstance(error := errors.get(name), TopicAuthorizationFailedError):
                self.fail(error)
                return

    def _rejoin_if_changed(self, group: GroupSession) -> None:
        """Rejoin if subscribed topics have changed. While the group is being joined, the check follows at the end."""
        if group.is_stable and self._has_changed(group):
            group.rejoin()

    def _has_changed(self, group: GroupSession) -> bool:
        """Whether the topics that match the pattern, or the partition counts on the group's leader, have changed."""
        if self._choice.pattern is not None and self._matching() != self._matched:
            return True
        return group.led_topics is not None and self._counts(group.led_topics) != self._seen

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        """The number of partitions of each topic, as before if the metadata lack it and it may exist."""
        known = self._cluster.metadata.topics
        kept = {name: count for name, count in self._seen.items() if self._lacking.may_exist(name)}
        counts = kept | {name: len(one.partitions) for name, one in known.items()}
        return {name: counts[name] for name in topics if name in counts}

    def _chosen(self) -> Iterable[str]:
        """The subscribed topics; with a pattern those that match it and are read, matched before or have an error."""
        if self._choice.pattern is None:
            return self._choice.topics
        names = {tp.topic for tp in self._fetcher.states} | {*self._matched} | self._cluster.metadata.errors.keys()
        return [name for name in names if self._choice.pattern.fullmatch(name)]

    def _find_lacking(self) -> None:
        """Find out which topics the metadata lack that are subscribed, read or led; ask again if one may exist."""
        led = () if self._group is None else self._group.led_topics or ()
        names = {*self._chosen(), *led, *(tp.topic for tp in self._fetcher.states)}
        if self._lacking.update(names, anyio.current_time()):
            self._cluster.refresh_soon()

    def _matching(self) -> list[str]:
        assert self._choice.pattern is not None
        known = self._cluster.metadata.topics
        names = {name for name in self._matched if self._lacking.may_exist(name)}
        hidden = self._options.exclude_internal_topics
        names |= {name for name, one in known.items() if not (hidden and one.is_internal)}
        return [name for name in sorted(names) if self._choice.pattern.fullmatch(name)]

    async def _read_all(self, choice: Choice) -> None:
        """Assign all partitions of a choice. If that fails or is cancelled, what was chosen before stays."""
        before = self._choice, self._matched, self._fetcher.why_nothing
        self._choice, self._fetcher.why_nothing = choice, ""
        try:
            await self._find_subscribed()
        except BaseException:
            if self._choice is choice:
                self._choice, self._matched, self._fetcher.why_nothing = before
            raise
        self._choice_read = self._choice
        self._read(self._all_partitions())

    async def _find_subscribed(self) -> None:
        """Look up the topics. Raises UnknownTopicOrPartitionError if one is missing for `missing_patience_s`."""
        patience_s = missing_patience_s(self._options.default_api_timeout_ms)
        deadline = anyio.current_time() + patience_s
        missing: list[str] = []
        with self._cluster.waiting("subscribing", lambda: missing_topics(missing) if missing else None):
            while await self._cluster.retry(self.subscribed_topics, "finding the subscribed topics"):
                missing = self._cluster.metadata.nonexistent(self._choice.topics)
                if not missing:
                    break
                if anyio.current_time() >= deadline:
                    raise missing_topics(missing)
                await anyio.sleep(max(self._options.retry_backoff_ms / 1000, patience_s / 50))

    def is_wanted(self, topic: str) -> bool:
        """Whether a topic is subscribed or assigned, or this member assigns it as the group's leader."""
        led = () if self._group is None else self._group.led_topics or ()
        return topic in self._choice.topics or topic in led or any(tp.topic == topic for tp in self._fetcher.states)

    def _all_partitions(self) -> list[TopicPartition]:
        """The partitions of the subscribed topics; of topics that the metadata lack, those that are assigned."""
        self._matched = self._matching() if self._choice.pattern else []
        states, names = self._fetcher.states, self._matched or self._choice.topics
        found: dict[str, list[TopicPartition]] = {name: [] for name in names}
        for tp in states:
            if tp.topic in found:
                found[tp.topic].append(tp)
        for name in found.keys() & (topics := self._cluster.metadata.topics).keys():
            found[name] = [TopicPartition(name, one.index) for one in topics[name].partitions]
        return [tp for some in found.values() for tp in some]

    def _read(self, partitions: Sequence[TopicPartition]) -> None:
        self._fetcher.missing = self._cluster.metadata.nonexistent(self._choice.topics)
        if self._cluster.topics is not None:
            self._cluster.topics |= {tp.topic: None for tp in partitions}
        if list(self._fetcher.states) != list(partitions):
            self._fetcher.assign(partitions)
        self._follow_topics(held=False)
        self._wake()

    def _follow_topics(self, *, held: bool) -> None:
        for name in self._fetcher.follow(self._cluster.metadata.topics, held=held):
            _logger.warning("topic was deleted and made anew, its positions are given up: %s", name)

    # The `Member` interface.

    @property
    def group_pattern(self) -> str | None:
        """The expression that the coordinator matches (`Member.group_pattern`)."""
        return self._choice.group_pattern

    def fail(self, error: KafkaError) -> None:
        """Make a request of the application raise an error, unless the group is left before (`Member.fail`)."""
        group = self._group
        self._failures.add(error, group, lambda: self._group is group is not None)

    async def subscribed_topics(self) -> Sequence[str]:
        """The names of subscribed topics (`Member`). Raises the KafkaError of one that cannot exist.

        Without a group, also of one that this client may not see.
        """
        in_group = self._options.group_id is not None
        if self._choice.pattern is not None or self.group_pattern is not None:
            self._cluster.topics = None
        elif self._cluster.topics is not None:
            self._cluster.topics |= dict.fromkeys(self._choice.topics)
        await self._cluster.refresh()
        for name in self._choice.topics:
            error = self._cluster.metadata.errors.get(name)
            if error is None or error.retriable or (in_group and isinstance(error, TopicAuthorizationFailedError)):
                continue
            raise error
        if in_group:
            for name in self._cluster.metadata.nonexistent(self._choice.topics):
                if name not in self._told_missing:
                    _logger.warning("subscribed topic does not exist: %s", name)
            self._told_missing = self._cluster.metadata.nonexistent(self._choice.topics)
        self._matched = self._matching() if self._choice.pattern else []
        return self._matched if self._choice.pattern else self._choice.topics

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """The number of partitions of each topic that exists (`Member.partition_counts`)."""
        if self._cluster.topics is not None and any(name not in self._cluster.topics for name in topics):
            self._cluster.topics |= dict.fromkeys(topics)
            await self._cluster.refresh()
        self._seen = self._counts(topics)
        return self._seen

    @property
    def called_in_polls(self) -> bool:
        """Whether there is a listener, whose calls the application makes (`Member.called_in_polls`)."""
        return self._choice.listener is not None

    def announced(self) -> None:
        """Make the application run a pending call before its next record (`Member.announced`)."""
        self._fetcher.put_back()
        self._arrived()

    async def polled(self) -> None:
        """Handle a request for records: mark earlier records as processed, and make pending calls of the listener.

        Raises the listener's error. After cancellation, the next request makes the call again.
        """
        self._fetcher.left = {}
        group = self._group
        if group is not None:
            await group.polled()
        while group is not None and group.pending is not None and not group.pending.done.is_set():
            self._fetcher.put_back()
            self._fetcher.mark_processed()
            await group.pending.run()
        self._owners.requested(group, self._fetcher.states)

    async def partitions_revoked(self, partitions: Sequence[TopicPartition], *, lost: bool) -> None:
        """Commit, call the listener, and give up partitions, even if the listener raises (`Member`)."""
        if self._options.enable_auto_commit and not lost:
            await self._auto_commits.commit_before_losing(partitions, self._group, processed_only=True)
        try:
            if self._choice.listener is not None:
                await self._notify_revoked(self._choice.listener, partitions, lost=lost, settled_only=True)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException:
            self._give_up(partitions)
            raise
        self._give_up(partitions)

    async def _notify_revoked(
        self, listener: Listener, partitions: Sequence[TopicPartition], *, lost: bool, settled_only: bool
    ) -> None:
        self.settled_only = settled_only
        try:
            await (listener.on_partitions_lost if lost else listener.on_partitions_revoked)(partitions)
        finally:
            self.settled_only = False

    def _give_up(self, partitions: Sequence[TopicPartition]) -> None:
        if self.is_requested:
            self._fetcher.assign([tp for tp in self._fetcher.states if tp not in partitions])
        else:
            self._fetcher.give_up(partitions)
        self._owners.has_given_up = True

    async def partitions_assigned(self, added: Sequence[TopicPartition], everything: Sequence[TopicPartition]) -> None:
        """Consume the whole assignment, and call the listener about the added partitions (`Member`)."""
        group = self._group
        if group is None:  # `close` has begun and has cancelled this task, which ends at its next wait.
            return
        self._owners.assigned(group, everything, self._fetcher.states)
        self._read(everything)
        if self._choice.listener is not None:
            with self._owners.telling(group, added):
                await self._choice.listener.on_partitions_assigned(added)
        self._rejoin_if_changed(group)
        self._wake()

    def epoch_changed(self, before: tuple[int, str], now: tuple[int, str]) -> None:
        """Use the new generation or epoch for commits of kept partitions (`Member.epoch_changed`)."""
        self._owners.epoch_changed(before, now, self._fetcher.states)

    # Commits.

    async def commit_periodically(self) -> None:
        """Commit processed records every auto_commit_interval_ms, until cancelled."""
        await self._auto_commits.run(lambda: self._group)

    def group_metadata(self, group_id: str) -> GroupMetadata:
        """The membership in which the last records were returned; without a subscription only the group id."""
        if self._group is None:
            return GroupMetadata(group_id)
        generation, member_id = self._owners.polled_with or self._group.member
        return GroupMetadata(group_id, generation, member_id, self._options.group_instance_id)

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None) -> None:
        """Commit the given offsets, or the positions (None). Raises the errors of `OffsetCommits.commit`."""
        if offsets is not None:
            left = {tp: one for tp, one in offsets.items() if tp in self._fetcher.left}
            await self._commits.commit_apart(left, offsets, self._group, of_positions=False)
            return
        positions = self._fetcher.positions(processed_only=self.settled_only)
        left_positions = {} if self.settled_only else self._fetcher.left_positions()
        await self._commits.commit_apart(left_positions, positions, self._group, of_positions=True)
