"""Produce by topic id, while the replica of a deleted topic of the same name is still to be removed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

from minikafka.broker.apis.produce import handle
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.traffic import Traffic
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionRecord, TopicRecord
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

OLD, NEW = bytes([1] * 16), bytes([2] * 16)
VERSION_BY_ID = 13


class Replica:
    """A replica that counts what is appended."""

    topic_partition = TopicPartition("orders", 0)
    log = SimpleNamespace(start_offset=0)

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.traffic = Traffic()
        self.appended = 0

    def append(self, batch: object, **_: object) -> Any:
        self.appended += 1
        return SimpleNamespace(first_offset=0, append_time_ms=-1, flush_due=False)


@pytest.mark.parametrize(
    ("held", "error", "appended"), [(OLD, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), (NEW, ErrorCode.NONE, 1)],
)
def test_records_of_a_topic_made_anew_are_not_appended_to_its_predecessor(
    held: bytes, error: ErrorCode, appended: int
) -> None:
    image = Image()
    image.apply(TopicRecord(NEW, "orders"))
    image.apply(PartitionRecord(NEW, 0, replicas=(1,), isr=(1,), leader=1))
    partitions, replica = Partitions(image), Replica(held)
    partitions.add(cast(Any, replica))
    services = SimpleNamespace(partitions=partitions, image=image, now_ms=lambda: 0)
    context = RequestContext(services, VERSION_BY_ID, "a client", ConnectionInfo("", ""))
    data = PartitionProduceData(index=0, records=memoryview(encode_batch([Record(0, 0, None, b"one")])))
    request = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=NEW, partition_data=[data])]
    )
    response = trio.run(handle, request, cast(Any, context))
    assert response is not None
    assert response.responses[0].partition_responses[0].error_code == error
    assert replica.appended == appended
