"""`MissingOffsets`: looks up missing positions and end offsets of partitions; failures do not delay other partitions.

An offset is used as soon as it is found. A failed look-up of a partition is repeated after a backoff of that partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskGroup

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import missing_patience_s, missing_topics
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.waits import Awaited, essential, listed
from minikafka.client.consumer.failures import Failures
from minikafka.client.consumer.fetch_state import NO_RESET, Fetcher
from minikafka.client.consumer.fetched_chunks import READ_COMMITTED
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.escaped_log import escaped
from minikafka.client.offset_queries import (
    EARLIEST,
    LATEST,
    committed_offsets_of_each,
    leaders_of,
    list_offsets_of_leader,
)
from minikafka.client.offsets import OffsetAndTimestamp
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_TIMES = {"earliest": EARLIEST, "latest": LATEST}
_FAILURES_FOR_GOOD = 5
"""An error that is not retriable causes at least the pause that follows this number of failures."""

Found = Callable[[PartitionState, OffsetAndTimestamp], None]


@dataclass(slots=True)
class _Search:
    """The look-up of one partition's offset. Times are on the event loop's clock.

    Attributes:
        era: the era of the partition when the search began.
        began: when the search began.
        since: when the search began, or when the application last got an error about its duration.
        is_asked: whether a request is in flight.
        not_before: when to send the next request.
    """

    era: int
    began: float
    since: float
    is_asked: bool = True
    failures: int = 0
    not_before: float = 0.0
    error: KafkaError | None = None


class _Searches:
    """The searches for offsets of one kind (positions or ends), each with its own backoff."""

    def __init__(
        self, what: str, cluster: Cluster, timeout_ms: float, backoff: Backoff, failures: Failures
    ) -> None:
        self._what = what
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._backoff = backoff
        self._failures = failures
        self._of: dict[PartitionState, _Search] = {}

    def due(self, lacking: Iterable[PartitionState]) -> dict[PartitionState, int]:
        """The partitions to request now, with their eras. They count as requested until `ended`."""
        now = anyio.current_time()
        wanted = dict.fromkeys(lacking)
        for state, one in list(self._of.items()):
            if not one.is_asked and (state not in wanted or state.era != one.era):
                del self._of[state]
        chosen: dict[PartitionState, int] = {}
        for state in wanted:
            known = self._of.get(state)
            if known is None:
                self._of[state] = _Search(state.era, now, now)
                chosen[state] = state.era
            elif not known.is_asked and known.not_before <= now:
                known.is_asked = True
                chosen[state] = state.era
        if self._of:
            self._cluster.waits.begin(self.awaited)
        else:
            self._cluster.waits.end(self.awaited)
        return chosen

    def next_times(self) -> list[float]:
        """The times at which failed look-ups are repeated, on the event loop's clock."""
        return [one.not_before for one in self._of.values() if not one.is_asked]

    def awaited(self) -> Awaited | None:
        """The wait for the offsets being looked up, with the last errors, for `Waits`; None if there are none."""
        if not self._of:
            return None
        errors = essential(str(one.error) for one in self._of.values() if one.error is not None)
        what = f"{self._what} of {listed(str(state.tp) for state in self._of)}"
        return Awaited(what, self._cluster.why(listed(errors) or None), min(one.began for one in self._of.values()))

    def ended(self, outcomes: dict[PartitionState, KafkaError | None]) -> None:
        """Note the outcomes of requests: an error, or None on success. Failed look-ups are repeated after a pause."""
        now = anyio.current_time()
        pauses: dict[int, float] = {}
        for state, error in outcomes.items():
            search = self._of[state]
            if error is None or state.era != search.era:
                del self._of[state]
                continue
            search.is_asked, search.error = False, error
            failures = search.failures if error.retriable else max(search.failures, _FAILURES_FOR_GOOD)
            search.failures += 1
            # Partitions that fail together are requested together.
            search.not_before = now + pauses.setdefault(failures, self._backoff.delay_ms(failures) / 1000)
            if not error.retriable:
                self._failures.of_topic(state, error)
            elif now - search.since >= self._timeout_ms / 1000:
                search.since = now
                what = f"{self._what} of {state.tp} did not succeed within {self._timeout_ms:.0f} ms"
                self._failures.of_position(state, type(error)(f"{what}: {self._cluster.why(error)}"))

    def unanswered(self, states: Iterable[PartitionState]) -> dict[PartitionState, KafkaError | None]:
        """The outcome RequestTimedOutError for those of `states` whose requests have had no response in time."""
        error = RequestTimedOutError(self._cluster.why(None))
        return {state: error for state in states if (one := self._of.get(state)) is not None and one.is_asked}


class MissingOffsets:
    """Looks up the start offsets of partitions without a position and, with `stop_at`, the end offsets of all.

    Args:
        failures: receives the errors that the application's next request raises.
        changed: called when an offset was found, or a look-up failed.
    """

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        tasks: TaskGroup,
        backoff: Backoff,
        failures: Failures,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._tasks = tasks
        self._failures = failures
        self._changed = changed
        limit_ms = options.default_api_timeout_ms
        self._positions = _Searches("finding start offsets", cluster, limit_ms, backoff, failures)
        self._ends = _Searches("finding end offsets", cluster, limit_ms, backoff, failures)
        self._missing_since: dict[str, float] = {}
        self._early_since: dict[PartitionState, float] = {}

    def look(self) -> None:
        """Start the look-ups that are due now."""
        self._forget_ends_that_are_gone()
        if states := self._positions.due(self._fetcher.without_position(anyio.current_time())):
            self._tasks.start_soon(self._find_positions, states)
        if states := self._ends.due(self._fetcher.without_end()):
            self._tasks.start_soon(self._list, self._ends, dict.fromkeys(states, LATEST), self._end_at)

    def next_times(self) -> list[float]:
        """When to `look` again, on the event loop's clock."""
        gone = [since + self._options.default_api_timeout_ms / 1000 for since in self._early_since.values()]
        return [*self._positions.next_times(), *self._ends.next_times(), *gone]

    def _forget_ends_that_are_gone(self) -> None:
        """Forget the stop offsets of logs that stay shorter than they were, as after an unclean election.

        They are then looked up again. A clean election also moves the end back, but only until followers have fetched
        from the new leader.
        """
        now, states = anyio.current_time(), self._fetcher.states.values()
        early = [one for one in states if one.ends_early] if self._options.stop_at is not None else []
        self._early_since = {state: self._early_since.get(state, now) for state in early}
        for state, since in list(self._early_since.items()):
            if now - since >= self._options.default_api_timeout_ms / 1000:
                _logger.warning("the log has lost records: %s %s", state.tp, state.shortened)
                state.stop_offset = None
                del self._early_since[state]

    async def _find_positions(self, states: dict[PartitionState, int]) -> None:
        self._report_missing(states)
        with anyio.move_on_after(self._options.default_api_timeout_ms / 1000) as limit:
            states = await self._use_committed(states)
        if limit.cancelled_caught:
            self._end(self._positions, self._positions.unanswered(states))
            return
        times: dict[PartitionState, int] = {}
        for state, era in states.items():
            reset = state.reset or self._reset_of(state)
            if state.era != era:
                self._end(self._positions, {state: None})
            elif reset == NO_RESET:
                state.reset = NO_RESET
                self._failures.of_position(state, _no_start_offset(state, self._options.group_id))
                self._end(self._positions, {state: None})
            else:
                times[state] = _TIMES[reset]

        def begin_at(state: PartitionState, found: OffsetAndTimestamp) -> None:
            if state.era == states[state]:
                self._warn_of_reset(state, found.offset)
                self._begin_at(state, found.offset)

        if times:
            await self._list(self._positions, times, begin_at)

    async def _use_committed(self, states: dict[PartitionState, int]) -> dict[PartitionState, int]:
        """Begin at the committed offsets; return the partitions that have none."""
        group_id = self._options.group_id
        by_commit = {state.tp: state for state in states if state.reset is None}
        if not by_commit or group_id is None:
            return states
        committed = await committed_offsets_of_each(self._cluster, group_id, by_commit, require_stable=True)
        outcomes: dict[PartitionState, KafkaError | None] = {}
        for tp, state in by_commit.items():
            if (one := committed.get(tp)) is None:
                continue
            outcomes[state] = one if isinstance(one, KafkaError) else None
            if not isinstance(one, KafkaError) and state.era == states[state]:
                self._begin_at(state, one.offset, one.leader_epoch)
        self._end(self._positions, outcomes)
        return {state: era for state, era in states.items() if state not in outcomes}

    def _warn_of_reset(self, state: PartitionState, offset: int) -> None:
        before = state.reset_from
        if before is None:
            return
        if offset < before:
            why = "the log ends before it"
        elif offset == before:
            why = "the broker refuses the offset that it names itself"
        elif state.reset == "earliest":
            why = f"the records before {offset} were deleted"
        else:
            why = f"records were deleted, and those before {offset} are skipped"
        _logger.warning(
            "offset out of range: %s, offset %d, reset to the %s, offset %d: %s",
            state.tp, before, state.reset, offset, why,
        )  # fmt: skip

    def _begin_at(self, state: PartitionState, offset: int, epoch: int = -1) -> None:
        state.move(offset, epoch)
        state.resumes_at = offset
        self._fetcher.anew.discard(state.tp)

    @staticmethod
    def _end_at(state: PartitionState, found: OffsetAndTimestamp) -> None:
        state.stop_offset = found.offset

    async def _list(self, searches: _Searches, times: dict[PartitionState, int], use: Found) -> None:
        """Look up offsets at the leaders, each in a task of its own; `use` is called for each offset found."""
        states = {state.tp: state for state in times}
        wanted = {state.tp: time for state, time in times.items()}
        with anyio.move_on_after(self._options.default_api_timeout_ms / 1000) as limit:
            try:
                by_leader, errors = await leaders_of(self._cluster, wanted)
            except KafkaError as error:
                by_leader, errors = {}, dict.fromkeys(wanted, error)
        if limit.cancelled_caught:
            self._end(searches, searches.unanswered(times))
            return
        self._end(searches, {states[tp]: error for tp, error in errors.items()})
        for leader, some in by_leader.items():
            asked = {states[tp]: time for tp, time in some.items()}
            self._tasks.start_soon(self._list_of_leader, searches, leader, asked, use)

    async def _list_of_leader(
        self, searches: _Searches, leader: int, times: dict[PartitionState, int], use: Found
    ) -> None:
        stable = self._options.isolation_level == READ_COMMITTED
        wanted = {state.tp: time for state, time in times.items()}
        with anyio.move_on_after(self._options.default_api_timeout_ms / 1000) as limit:
            found = await list_offsets_of_leader(
                self._cluster,
                leader,
                wanted,
                isolation_level=int(stable),
                timeout_ms=self._options.request_timeout_ms,
            )
        if limit.cancelled_caught:
            self._end(searches, searches.unanswered(times))
            return
        outcomes: dict[PartitionState, KafkaError | None] = {}
        for state in times:
            one = found[state.tp]
            outcomes[state] = one if isinstance(one, KafkaError) else None
            if not isinstance(one, KafkaError):
                use(state, one)
        self._end(searches, outcomes)

    def _end(self, searches: _Searches, outcomes: dict[PartitionState, KafkaError | None]) -> None:
        if outcomes:
            searches.ended(outcomes)
            self._changed()

    def _reset_of(self, state: PartitionState) -> str:
        """The reset policy for a partition. A topic created anew is read from its start: all its records are new."""
        reset = self._options.auto_offset_reset
        return "earliest" if state.tp in self._fetcher.anew and reset != NO_RESET else reset

    def _report_missing(self, unpositioned: Iterable[PartitionState]) -> None:
        """Make the application's next request raise, once, that an assigned topic does not exist."""
        now, patience_s = anyio.current_time(), missing_patience_s(self._options.default_api_timeout_ms)
        for topic in {state.tp.topic for state in unpositioned}:
            if not self._is_missing(topic):
                self._missing_since.pop(topic, None)
            elif now - self._missing_since.setdefault(topic, now) >= patience_s:
                self._missing_since[topic] = float("inf")
                self._failures.add(missing_topics([topic]), topic, partial(self._is_missing, topic))

    def _is_missing(self, topic: str) -> bool:
        """Whether a topic has assigned partitions, but does not exist according to the metadata."""
        error = self._cluster.metadata.errors.get(topic)
        return isinstance(error, UnknownTopicOrPartitionError) and any(
            tp.topic == topic for tp in self._fetcher.states
        )


def _no_start_offset(state: PartitionState, group_id: str | None) -> KafkaError:
    why = "the consumer has no group" if group_id is None else f"group {group_id!r} has committed none"
    return OffsetOutOfRangeError(
        f"no start offset for {state.tp}: {why} and auto_offset_reset is 'none';"
        " seek to an offset, or set auto_offset_reset"
    )
