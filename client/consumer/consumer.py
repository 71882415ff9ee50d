"""The consumer's public class: subscription, positions, commits and the iteration over records.

    async with Consumer("flights", group_id="delays", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.offset, record.key, record.value)

Records are fetched ahead in the background (`background_fetch.py`). A record counts as processed when the next one is
requested; automatic commits include processed records only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

import anyio
from anyio.abc import TaskGroup

from minikafka.client.argument_checks import checks_arguments, read_argument
from minikafka.client.argument_kinds import (
    TOPIC_NAME,
    Natural,
    PartitionArgument,
    Positive,
    TimeoutMs,
    Timestamp,
    TopicName,
    one_of_several,
)
from minikafka.client.arguments import ConsumerArguments
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.background_fetch import FetchLoop
from minikafka.client.consumer.consumer_metrics import measure_fetching, measure_membership, measure_polls
from minikafka.client.consumer.failures import Failures
from minikafka.client.consumer.fetch_state import READ_COMMITTED, Fetcher
from minikafka.client.consumer.interception import on_consume
from minikafka.client.consumer.iteration import Iterations
from minikafka.client.consumer.listener import Listener
from minikafka.client.consumer.one_reader import OneReader
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.consumer.subscription import Subscriptions
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.client.metrics import Distribution, Readings
from minikafka.client.mixups import IteratedWithoutAsync, check_milliseconds
from minikafka.client.offset_queries import EARLIEST, LATEST, committed_offsets, list_offsets
from minikafka.client.offsets import OffsetAndMetadata, OffsetAndTimestamp
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.options import ConsumerOptions, make
from minikafka.client.records import ConsumerRecord, RecordBatch
from minikafka.protocol.errors import KafkaError, RequestTimedOutError
from minikafka.protocol.names import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
_CLOSE_TIMEOUT_S, _LAST_COMMIT_TIMEOUT_MS = 5, 4_000  # The remaining second is for leaving the group.
_LOOK_FOR_END_S = 0.1
"""How often a wait with `stop_at` checks whether the group's assignment is known; other events wake it at once."""


@checks_arguments()
class Consumer(IteratedWithoutAsync, ClusterClient):
    """Consumes records from Kafka.

    Args:
        topics: topics to subscribe to. With `group_id` the group's members share their partitions; without, this
            consumer reads all of them.
        bootstrap_servers: "host1:9092,host2:9092", or a list of such addresses.
        options: Kafka's consumer settings with underscores, each described in `ConsumerArguments`: group_id,
            auto_offset_reset, enable_auto_commit, key_deserializer, value_deserializer … Kafka does not have
            stop_at="end": iterations end at the end offsets that the partitions had when they were assigned.
        seams: clock, randomness and network, for tests.

    Raises InvalidOption, and on entering NetworkError if no broker can be reached.

    Only one task may iterate over a consumer or poll it at a time; a second one is refused with a RuntimeError.

    Cancellation. Every wait can be cancelled; a record that was not returned does not count as consumed. With
    enable_auto_commit, leaving the block normally commits all records returned; leaving it by an exception or
    by cancellation commits only processed records. Both leave the group at once. An iterator goes on after a request
    for the next record that was cancelled, or that raised an error.
    """

    _metrics_kind = "consumer"

    def __init__(
        self,
        *topics: TopicName,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        seams: Seams | None = None,
        **options: Unpack[ConsumerArguments],
    ) -> None:
        self._options = make(ConsumerOptions, {**options, "bootstrap_servers": bootstrap_servers}, "Consumer")
        super().__init__(self._options, seams)
        self._fetcher = Fetcher(self._options)
        kind = one_of_several(TOPIC_NAME)
        self._topics = [read_argument("Consumer", f"topics[{at}]", kind, one) for at, one in enumerate(topics)]
        self._reader = OneReader()
        self._iterations = Iterations(
            self._fetcher,
            self._options.interceptors,
            self._mark_processed,
            self._wait_for,
            lambda: self._loop.request_due_at() if self._loop is not None else 0,
            lambda: self._open_loop().wake(),
        )
        self._failures = Failures(self._arrived)
        self._has_raised = False
        self._records_first = False
        """Whether records are returned before errors, so that a repeated error does not hold up other partitions."""
        self._polls_ms = Distribution()
        """The times between two consecutive requests for records."""
        self._loop: FetchLoop | None = None
        self._subscriptions: Subscriptions | None = None

    # Subscription and assignment.

    def assign(self, partitions: Iterable[PartitionArgument]) -> None:
        """Consume exactly these partitions, without group management; replaces the previous assignment.

        Consumption starts at the group's committed offsets if there are any, else as `auto_offset_reset` says.
        Raises RuntimeError while subscribed, and before an `unsubscribe` of another task has ended.
        """
        self._open_subscriptions().assign([TopicPartition(*one) for one in partitions])

    async def subscribe(
        self, topics: Iterable[TopicName] = (), *, pattern: str | None = None, listener: Listener | None = None
    ) -> None:
        """Subscribe to topics by name, or to all topics whose whole name matches `pattern`.

        The group's members share the partitions; without group_id this consumer reads all of them. `listener` is
        notified of assigned and revoked partitions. With group_protocol="consumer" `pattern` is an RE2 expression that
        the coordinator matches; otherwise it is a regular expression of Python's `re`.

        Raises ValueError without topics and pattern, with both, and for an invalid pattern; TypeError if `topics` is a
        single string; RuntimeError before an `unsubscribe` of another task has ended. Without group_id, raises
        UnknownTopicOrPartitionError if a topic is missing for 5 s; the earlier choice stays, also after cancellation.
        """
        await self._open_subscriptions().subscribe(list(topics), pattern, listener)

    async def unsubscribe(self) -> None:
        """Stop consuming, and leave the group, even if this raises an error of the listener or is cancelled."""
        await self._open_subscriptions().unsubscribe()

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are currently assigned."""
        return list(self._fetcher.states)

    def pause(self, *partitions: PartitionArgument) -> None:
        """Return no records of these partitions (default: all) until `resume`; keeps positions and buffers."""
        for tp in partitions or self.assignment():
            self._state(tp)
            self._fetcher.pause(TopicPartition(*tp))

    def resume(self, *partitions: PartitionArgument) -> None:
        """Return records of these partitions (default: all) again."""
        for tp in partitions or self.assignment():
            self._state(tp).paused = False
        self._open_loop().wake()

    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return [tp for tp, state in self._fetcher.states.items() if state.paused]

    # Positions and offsets.

    def seek(self, partition: PartitionArgument, offset: Natural) -> None:
        """Continue from this offset. Raises ValueError if it is negative or the partition is not assigned."""
        self._state(partition)
        self._fetcher.seek(TopicPartition(*partition), offset)
        self._open_loop().wake()

    def seek_to_beginning(self, *partitions: PartitionArgument) -> None:
        """Continue from the first offset of these partitions (default: all). Raises ValueError if none is assigned."""
        self._seek_to("earliest", self._chosen("seek_to_beginning()", partitions))

    def seek_to_end(self, *partitions: PartitionArgument) -> None:
        """Continue from the end of these partitions (default: all). Raises as `seek_to_beginning`."""
        self._seek_to("latest", self._chosen("seek_to_end()", partitions))

    async def seek_to_time(self, timestamp_ms: Timestamp, *partitions: PartitionArgument) -> None:
        """Continue from the first record at or after a time (ms since 1970), or from the end if there is none."""
        chosen = self._chosen("seek_to_time()", partitions)
        found = await self.offsets_for_times(dict.fromkeys(chosen, timestamp_ms))
        for tp, first in found.items():
            if first is None:
                self._seek_to("latest", [tp])
            else:
                self.seek(tp, first.offset)

    async def position(self, partition: PartitionArgument) -> int:
        """The offset after the last record returned; waits at most `default_api_timeout_ms` until it is known.

        Raises KafkaError.
        """
        state, tp = self._state(partition), TopicPartition(*partition)
        limit_ms = self._options.default_api_timeout_ms
        with anyio.move_on_after(limit_ms / 1000), self.cluster.waiting(f"the position of {tp}"):
            while state.position is None:
                self._raise_failure()
                await self._open_loop().arrival()
            return self._fetcher.positions()[tp]
        why = f"no position of {tp} within {limit_ms} ms: {self.cluster.why(None)}"
        raise self.cluster.metadata.missing(*tp) or RequestTimedOutError(why)

    def positions(self) -> dict[TopicPartition, int]:
        """Per partition, the offset after the last record that was returned; partitions without one are omitted."""
        return self._fetcher.positions()

    def group_metadata(self) -> GroupMetadata:
        """The membership with which the last records were returned, for `Producer.send_offsets_to_transaction`.

        After a rebalance the coordinator rejects their offsets (KIP-447). Raises ValueError without a group.
        """
        return self._open_subscriptions().group_metadata(self._group_id("group_metadata()"))

    async def committed(self, *partitions: PartitionArgument) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions (default: the assigned ones). Raises KafkaError."""
        group_id = self._group_id("committed()")
        return await self.cluster.retry(
            lambda: committed_offsets(
                self.cluster, group_id, self._or_assigned(partitions), require_stable=True
            ),
            f"fetching the committed offsets of group {group_id!r}",
        )

    @property
    def settled(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offset up to which each assigned partition has been processed, in the form that `commit` takes.

        A request for a record, a batch or a list settles all records returned before; `commit(record)` settles that
        record. Each offset has the leader epoch of the record before it (-1 if unknown). Before the first record, the
        offset is where the partition began or the last seek went; partitions without a known position are omitted.
        Partitions that were lost since the last request for records are included if they are not committed.
        Automatic commits, and `commit()` in a `Listener`, commit these offsets.
        """
        offsets = self._fetcher.positions(processed_only=True)
        states = self._fetcher.states
        found = {tp: OffsetAndMetadata(one, "", states[tp].epoch_before(one)) for tp, one in offsets.items()}
        left = self._fetcher.left_positions(processed_only=True)
        return found | {tp: OffsetAndMetadata(one) for tp, one in left.items()}

    async def commit(
        self, offsets: ConsumerRecord | Mapping[TopicPartition, Natural | OffsetAndMetadata] | None = None
    ) -> None:
        """Commit offsets for the group; by default the positions of all partitions.

        Args:
            offsets: the next offset to read of each partition, such as `settled`. Or a record: the offset after it is
                committed, with its leader epoch if the partition is still assigned and was not sought since. The record
                counts as settled at once, even if the commit then fails or is cancelled.

        In a `Listener`, the default is `settled`. Offsets are committed for the generation of the group in which their
        partition's records were returned. A partition that fails does not keep others from being committed. Retriable
        errors are retried with the offset that was committed last for the partition. Deleted partitions are left out by
        default, with a warning; in `offsets` they raise UnknownTopicOrPartitionError. After a lost connection a request
        is sent again; the coordinator may carry out the first one late, after a later commit, as with Kafka's client.
        After cancellation, the offsets may or may not be committed. Positions of partitions that were lost since the
        last request for records are committed as well, if that is still allowed.

        Raises the KafkaError of the first partition that failed: RebalanceInProgressError, IllegalGenerationError and
        UnknownMemberIdError mean that the partitions may belong to other members now.
        """
        self._group_id("commit()")
        if isinstance(offsets, ConsumerRecord):
            tp = TopicPartition(offsets.topic, offsets.partition)
            self._fetcher.settle(tp, offsets.offset + 1)
            offsets = {tp: offsets.offset + 1}
        await self._open_subscriptions().commit(offsets)

    async def beginning_offsets(self, partitions: Iterable[PartitionArgument]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Iterable[PartitionArgument]) -> dict[TopicPartition, int]:
        """The end offset of each partition: the high watermark, or the last stable offset with read_committed."""
        return await self._ends(partitions, LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, Timestamp]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (ms since 1970); None if there is none."""
        found = await self._list_offsets(times)
        return {tp: one if one.offset >= 0 else None for tp, one in found.items()}

    def lag(self, partition: PartitionArgument) -> int | None:
        """The difference between end offset and position at the last fetch; None before the first fetch."""
        state = self._state(partition)
        end = state.last_stable_offset if self._stable else state.high_watermark
        if end < 0 or state.position is None:
            return None
        return max(end - self._fetcher.positions()[TopicPartition(*partition)], 0)

    # Records.

    def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        many = self._iterations
        return self._reader.iterates(many.intercepted if self._options.interceptors else many.records)

    def batches(self) -> AsyncIterator[RecordBatch]:
        """Iterate over batches of records of one partition each; a batch counts as processed at the next request."""
        return self._reader.iterates(self._iterations.batches)

    def arrow_batches(self, columns: Sequence[str] | None = None) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over batches like `batches`, but as Arrow record batches, without creating an object per record.

        Args:
            columns: a selection of key, value, topic, partition, offset, timestamp, timestampType and headers
                (see `minikafka.client.consumer.arrow_batches`); by default all. Deserializers are not applied.

        Raises ModuleNotFoundError without the extra `arrow`, ValueError for unknown columns, KafkaError, and
        TimestampOverflow for a timestamp that does not fit Arrow's microseconds.
        """
        return self._reader.iterates(partial(self._iterations.arrow_batches, columns))

    async def poll(self, timeout_ms: TimeoutMs = 0, max_records: Positive | None = None) -> list[ConsumerRecord]:
        """Buffered records, at most `max_records` (default: max_poll_records); waits up to `timeout_ms` for one.

        The records of the previous poll count as processed. A listener's callbacks are called here, and are not limited
        by the timeout. At the end of `stop_at`, an empty list is returned at once. Raises KafkaError, errors of the
        callbacks, and RuntimeError while another task reads.
        """
        self._reader.check()
        check_milliseconds(timeout_ms)
        limit = self._options.max_poll_records if max_records is None else max_records
        self._mark_processed()
        records: list[ConsumerRecord] = []
        await self._look_for(self._fetcher.readable_chunk, anyio.current_time() + timeout_ms / 1000)
        while len(records) < limit and (some := self._take(limit - len(records))):
            records += some
        if not records:
            self._raise_failure()
        self._open_loop().wake()
        return on_consume(self._iterations.interceptors_of_polls, records)

    def _take(self, limit: int) -> list[ConsumerRecord]:
        return self._fetcher.take(limit) if self._attempt(self._fetcher.readable_chunk) else []

    def _mark_processed(self) -> None:
        """Mark all returned records as processed. Raises RuntimeError if another task waits for records."""
        self._reader.check_waiting()
        self._fetcher.mark_processed()

    def at_end(self) -> bool:
        """Whether all records up to the `stop_at` ends of the assigned partitions were returned."""
        return self._fetcher.at_end() and self._open_subscriptions().is_settled()

    async def _wait_for(self, look: Callable[[], T | None]) -> T | None:
        """Wait until `look` returns a value other than None, or for the end of `stop_at` (None). Raises KafkaError."""
        return await self._look_for(look, float("inf"))

    async def _look_for(self, look: Callable[[], T | None], deadline: float) -> T | None:
        """Like `_wait_for`, but return None after a deadline on the event loop's clock; call the listener first."""
        self._reader.check_waiting()
        loop, subscriptions = self._open_loop(), self._open_subscriptions()
        subscriptions.is_requested = loop.begin_request()
        self._records_first, self._has_raised = self._has_raised, False
        self._polls_ms.add(max(self._polls_ms.seconds_ago(), 0) * 1000)
        loop.wake()
        self.cluster.waits.begin(loop.unavailable)
        has_end = self._options.stop_at is not None
        try:
            await self._reader.let_others_run()
            while True:
                await subscriptions.polled()
                self._open_loop()  # The consumer may have been closed meanwhile.
                found = self._attempt(look)
                if found is None:
                    self._raise_failure()
                    if ended := has_end and self.at_end():
                        subscriptions.without_partitions.tell_of_an_end()
                    wake_at = min(deadline, anyio.current_time() + _LOOK_FOR_END_S) if has_end else deadline
                    with anyio.move_on_at(float("-inf") if ended else wake_at) as wait, self._reader.waiting():
                        await loop.arrival()
                    if not wait.cancelled_caught or (has_end and not ended and anyio.current_time() < deadline):
                        continue
                return found
        finally:
            subscriptions.is_requested = loop.end_request()

    def _attempt(self, look: Callable[[], T | None]) -> T | None:
        if self._failures and not self._records_first:
            return None
        try:
            return look()
        except KafkaError as error:
            self._failures.of_position(self._fetcher.skip(), error.with_traceback(None))  # It would keep the records.
            return None

    # Internals.

    def _measure(self, readings: Readings) -> None:
        lags = {tp: lag for tp in self.assignment() if (lag := self.lag(tp)) is not None}
        measure_fetching(readings, self._open_loop(), self._fetcher.consumed(), lags)
        measure_polls(readings, self._polls_ms)
        if self._options.group_id is not None:
            measure_membership(readings, self._open_subscriptions().counts, len(self.assignment()))

    def _state(self, tp: tuple[str, int]) -> PartitionState:
        state = self._fetcher.states.get(TopicPartition(*tp))
        if state is None:
            assigned = ", ".join(map(str, self._fetcher.states)) or "none"
            raise ValueError(f"partition {TopicPartition(*tp)} is not assigned to this consumer; assigned: {assigned}")
        return state

    def _or_assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        return [TopicPartition(*one) for one in partitions] or self.assignment()

    def _chosen(self, what: str, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """The partitions to seek in (default: all). Raises ValueError if one is not assigned, or none is."""
        chosen = self._or_assigned(partitions)
        for tp in chosen:
            self._state(tp)
        if not chosen:
            self._open_subscriptions().without_partitions.refuse(what)
        return chosen

    def _seek_to(self, reset: str, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._state(tp)
            self._fetcher.seek(tp, None, reset)
        self._open_loop().wake()

    async def _ends(self, partitions: Iterable[tuple[str, int]], which: int) -> dict[TopicPartition, int]:
        found = await self._list_offsets(dict.fromkeys((TopicPartition(*one) for one in partitions), which))
        return {tp: one.offset for tp, one in found.items()}

    async def _list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await self.cluster.retry(
            lambda: list_offsets(
                self.cluster,
                times,
                isolation_level=int(self._stable),
                timeout_ms=self._options.request_timeout_ms,
            ),
            "looking up offsets",
        )

    @property
    def _stable(self) -> bool:
        return self._options.isolation_level == READ_COMMITTED

    def _group_id(self, what: str) -> str:
        if self._options.group_id is None:
            raise ValueError(f"{what} requires a group: Consumer(group_id=…)")
        return self._options.group_id

    def _raise_failure(self) -> None:
        if (failure := self._failures.take()) is not None:
            self._has_raised = True
            raise failure

    def _arrived(self) -> None:
        assert self._loop is not None
        self._loop.arrived()

    def _open_loop(self) -> FetchLoop:
        self.cluster  # noqa: B018 (raises the error that says what to do)
        assert self._loop is not None
        return self._loop

    def _open_subscriptions(self) -> Subscriptions:
        self.cluster  # noqa: B018 (raises the error that says what to do)
        assert self._subscriptions is not None
        return self._subscriptions

    async def _start(self, tasks: TaskGroup) -> None:
        self._loop = FetchLoop(self.cluster, self._fetcher, self._options, tasks, self._failures, self._seams)
        self._subscriptions = Subscriptions(
            self.cluster,
            self._fetcher,
            self._options,
            tasks,
            self._loop.wake,
            self._loop.arrived,
            self._failures,
            self._loop.is_poll_overdue,
            self._seams,
        )
        self.cluster.on_update = self._subscriptions.updated
        self.cluster.is_wanted = self._subscriptions.is_wanted
        tasks.start_soon(self._loop.run)
        if self._options.group_id is not None and self._options.enable_auto_commit:
            tasks.start_soon(self._subscriptions.commit_periodically)
        if self._topics:
            await self.subscribe(self._topics)

    async def _stop(self, left_by: BaseException | None) -> None:
        if self._subscriptions is not None:
            with anyio.move_on_after(_CLOSE_TIMEOUT_S, shield=True) as limit:
                await self._subscriptions.close(left_by, limit=limit, commit_timeout_ms=_LAST_COMMIT_TIMEOUT_MS)
        if self._loop is not None:
            self._loop.close_sessions()
            self._loop.arrived()  # Tasks that wait for records find out that the consumer is closed.
        self._iterations.end()
