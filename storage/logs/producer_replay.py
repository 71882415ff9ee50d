"""Brings the producer state of a log up to date from its batches: after an append, a recovery or a truncation."""

from minikafka.protocol.records.batch import CONTROL, Batch
from minikafka.storage.logs.log_state import LogState
from minikafka.storage.logs.producer_state import ProducerStates
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segments import Segments
from minikafka.storage.segments.transaction_index import AbortedTransaction


def replay(log: LogState, end_offset: int) -> None:
    """Restores the producer state at `end_offset` from the newest snapshot and the batches since."""
    first = log.segments.bases[0]
    log.snapshots.load(log.producers, start_offset=first, end_offset=end_offset, expired_ms=log.context.expired_ms)
    _replay_headers(log.producers, log.segments, end_offset)


def _replay_headers(producers: ProducerStates, segments: Segments, end_offset: int) -> None:
    """Applies the batch headers from `producers.end_offset` to `end_offset`."""
    for index in range(max(0, segments.floor(producers.end_offset)), len(segments)):
        segment = segments[index]
        if segment.base_offset >= end_offset or producers.end_offset >= end_offset:
            break
        for header in segment.scan(producers.end_offset):
            if header.base_offset >= end_offset:
                break
            if header.producer_id >= 0:
                batch = segment.batch(header) if header.attributes & CONTROL else header
                completed = producers.apply(batch)
                if completed is not None:
                    producers.complete(completed)
    producers.end_offset = end_offset


def update_producer(producers: ProducerStates, segment: Segment, batch: Batch) -> None:
    """Applies a batch of `segment` with a producer id, and adds an aborted transaction to the index."""
    completed = producers.apply(batch)
    if completed is not None:
        if completed.aborted:
            stable = producers.last_stable_offset(completed)
            segment.transactions.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
        producers.complete(completed)
