"""The consumer's background task: sends Fetch requests to leaders, one per broker at a time.

Fetches use separate connections, as a broker may delay each for `fetch_max_wait_ms`. `fetch_state.py` decides which
partitions to fetch, and keeps the records received; `missing_offsets.py` finds the offsets at which to start.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import missing_topics
from minikafka.client.connections.connection import Connection
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.connections.waits import PATIENCE_S, Awaited, listed
from minikafka.client.consumer.failures import Failures
from minikafka.client.consumer.fetch_session import FetchSession
from minikafka.client.consumer.fetch_state import NO_RESET, Fetcher, PartitionFailure, PendingFetch
from minikafka.client.consumer.missing_offsets import MissingOffsets
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.consumer.position_validation import LogTruncationError, validate
from minikafka.client.escaped_log import escaped
from minikafka.client.metrics import Distribution
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    CorruptMessageError,
    KafkaError,
    OffsetOutOfRangeError,
    error_for,
)
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_PURPOSE = "fetch"
_TURN_S = 0.01
"""How long a loop over buffered records may keep other tasks from running."""
_VERSION_WITH_SESSIONS, _VERSION_WITH_IDS = 7, 13
_VAIN_MAX = 2
"""How many responses in a row may come early and bring nothing, before further requests are sent after a backoff."""


class FetchLoop:
    """Sends the requests that a `Fetcher` plans, and passes it the responses.

    Attributes:
        polled_at: when the application requested records last, on the event loop's clock; infinite while it waits.
    """

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        tasks: TaskGroup,
        failures: Failures,
        seams: Seams,
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._tasks = tasks
        self._failures = failures
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)
        self.polled_at = float("inf")
        self._yielded: object = None
        self._requests = 0
        self._wake = anyio.Event()
        self._arrival = anyio.Event()
        self._in_flight: dict[int, float] = {}
        """By node, when the Fetch request in flight was sent, on the event loop's clock."""
        self._in_vain: dict[int, int] = {}
        """By node, how many responses in a row came early and brought nothing."""
        self._connecting: dict[int, None] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._missing = MissingOffsets(cluster, fetcher, options, tasks, self._backoff, failures, self._changed)
        self._validating: dict[int, None] = {}
        """The leaders with whose logs positions are being compared."""
        self.fetches = 0
        self.latencies_ms = Distribution()
        """The latencies of fetches that were answered."""
        self._missing_partitions: dict[TopicPartition, float] = {}
        self._unavailable_since: float | None = None
        """Since when requested records cannot be fetched, on the event loop's clock; None if they can."""

    def close_sessions(self) -> None:
        """Ask the brokers, which keep a limited number of fetch sessions, to close these; do not wait for responses."""
        deadline = anyio.current_time() + self._options.request_timeout_ms / 1000
        for node_id, session in self._sessions.items():
            connection = self._cluster.connected(node_id) or self._cluster.connected(node_id, _PURPOSE)
            request = session.closing()
            if connection is not None and request is not None:
                connection.post(request, lambda reply: None, deadline=deadline)

    def begin_request(self) -> bool:
        """Note that the application requests records; return True."""
        self._requests += 1
        self.polled_at = float("inf")
        return True

    def end_request(self) -> bool:
        """Note the end of a request; return whether another one goes on, as beside one that was cancelled."""
        self._requests -= 1
        if not self._requests:
            self.polled_at = anyio.current_time()
        return self._requests > 0

    def wake(self) -> None:
        """Make the task look for partitions to fetch now."""
        self._wake.set()

    def arrived(self) -> None:
        """Wake up the tasks that wait in `arrival`."""
        self._arrival.set()

    def is_poll_overdue(self) -> bool:
        """Whether the application has requested no records for max_poll_interval_ms, also none that are buffered."""
        now, yielded = anyio.current_time(), self._fetcher.yielded()
        if yielded != self._yielded:
            self._yielded, self.polled_at = yielded, max(self.polled_at, now)
        return now - self.polled_at > self._options.max_poll_interval_ms / 1000

    def request_due_at(self) -> float:
        """When a loop over buffered records should make a request, so that other tasks run meanwhile."""
        return self.polled_at + _TURN_S

    def _changed(self) -> None:
        self.arrived()
        self.wake()

    def unavailable(self) -> Awaited | None:
        """The wait for requested records that cannot be fetched, for `Waits`; None if there are just no new records."""
        now = anyio.current_time()
        if now - self.polled_at > PATIENCE_S:
            self._cluster.waits.end(self.unavailable)
            self._unavailable_since = None
            return None
        stuck: dict[TopicPartition | str, str] = {name: str(missing_topics([name])) for name in self._fetcher.missing}
        for tp, state in self._fetcher.states.items():
            is_looked_for = state.fetch_offset is None and not state.resets
            if not (state.paused or state.buffered or is_looked_for):
                why = self._why_stuck(state, now)
                stuck |= {} if why is None else {tp: why}
        nothing = self._fetcher.why_nothing
        self._unavailable_since = None if not nothing and not stuck else self._unavailable_since or now
        if self._unavailable_since is None:
            return None
        if nothing:
            return Awaited("records", nothing, self._unavailable_since)
        why = self._cluster.why(next(filter(None, stuck.values()), None))
        return Awaited(f"records of {listed(map(str, stuck))}", why, self._unavailable_since)

    def _why_stuck(self, state: PartitionState, now: float) -> str | None:
        """Why a partition's records do not arrive: "" if its broker cannot be reached; None if it may have none."""
        metadata = self._cluster.metadata
        replica = state.preferred_replica
        node_id = replica if replica >= 0 else metadata.leader(*state.tp)
        if node_id < 0:
            return str(metadata.missing(*state.tp) or f"{state.tp} has no leader")
        if self._cluster.connected(node_id, _PURPOSE) is None:
            return ""
        if state.ends_early:
            return f"{state.tp} {state.shortened}"
        silent_s = now - self._in_flight.get(node_id, now)
        if silent_s > self._options.fetch_max_wait_ms / 1000 + 1:
            return f"broker {node_id} does not answer"
        return state.trouble or None

    async def arrival(self) -> None:
        """Wait until a response has arrived or an error has occurred."""
        if self._arrival.is_set():
            self._arrival = anyio.Event()
        await self._arrival.wait()

    async def run(self) -> None:
        """Plan and send fetches, look up missing offsets and validate positions, until cancelled."""
        while True:
            self._wake = anyio.Event()
            self._missing.look()
            now = anyio.current_time()
            metadata = self._cluster.metadata
            for leader in [one for one in self._unvalidated() if one not in self._validating]:
                self._validating[leader] = None
                self._tasks.start_soon(self._validate_positions, leader)
            for node_id, partitions in self._fetcher.plan(now, self._leader, metadata.leader_epoch).items():
                self._fetch(node_id, partitions)
            waiting = [one.not_before for one in self._fetcher.states.values() if one.not_before > now]
            waiting += self._missing.next_times()
            if not waiting:
                await self._wake.wait()
                continue
            with anyio.move_on_at(min(waiting)):
                await self._wake.wait()

    def _leader(self, topic: str, partition: int) -> int:
        """The node id of a leader; -1 if unknown, or of an earlier epoch than the batch at the position (KIP-320)."""
        metadata, state = self._cluster.metadata, self._fetcher.states[TopicPartition(topic, partition)]
        metadata.learn_epoch(topic, partition, state.fetch_epoch)
        leader = metadata.leader(topic, partition)
        self._report_missing_partition(state.tp)
        if leader < 0:
            if self._cluster.topics is not None:
                self._cluster.topics[topic] = None
            self._cluster.refresh_soon()
        return leader

    def _fetch(self, node_id: int, partitions: list[tuple[PartitionState, int]]) -> None:
        if node_id in self._in_flight:
            return
        connection = self._cluster.connected(node_id, _PURPOSE)
        if connection is None:
            if self._cluster.is_unreachable(node_id) or node_id not in self._cluster.metadata.brokers:
                self._cluster.refresh_soon()
                for state, _ in partitions:
                    state.preferred_replica = -1
            if node_id not in self._connecting:
                self._connecting[node_id] = None
                self._tasks.start_soon(self._connect, node_id)
            return
        try:
            self._post(node_id, connection, partitions)
        except KafkaError as error:
            eras = [(state, state.era) for state, _ in partitions]
            self._failures.add(error, node_id, lambda: any(state.era == era for state, era in eras))

    def _post(
        self, node_id: int, connection: Connection, partitions: list[tuple[PartitionState, int]]
    ) -> None:
        version = connection.version_for(FetchRequest)
        session = self._sessions.get(node_id)
        if session is None or version < _VERSION_WITH_SESSIONS:
            session = self._sessions[node_id] = FetchSession(self._options.max_partition_fetch_bytes)
        by_id = version >= _VERSION_WITH_IDS
        now = anyio.current_time()
        topic_ids = self._cluster.metadata.topic_id if by_id else None
        fetch = self._fetcher.request(session, partitions, topic_ids, idle_ms=max(now - self.polled_at, 0) * 1000)
        deadline = now + self._options.request_timeout_ms / 1000
        self._in_flight[node_id] = now
        self.fetches += 1
        try:
            connection.post(
                fetch.request,
                lambda reply: self._on_response(node_id, fetch, reply, deadline),
                deadline=deadline,
                highest=version,
            )
        except BaseException:
            self._in_flight.pop(node_id, None)
            self._fetcher.completed(fetch)
            session.reset()
            raise

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id, _PURPOSE)
        except BrokerNotAvailableError:  # known at once, and until metadata name other leaders
            self._cluster.refresh_soon()
            await anyio.sleep(self._backoff.delay_ms(0) / 1000)
        except KafkaError:
            self._cluster.refresh_soon()
        finally:
            del self._connecting[node_id]
        self.wake()

    def _on_response(self, node_id: int, fetch: PendingFetch, reply: Any, deadline: float) -> None:
        self._in_flight.pop(node_id, None)
        took_ms = (anyio.current_time() - deadline) * 1000 + self._options.request_timeout_ms
        self.latencies_ms.add(took_ms)
        self._fetcher.completed(fetch)
        if isinstance(reply, KafkaError):
            fetch.session.reset()
            self._fail_all(fetch, reply)
        elif not reply.error_code:
            fetch.session.answered(reply)
            is_early = fetch.request.min_bytes > 0 and took_ms < fetch.request.max_wait_ms / 2
            if self._accept(fetch, reply) or not is_early:
                self._in_vain.pop(node_id, None)
            else:
                self._answered_in_vain(node_id, fetch)
        elif not fetch.session.refused(reply.error_code):
            error = error_for(reply.error_code)
            self._fail_all(fetch, error_for(reply.error_code, f"fetching from broker {node_id} failed: {error}"))
        self._changed()

    def _fail_all(self, fetch: PendingFetch, error: KafkaError) -> None:
        for state, era in fetch.requested.values():
            if state.era == era:
                self._handle_failure(PartitionFailure(state, error))

    def _accept(self, fetch: PendingFetch, reply: Any) -> bool:
        """Apply a response; return whether it has brought anything: records, an error, or a replica to fetch from."""
        before, is_of_use = len(self._fetcher.chunks), False
        names = fetch.session.names() if reply.responses else {}
        for topic in reply.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                failure = self._fetcher.accept(fetch, tp, data)
                is_of_use |= failure is not None or data.preferred_read_replica >= 0
                if data.preferred_read_replica >= 0 and (state := self._fetcher.states.get(tp)) is not None:
                    state.preferred_replica = data.preferred_read_replica
                    state.preferred_until = anyio.current_time() + self._options.metadata_max_age_ms / 1000
                if failure is not None:
                    endpoints = reply.node_endpoints
                    learn = self._cluster.metadata.learn
                    moved = learn(name, data.partition_index, data.current_leader, endpoints)
                    self._handle_failure(failure, pause=not moved)
        return is_of_use or len(self._fetcher.chunks) > before

    def _answered_in_vain(self, node_id: int, fetch: PendingFetch) -> None:
        """Count an early response without content; after `_VAIN_MAX` in a row, delay the broker's next fetch."""
        count = self._in_vain[node_id] = self._in_vain.get(node_id, 0) + 1
        if count <= _VAIN_MAX:
            return
        until = anyio.current_time() + self._backoff.delay_ms(count - _VAIN_MAX - 1) / 1000
        for state, era in fetch.requested.values():
            if state.era == era and state.fetch_offset is not None:
                state.not_before = max(state.not_before, until)
                if state.fetch_offset < self._fetcher.readable_end(state):
                    where = f"{state.tp} from offset {state.fetch_offset} on"
                    state.trouble = f"broker {node_id} answers without the records of {where}"

    def _handle_failure(self, failure: PartitionFailure, *, pause: bool = True) -> None:
        state, error = failure
        from_follower, state.preferred_replica = state.preferred_replica >= 0, -1
        state.trouble = str(error)
        state.not_before = anyio.current_time() + (self._backoff.delay_ms(0) / 1000 if pause else 0)
        if isinstance(error, OffsetOutOfRangeError) and from_follower:
            return
        if isinstance(error, OffsetOutOfRangeError):
            self._handle_out_of_range(state)
        elif error.retriable and not isinstance(error, CorruptMessageError):
            self._cluster.refresh_soon()
        else:
            state.not_before += 1
            self._failures.of_topic(state, error)

    def _handle_out_of_range(self, state: PartitionState) -> None:
        """Handle an offset out of range: return the records fetched before first, then fetch the offset again.

        With `auto_offset_reset="none"`, the offset is fetched again after the error was raised, until a seek.
        """
        offset, reset = state.fetch_offset, self._options.auto_offset_reset
        if state.buffered:
            state.is_refused = True
        elif reset == NO_RESET:
            again_at, state.not_before = state.not_before, float("inf")
            fetch_again = partial(setattr, state, "not_before", again_at)
            self._failures.of_position(state, _out_of_range(state.tp, offset), fetch_again)
        else:
            state.move(None)
            state.reset, state.reset_from = reset, offset
            state.resets += 1
            if state.resets > 1:
                state.not_before = anyio.current_time() + self._backoff.delay_ms(state.resets - 2) / 1000

    def _unvalidated(self) -> dict[int, list[PartitionState]]:
        """By leader, the partitions whose positions must be compared with the leader's log."""
        found: dict[int, list[PartitionState]] = {}
        for state in self._fetcher.unvalidated(self._cluster.metadata.leader_epoch):
            found.setdefault(self._cluster.metadata.leader(*state.tp), []).append(state)
        found.pop(-1, None)
        return found

    async def _validate_positions(self, leader: int) -> None:
        """Compare positions with the log of a new leader. Each leader has its own task, so none delays another."""
        what = f"comparing positions with the log of broker {leader}"
        try:
            while leader in self._unvalidated():
                await self._cluster.retry(partial(self._validate, leader), what)
        except KafkaError as error:
            if isinstance(error, LogTruncationError):
                self._failures.of_position(self._fetcher.states[error.partition], error)
            elif not error.retriable:
                self._failures.of_positions(self._unvalidated().get(leader, []), error)
            await anyio.sleep(self._backoff.delay_ms(5) / 1000)
        finally:
            del self._validating[leader]
        self._changed()

    async def _validate(self, leader: int) -> None:
        if states := self._unvalidated().get(leader):
            await validate(self._cluster, self._fetcher, leader, states, self._options.auto_offset_reset)

    def _report_missing_partition(self, tp: TopicPartition) -> None:
        """Make requests raise, at intervals of `default_api_timeout_ms`, that an assigned partition does not exist."""
        now, error = anyio.current_time(), self._cluster.metadata.missing(*tp)
        if error is None:
            self._missing_partitions.pop(tp, None)
        elif now - self._missing_partitions.setdefault(tp, now) >= self._options.default_api_timeout_ms / 1000:
            self._missing_partitions[tp] = now
            self._failures.add(error, tp, partial(self._is_missing, tp))

    def _is_missing(self, tp: TopicPartition) -> bool:
        return tp in self._fetcher.states and self._cluster.metadata.missing(*tp) is not None


def _out_of_range(tp: TopicPartition, offset: int | None) -> KafkaError:
    return OffsetOutOfRangeError(
        f"offset {offset} of {tp} is out of range, and auto_offset_reset is 'none';"
        " seek to an existing offset (see beginning_offsets and end_offsets), or set auto_offset_reset"
    )
