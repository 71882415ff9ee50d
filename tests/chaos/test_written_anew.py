"""What librdkafka writes twice or loses itself, told from what a broker does, on a real node."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.batches import encode_batch
from support.clients_raw import RawConnection
from support.logins import Login
from support.node import NodeProcess

from chaos.answered_as_duplicate import PURGED, answered_as_duplicate
from chaos.checker import check
from chaos.checks.anomaly import Kind
from chaos.history import Outcome, Poll, Produce, Read, Recorder
from chaos.written_anew import producer_at, written_anew
from minikafka.client.blocking import Admin
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.record import Record

pytestmark = pytest.mark.timeout(120)
TP = TopicPartition("t", 0)


def append(connection: RawConnection, value: str, epoch: int, sequence: int) -> int:
    """Produce a record; its offset."""
    records = [Record(0, 1_700_000_000_000, None, value.encode())]
    batch = encode_batch(records, producer_id=4000, producer_epoch=epoch, base_sequence=sequence)
    data = PartitionProduceData(index=0, records=bytes(batch))
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    result = connection.ask(request, 9).responses[0].partition_responses[0]
    assert result.error_code == 0
    offset: int = result.base_offset
    return offset


def test_records_in_whose_place_the_log_has_a_purged_one_were_lost_by_the_client(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node, Admin(node.bootstrap) as admin:
        admin.create_topic("t")
        host, _, port = node.bootstrap.rpartition(":")
        with RawConnection((host, int(port))) as connection:
            at = append(connection, "confluent-transact-1/1:0", 0, 0)
            assert append(connection, "confluent-transact-1/1:1", 0, 0) == at  # A duplicate, for the broker.

        def excused(process: str, error: str) -> list[Kind]:
            recorder = Recorder()
            names = [f"confluent-transact-1/1:{number}" for number in range(2)]
            first, second = (recorder.invoke(process, Produce(TP, None, name)) for name in names)
            recorder.complete(first, Outcome.UNKNOWN, info=error)
            recorder.complete(second, Outcome.OK, Produce(TP, None, names[1], offset=at))
            poll = Poll((Read(TP, at, None, names[0]),))
            recorder.complete(recorder.invoke("reader/1", poll), Outcome.OK, poll)
            found = check(recorder.events)
            assert Kind.TWO_VALUES in [one.kind for one in found]
            return [one.kind for one in answered_as_duplicate(found, recorder.events, [Login.of(node.bootstrap)])]

        purged = f"KafkaError{{{PURGED},val=-152}}"
        assert excused("confluent-transact-1/1", purged) == [Kind.TWO_VALUES]
        assert excused("confluent-transact-1/1", "KafkaError{code=_MSG_TIMED_OUT}") == []
        assert excused("transactional-producer-1/1", purged) == []


def test_copies_with_epochs_of_their_own_are_not_the_brokers(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node") as node, Admin(node.bootstrap) as admin:
        admin.create_topic("t")
        host, _, port = node.bootstrap.rpartition(":")
        with RawConnection((host, int(port))) as connection:
            first, second = append(connection, "a", 0, 0), append(connection, "a", 1, 0)
            third, fourth = append(connection, "b", 1, 1), append(connection, "b", 1, 2)
        assert producer_at(TP, second, [Login.of(node.bootstrap)]) == (4000, 1)
        assert producer_at(TP, 99, [Login.of(node.bootstrap)]) is None

        def anomalies(process: str) -> list[str]:
            recorder = Recorder()
            for value in "ab":
                recorder.complete(recorder.invoke(process, Produce(TP, None, value)), Outcome.OK)
            offsets = {first: "a", second: "a", third: "b", fourth: "b"}
            poll = Poll(tuple(Read(TP, offset, None, value) for offset, value in offsets.items()))
            recorder.complete(recorder.invoke("reader/1", poll), Outcome.OK, poll)
            found = check(recorder.events)
            assert len(found) == 2
            return [one.sentence for one in written_anew(found, [Login.of(node.bootstrap)])]

        assert anomalies("confluent-produce-0/1") == ["'a' is in t-0 at the offsets 0, 1"]
        assert anomalies("idempotent-producer-1/1.1") == []
