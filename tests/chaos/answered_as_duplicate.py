"""Tells records that a broker lost from those that librdkafka lost itself, by using sequence numbers again.

A transactional producer of librdkafka whose request was not answered keeps the records in its queue. If the transaction
is aborted then, they are removed ("Purged in queue"), and the first records of the next transaction have their sequence
numbers, with the same producer epoch. Where the request had been written, the broker takes the new records for it, and
acknowledges them with its offset: they are in no log. On Apache Kafka the same happens (`docs/chaos.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from support.logins import Login

from chaos.checks.anomaly import Anomaly, Kind
from chaos.history import Event, Operation, Outcome, Produce, operations
from chaos.workload.values import name_in
from chaos.written_anew import LIBRDKAFKA, batch_at
from minikafka.protocol.names import TopicPartition

PURGED = "code=_PURGE_QUEUE"
"""In the error of a record that was removed from the queue."""
_KINDS = (Kind.TWO_VALUES, Kind.LOST_WRITE, Kind.TORN_TRANSACTION)


def answered_as_duplicate(
    anomalies: Iterable[Anomaly], events: Iterable[Event], brokers: Sequence[Login]
) -> list[Anomaly]:
    """The anomalies of records that were acknowledged with the offset of a purged record of the same process, as the
    log of these brokers shows."""
    suspects = [one for one in anomalies if one.kind in _KINDS and any(map(_acknowledged, one.evidence))]
    if not suspects:
        return []
    purged = {
        (one.process, one.action.partition, one.action.value)
        for one in operations(events)
        if one.outcome is Outcome.UNKNOWN and isinstance(one.action, Produce) and PURGED in one.info
    }
    return [
        one
        for one in suspects
        if any(_in_place_of_another(each, purged, brokers) for each in filter(_acknowledged, one.evidence))
    ]


def _acknowledged(one: Operation) -> bool:
    made = one.outcome is Outcome.OK and isinstance(one.action, Produce) and one.action.offset is not None
    return made and one.process.startswith(LIBRDKAFKA)


def _in_place_of_another(
    one: Operation, purged: set[tuple[str, TopicPartition, str]], brokers: Sequence[Login]
) -> bool:
    sent = one.action
    if not isinstance(sent, Produce) or sent.offset is None:
        return False
    found = _value_at(sent.partition, sent.offset, brokers)
    return found != sent.value and (one.process, sent.partition, found) in purged


def _value_at(tp: TopicPartition, offset: int, brokers: Sequence[Login]) -> str:
    batch = batch_at(tp, offset, brokers)
    values = [record.value for record in batch.records() if record.offset == offset] if batch is not None else []
    return name_in(values[0]) if values and values[0] is not None else ""
