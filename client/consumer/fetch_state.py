"""A consumer's fetch state: positions, planned fetches and buffered records of each assigned partition. Pure.

Each assigned partition has a `PartitionState`: the user's position, the offset of the next fetch (ahead of the position
by the buffered records), and the offsets that the broker last reported. Fetch responses become `Chunk`s of records,
kept in order of arrival. A seek or a new assignment increments the partition's `era`; chunks and responses of an older
era are dropped. `background_fetch.py` sends the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from minikafka.client.connections.cluster_metadata import Topic
from minikafka.client.consumer.chunk import Chunk
from minikafka.client.consumer.fetch_session import FetchSession, TopicIds
from minikafka.client.consumer.fetched_chunks import READ_COMMITTED, chunks_of
from minikafka.client.consumer.partition_state import Left, PartitionState
from minikafka.client.options import ConsumerOptions
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.compression import TooMuchContent
from minikafka.protocol.types import NIL_UUID

if TYPE_CHECKING:
    from pyarrow import RecordBatch

T = TypeVar("T")
RESPONSES_AHEAD = 2
"""The number of responses that may be buffered for one partition: the one being read, and one ahead."""
_BUSY_WAIT_MS = 20
"""The `max_wait_ms` of a fetch that omits partitions whose buffers are full: their records may be taken meanwhile."""
_OF_IDLE_TIME = 10  # If longer, `max_wait_ms` is the time since the last request for records, divided by this.
NOT_CHOSEN = "no topics or partitions are chosen: call subscribe() or assign(), or name topics in Consumer(…)"
NO_RESET = "none"


class PendingFetch(NamedTuple):
    """A fetch in flight: the request, the requested partitions with their eras at that time, and the session."""

    request: FetchRequest
    requested: dict[TopicPartition, tuple[PartitionState, int]]
    session: FetchSession


class PartitionFailure(NamedTuple):
    """The error of a partition in a fetch response."""

    state: PartitionState
    error: KafkaError


class Fetcher:
    """The states of all assigned partitions, and the chunks received for them.

    Attributes:
        current: the chunk from which records are currently taken.
        replaced: topics that were created anew with the name of a deleted topic that had been read.
        left: the partitions that were given up since the last request for records, with their offsets that are
            returned but not committed.
        anew: the partitions of `replaced` topics that have had no position yet.
        missing: subscribed topics that do not exist.
        topic_ids: by name, the id of the topic whose partitions are read, if it was in the metadata.
        yielded: returns a value that changes with each buffered record that a loop requests, and marks those before it
            as processed; replaced by an owner whose loops do not request each record from here.
        why_nothing: why the application's choice of topics or partitions leaves nothing to read; "" if there may be
            records, and if the application has assigned no partition.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.chunks: deque[Chunk] = deque()
        self.current: Chunk | None = None
        self.left: dict[TopicPartition, Left] = {}
        self.anew: set[TopicPartition] = set()
        self.replaced: set[str] = set()
        self.missing: list[str] = []
        self.why_nothing = NOT_CHOSEN
        self.topic_ids: dict[str, bytes] = {}
        self._options = options
        self._turn = 0
        self.yielded: Callable[[], object] = self._yielded
        self._consumed: dict[str, list[int]] = {}
        """By topic, the number of returned records of finished chunks, and the bytes of these chunks."""

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Replace the assignment; partitions that stay assigned keep their state."""
        before, self.states = self.states, {}
        for tp in partitions:
            self.states[tp] = before.pop(tp) if tp in before else PartitionState(tp)
        for removed in before.values():
            removed.move(None)
        self._drop_stale()

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment. `left` keeps their uncommitted offsets until it is cleared.

        The current chunk is put back, so that the next record is a new request.
        """
        self.put_back()
        positions, processed = self.positions(), self.positions(processed_only=True)
        for tp in partitions:
            if tp not in self.left and (position := positions.get(tp)) is not None:
                self.note_left(tp, Left(position, processed.get(tp), self.states[tp].resumes_at))
        self.assign([tp for tp in self.states if tp not in partitions])

    def note_left(self, tp: TopicPartition, left: Left) -> None:
        """Store the offsets of a partition that was given up in `left`, unless all are committed."""
        if left.position != left.resumes_at:
            self.left[tp] = left
        else:
            self.left.pop(tp, None)

    def left_positions(self, *, processed_only: bool = False) -> dict[TopicPartition, int]:
        """Like `positions`, for the partitions that were given up and whose offsets are not committed."""
        offsets = {tp: one.processed if processed_only else one.position for tp, one in self.left.items()}
        return {tp: one for tp, one in offsets.items() if one is not None and one != self.left[tp].resumes_at}

    def committed(self, tp: TopicPartition, offset: int) -> None:
        """Note that `offset` was committed: the group's next reader begins there."""
        if (state := self.states.get(tp)) is not None:
            state.resumes_at = offset
        if (left := self.left.get(tp)) is not None:
            self.note_left(tp, left._replace(resumes_at=offset))

    def follow(self, topics: Mapping[str, Topic], *, held: bool) -> list[str]:
        """Drop the positions in topics that were deleted and created anew with the same name; return the names.

        Args:
            topics: the topics of the metadata, by name.
            held: whether no new positions are looked up, because these partitions will be revoked.
        """
        replaced: list[str] = []
        for name in {tp.topic for tp in (*self.states, *self.left)} & topics.keys():
            topic_id = topics[name].topic_id
            if self.topic_ids.setdefault(name, topic_id) != topic_id != NIL_UUID:
                self.topic_ids[name] = topic_id
                self.anew |= {TopicPartition(name, one.index) for one in topics[name].partitions}
                replaced.append(name)
        for state in self.states.values():
            if state.tp.topic in replaced:
                wanted = None if state.reset == NO_RESET else state.reset  # NO_RESET is an earlier failure: try again.
                state.move(None)
                state.reset = NO_RESET if held else wanted
                state.stop_offset = None
                state.trouble = ""  # It was of the deleted topic.
        self.left = {tp: one for tp, one in self.left.items() if tp.topic not in replaced}
        self.replaced |= set(replaced)
        self._drop_stale()
        return replaced

    def is_of_deleted_topic(self, tp: TopicPartition, offset: int) -> bool:
        """Whether an offset belongs to a deleted topic whose name is in use again: the new topic is not read so far."""
        return tp.topic in self.replaced and tp in self.states and offset > self.positions().get(tp, 0)

    def seek(self, tp: TopicPartition, offset: int | None, reset: str | None = None, epoch: int = -1) -> None:
        """Continue at `offset`, after a batch of leader epoch `epoch`. With `offset` None, continue as `reset` says, or
        at the committed offset without `reset`. Raises KeyError."""
        state = self.states[tp]
        state.move(offset, epoch)
        self.anew.discard(tp)
        state.reset = reset
        self._drop_stale()

    def consumed(self) -> dict[str, tuple[int, int]]:
        """By topic, the number of records returned, and the bytes of the chunks that were read to their end."""
        found = {topic: (records, size_bytes) for topic, (records, size_bytes) in self._consumed.items()}
        for chunk in [*self.chunks, *([self.current] if self.current else [])]:
            records, size_bytes = found.get(chunk.state.tp.topic, (0, 0))
            found[chunk.state.tp.topic] = (records + chunk.taken, size_bytes)
        return found

    def _count(self, chunk: Chunk, records: int, size_bytes: int = 0) -> None:
        counts = self._consumed.setdefault(chunk.state.tp.topic, [0, 0])
        counts[0] += records
        counts[1] += size_bytes

    def _drop_stale(self) -> None:
        for chunk in [*self.chunks, *([self.current] if self.current else [])]:
            if chunk.is_stale and chunk.taken:
                self._count(chunk, chunk.taken)
        self.chunks = deque(chunk for chunk in self.chunks if not chunk.is_stale)
        if self.current is not None and self.current.is_stale:
            self.current = None

    def without_position(self, now: float) -> list[PartitionState]:
        """The partitions whose position must be looked up now, except those that wait for a seek after a failure."""
        lacking = [one for one in self.states.values() if one.fetch_offset is None and one.reset != NO_RESET]
        return [one for one in lacking if one.not_before <= now]

    def without_end(self) -> list[PartitionState]:
        """The partitions whose end must be looked up for `stop_at`; empty without it."""
        if self._options.stop_at is None:
            return []
        return [one for one in self.states.values() if one.stop_offset is None]

    def at_end(self) -> bool:
        """Whether all records before the `stop_at` ends of the assigned partitions were taken; False without it."""
        return self._options.stop_at is not None and all(one.is_at_stop(one.position) for one in self.states.values())

    def readable_end(self, state: PartitionState) -> int:
        """The offset up to which records may be read, as last reported by the broker; -1 if it is unknown."""
        committed_only = self._options.isolation_level == READ_COMMITTED
        return state.last_stable_offset if committed_only else state.high_watermark

    def unvalidated(self, epoch_of: Callable[[str, int], int]) -> list[PartitionState]:
        """The partitions whose position must be compared with the log of a new leader (KIP-320)."""
        return [one for one in self.states.values() if one.needs_validation(epoch_of(*one.tp))]

    def pause(self, tp: TopicPartition) -> None:
        """Return no records of this partition. Raises KeyError."""
        self.states[tp].paused = True
        if self.current is not None and self.current.state.tp == tp:
            self.put_back()

    def put_back(self) -> None:
        """Take no more records from the current chunk before `readable_chunk` is called."""
        chunk, self.current = self.current, None
        if chunk is not None:
            if chunk.taken:
                chunk.state.position = chunk.position
                chunk.state.processed = chunk.processed
            self.chunks.appendleft(chunk)

    def readable_chunk(self) -> Chunk | None:
        """The chunk from which to take records, which has some left; None if no records are buffered.

        Raises CorruptMessageError and RecordDeserializationError; the caller must then call `skip`.
        """
        while True:
            chunk = self.current = self.current or self._oldest()
            if chunk is None:
                return None
            records = self._or_split(chunk, lambda chunk: chunk.records)
            if records is None:
                continue
            if chunk.taken < len(records):
                return chunk
            if chunk.failure is not None:
                chunk.state.position = chunk.position
                raise chunk.failure
            self.finish(chunk)
            chunk.state.processed = chunk.state.position

    def _or_split(self, chunk: Chunk, decode: Callable[[Chunk], T]) -> T | None:
        """Decode the current chunk. If it is too large, split it, make its first part current, and return None."""
        try:
            return decode(chunk)
        except TooMuchContent:
            pass  # `split` is called outside of the handler: this error's traceback keeps the decompressed data.
        if chunk.taken:
            chunk.state.position = chunk.position
            self._count(chunk, chunk.taken)
        self.current, second = chunk.split()
        self.chunks.appendleft(second)
        return None

    def _oldest(self) -> Chunk | None:
        """The oldest chunk of a partition that is not paused."""
        for index, chunk in enumerate(self.chunks):
            if not chunk.state.paused:
                del self.chunks[index]
                return chunk
        return None

    def finish(self, chunk: Chunk, rows: int = 0) -> None:
        """Finish the current chunk, whose records were all taken, the last `rows` of them as an Arrow record batch."""
        self.current = None
        self._count(chunk, chunk.taken + rows, chunk.size_bytes)
        if not chunk.is_stale:
            chunk.state.buffered -= chunk.ends_response
            # Records taken before the chunk was split may extend beyond this half.
            chunk.state.position = max(chunk.state.position or 0, chunk.next_offset)

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Take up to `limit` records of one partition; an empty list if none are buffered."""
        chunk = self.readable_chunk()
        if chunk is None:
            return []
        records = chunk.records[chunk.taken : chunk.taken + limit]
        chunk.by_list = True
        chunk.taken += len(records)
        if chunk.taken >= len(chunk.records) and chunk.failure is None:
            self.finish(chunk)
        else:
            chunk.state.position = chunk.position
        return records

    def take_arrow(self, columns: Sequence[str]) -> RecordBatch | None:
        """Take the rest of a chunk as an Arrow record batch. Raises CorruptMessageError, TimestampOverflow."""
        while (chunk := self.current or self._oldest()) is not None:
            self.current = chunk
            batch = self._or_split(chunk, lambda chunk: chunk.arrow(columns))
            if batch is None:
                continue
            self.finish(chunk, batch.num_rows)
            if batch.num_rows:
                return batch
            chunk.state.processed = chunk.state.position
        return None

    def skip(self) -> PartitionState:
        """Drop the current chunk, whose next record cannot be decoded, and return its partition. The position stays."""
        assert self.current is not None
        state = self.current.state
        state.move(state.position, state.epoch_before(state.position or 0))
        self._drop_stale()
        return state

    def mark_processed(self) -> None:
        """Mark all records that were taken as processed."""
        if self.current is not None and self.current.taken:
            self.current.state.position = self.current.position
        for state in self.states.values():
            state.processed = state.position

    def settle(self, tp: TopicPartition, offset: int) -> None:
        """Mark those records before `offset` as processed that were taken."""
        position = self.positions().get(tp)
        if position is not None:
            state = self.states[tp]
            state.processed = max(state.processed or 0, min(offset, position))

    def _yielded(self) -> object:
        return None if self.current is None or self.current.by_list else self.current.taken

    def positions(self, *, processed_only: bool = False) -> dict[TopicPartition, int]:
        """By partition, the offset after the last record taken, or after the last one processed."""
        if processed_only:
            self.yielded()
        offsets: dict[TopicPartition, int] = {}
        for tp, state in self.states.items():
            offset = state.processed if processed_only else state.position
            chunk = self.current
            if chunk is not None and chunk.state is state and chunk.taken:
                offset = chunk.processed if processed_only else chunk.position
            if offset is not None:
                offsets[tp] = offset
        return offsets

    def plan(
        self, now: float, leader_of: Callable[[str, int], int], epoch_of: Callable[[str, int], int]
    ) -> dict[int, list[tuple[PartitionState, int]]]:
        """The partitions to fetch now with their leader epochs, by leader or preferred replica.

        The order rotates, so that no partition starves without a fetch session; in a session the broker rotates.
        """
        by_leader: dict[int, list[tuple[PartitionState, int]]] = {}
        states = list(self.states.values())
        self._turn += 1
        turn = self._turn % len(states) if states else 0
        for state in states[turn:] + states[:turn]:
            if not self._is_wanted(state, now):
                continue
            leader, epoch = leader_of(*state.tp), epoch_of(*state.tp)
            if leader >= 0 and state.fetch_offset is not None and not state.needs_validation(epoch):
                if state.preferred_replica >= 0 and state.preferred_until > now:
                    leader = state.preferred_replica
                by_leader.setdefault(leader, []).append((state, epoch))
        return by_leader

    def _is_wanted(self, state: PartitionState, now: float) -> bool:
        if self._options.stop_at is not None and (state.stop_offset is None or state.is_at_stop(state.fetch_offset)):
            return False
        return (
            state.fetch_offset is not None
            and not state.paused
            and not state.in_flight
            and state.buffered < (1 if state.is_refused else RESPONSES_AHEAD)
            and state.not_before <= now
        )

    def request(
        self,
        session: FetchSession,
        partitions: Sequence[tuple[PartitionState, int]],
        topic_ids: TopicIds | None,
        idle_ms: float = 0.0,
    ) -> PendingFetch:
        """Create the Fetch request for one leader, and mark its partitions as in flight.

        Args:
            topic_ids: given for versions that name topics by id.
            idle_ms: the time since the application last requested records; 0 while it waits for them.
        """
        requested: dict[TopicPartition, tuple[PartitionState, int]] = {}
        for state, _ in partitions:
            state.in_flight = True
            requested[state.tp] = (state, state.era)
        full = any(one.buffered >= RESPONSES_AHEAD and not one.paused for one in self.states.values())
        wait_ms = self._options.fetch_max_wait_ms
        if full:
            wait_ms = min(wait_ms, max(_BUSY_WAIT_MS, int(idle_ms / _OF_IDLE_TIME)))
        request = FetchRequest(
            rack_id=self._options.client_rack or "",
            max_wait_ms=wait_ms,
            min_bytes=self._options.fetch_min_bytes,
            max_bytes=self._options.fetch_max_bytes,
            isolation_level=int(self._options.isolation_level == READ_COMMITTED),
        )
        session.fill(request, partitions, topic_ids)
        return PendingFetch(request, requested, session)

    def completed(self, fetch: PendingFetch) -> None:
        """Handle the end of a fetch, successful or not."""
        for state, _ in fetch.requested.values():
            state.in_flight = False

    def accept(self, fetch: PendingFetch, tp: TopicPartition, data: Any) -> PartitionFailure | None:
        """Buffer the records of one partition's response, or return its error."""
        state, era = fetch.requested.get(tp, (None, 0))
        if state is None or state.era != era:
            return None
        if data.error_code:
            return PartitionFailure(state, error_for(data.error_code, f"{tp}: {error_for(data.error_code)}"))
        state.answered(data)
        self.chunks += chunks_of(state, data.records, data.aborted_transactions, self._options)
        return None
