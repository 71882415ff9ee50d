"""`chunks_of`: splits the bytes of a fetch response into chunks of records. Pure.

Control batches are omitted and, with read_committed, the batches of aborted transactions. Damaged bytes become a last
chunk, which raises an error when the application has read the records before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from minikafka.client.consumer.chunk import Chunk, portions
from minikafka.client.consumer.partition_state import PartitionState
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, control_type
from minikafka.protocol.records.record import CorruptRecords

READ_COMMITTED = "read_committed"
_NOT_WHOLE = "the response has {} bytes, and no whole batch is among them"


class Damage(NamedTuple):
    """The error of the damaged batch with index `place` in a response, and the batch, if its header can be read."""

    place: int
    error: CorruptRecords
    batch: Batch | None = None


def chunks_of(state: PartitionState, records: Any, aborted: Any, options: ConsumerOptions) -> list[Chunk]:
    """Create the chunks of a response's records from `state.fetch_offset` on, and advance `fetch_offset` past them.

    Args:
        records: bytes-like, or None.
        aborted: the aborted transactions that overlap the response.
    """
    if records is None or not len(records):
        return []
    whole: list[Batch] = []
    damage: Damage | None = None
    try:
        whole.extend(batches(records))
    except CorruptRecords as error:
        damage = Damage(len(whole), CorruptRecords(str(error)))
    if not whole and damage is None:  # The first batch is always whole, even if larger than the maximum (KIP-74).
        damage = Damage(0, CorruptRecords(_NOT_WHOLE.format(len(records))))
    start, stop = state.fetch_offset or 0, state.stop_offset
    wanted = whole if stop is None else [batch for batch in whole if batch.base_offset < stop]
    has_all = len(wanted) == len(whole)
    damage = (_first_corrupt(wanted) if options.check_crcs else None) or (damage if has_all else None)
    sound = [batch for batch in wanted[: damage.place if damage else None] if batch.last_offset >= start]
    chunks: list[Chunk] = []
    at_stop = damage is None and not has_all  # The end of a partition is always that of a batch.
    if sound or at_stop:
        next_offset = max(start, stop) if at_stop and stop is not None else sound[-1].next_offset
        try:
            chunks += _sound(state, sound, next_offset, aborted, options)
        except CorruptRecords as error:
            return [_damaged(state, Damage(0, CorruptRecords(str(error))), [], options)]
    if damage is not None:
        chunks.append(_damaged(state, damage, wanted[damage.place + 1 :], options))
    return chunks


def _first_corrupt(whole: list[Batch]) -> Damage | None:
    """The first batch with a wrong checksum, or None. Checksums are verified before any field of a batch is used: a
    damaged batch might look like a control batch or a batch of an aborted transaction, and would be omitted."""
    for index, batch in enumerate(whole):
        try:
            batch.check_crc()
        except CorruptRecords as error:
            return Damage(index, error, batch)
    return None


def _damaged(state: PartitionState, damage: Damage, behind: list[Batch], options: ConsumerOptions) -> Chunk:
    """A chunk that raises the error. No later batch of the response is used: the damaged last offset may be wrong."""
    batch, start = damage.batch, state.fetch_offset or 0
    state.fetch_offset = start if batch is None else max(start, batch.base_offset)
    after = behind[0].base_offset if behind else -1 if batch is None else batch.next_offset
    if not state.fetch_offset < after <= state.high_watermark:
        after = state.fetch_offset + 1
    state.buffered += 1
    return Chunk(state, [] if batch is None else [batch], after, options, corruption=damage.error)


def _sound(
    state: PartitionState, sound: list[Batch], next_offset: int, aborted: Any, options: ConsumerOptions
) -> list[Chunk]:
    visible = list(_visible(sound, aborted, committed_only=options.isolation_level == READ_COMMITTED))
    state.fetch_offset = next_offset
    if sound and not state.fetch_epoch == sound[0].leader_epoch == sound[-1].leader_epoch:  # Epochs only increase.
        state.fetched((batch.base_offset, batch.leader_epoch) for batch in sound)
    state.buffered += 1
    if not visible:
        return [Chunk(state, [], next_offset, options)]
    chunks: list[Chunk] = []
    for some in portions(visible):
        last = some[-1] is visible[-1]
        end = next_offset if last else some[-1].next_offset
        chunks.append(Chunk(state, some, end, options, ends_response=last))
    return chunks


def _visible(whole: list[Batch], aborted: Any, *, committed_only: bool) -> Iterator[Batch]:
    """The batches without control batches and, with `committed_only`, without those of aborted transactions.

    The broker lists, ordered by first offset, the aborted transactions that overlap the response; each ends
    with its abort marker (Kafka's `CompletedFetch`). Raises CorruptRecords.
    """
    upcoming = deque(sorted(aborted or (), key=lambda one: one.first_offset)) if committed_only else deque()
    aborting: set[int] = set()
    for batch in whole:
        while upcoming and upcoming[0].first_offset <= batch.last_offset:
            aborting.add(upcoming.popleft().producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _is_abort(batch: Batch) -> bool:
    records = batch.records()
    return bool(records) and control_type(records[0].key) is ControlType.ABORT
