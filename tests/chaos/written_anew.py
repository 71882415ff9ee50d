"""Tells duplicates of a broker from those that librdkafka writes itself, with another producer epoch.

librdkafka draws a new producer epoch when a batch is refused for a gap in the sequence, after an error of an earlier
batch that wrote nothing ("skipped sequence numbers" in its log). The new epoch is that of all its partitions, also of
those whose requests have timed out: what these may have written, it writes again. A broker cannot know these as
duplicates, as sequence numbers begin anew with an epoch; on Apache Kafka the same happens (`docs/chaos.md`). What one
epoch has written twice, the broker has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from support.logins import Login

from chaos.checks.anomaly import Anomaly, Kind
from chaos.history import Poll, Produce, ReadAll, ReplicaLog
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Batch, batches

LIBRDKAFKA = "confluent-"
"""How the names of its processes begin."""
VERSION = 11
MAX_BYTES = 1 << 20


def written_anew(anomalies: Iterable[Anomaly], brokers: Sequence[Login]) -> list[Anomaly]:
    """The duplicates of which each copy has a producer epoch of its own, as these brokers have them."""
    return [one for one in anomalies if _by_librdkafka(one) and _epochs_differ(one, brokers)]


def _by_librdkafka(one: Anomaly) -> bool:
    return one.kind is Kind.DUPLICATE and one.evidence[0].process.startswith(LIBRDKAFKA)


def _epochs_differ(one: Anomaly, brokers: Sequence[Login]) -> bool:
    places = places_of(one)
    epochs = [producer_at(tp, offset, brokers) for tp, offset in places]
    return len(places) > 1 and None not in epochs and len(set(epochs)) == len(epochs)


def places_of(one: Anomaly) -> list[tuple[TopicPartition, int]]:
    """Where the evidence of a duplicate has its record."""
    sent = next(each.action for each in one.evidence if isinstance(each.action, Produce))
    found = {(sent.partition, sent.offset)} if sent.offset is not None else set()
    for each in one.evidence:
        if isinstance(each.action, Poll | ReadAll | ReplicaLog):
            found |= {(read.partition, read.offset) for read in each.action.records if read.value == sent.value}
    return sorted(found)


def producer_at(tp: TopicPartition, offset: int, brokers: Iterable[Login]) -> tuple[int, int] | None:
    """The producer id and epoch of the batch at an offset; None if no broker has it."""
    batch = batch_at(tp, offset, brokers)
    return None if batch is None else (batch.producer_id, batch.producer_epoch)


def batch_at(tp: TopicPartition, offset: int, brokers: Iterable[Login]) -> Batch | None:
    """The batch with an offset; None if no broker has it."""
    for login in brokers:
        with login.connect() as connection:
            partition = FetchPartition(
                partition=tp.partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES, log_start_offset=0
            )
            topics = [FetchTopic(topic=tp.topic, partitions=[partition])]
            response = connection.ask(FetchRequest(topics=topics, max_bytes=MAX_BYTES), VERSION)
        data = response.responses[0].partitions[0]
        for batch in batches(data.records or b"") if data.error_code == 0 else ():
            if batch.base_offset <= offset <= batch.last_offset:
                return batch
    return None
