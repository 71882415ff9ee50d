"""More partitions for `__consumer_offsets` and `__transaction_state`: groups and transactions stay where they are."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.node import NodeProcess
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle

from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin, Consumer, Producer

COUNT = 4
SETTINGS = {
    "offsets.topic.num.partitions": COUNT,
    "transaction.state.log.num.partitions": COUNT,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
IDS = [f"id-{number}" for number in range(8)]
TP = TopicPartition("t", 0)
KINDS = [
    pytest.param(NodeProcess, id="minikafka"),
    pytest.param(Oracle, id="kafka", marks=[*KAFKA_ITSELF, needs_oracle]),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_groups_and_transactions_stay_where_they_are(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path / "data", settings=SETTINGS) as node, Admin(node.bootstrap) as admin, ExitStack() as stack:
        admin.create_topic("t", partitions=1, replication_factor=1)
        producers = [stack.enter_context(Producer(node.bootstrap, transactional_id=name)) for name in IDS]
        for producer, name in zip(producers, IDS, strict=True):
            producer.begin()
            producer.send_and_wait("t", name.encode())
            with Consumer(bootstrap_servers=node.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
                consumer.assign([TP])
                consumer.commit({TP: 7})
        for topic in ("__consumer_offsets", "__transaction_state"):
            admin.create_partitions(topic, 2 * COUNT - 1)
            while len(admin.describe_topic(topic).partitions) < 2 * COUNT - 1:
                pass
        for producer, name in zip(producers, IDS, strict=True):
            assert admin.list_group_offsets(name)[TP].offset == 7
            producer.commit()
        reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        with Consumer("t", bootstrap_servers=node.bootstrap, **reading) as consumer:  # type: ignore[arg-type]
            values = [record.value for record in islice(consumer, len(IDS))]  # Markers are written after the answers.
        assert sorted(values) == [name.encode() for name in IDS]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_is_asked_first_after_that_maps_keys_as_the_others(kind: Any, tmp_path: Path) -> None:
    with kind(tmp_path / "data", settings=SETTINGS) as node, Admin(node.bootstrap) as admin:
        admin.create_topic("t", partitions=1, replication_factor=1)
        for name in IDS:
            with Consumer(bootstrap_servers=node.bootstrap, group_id=name, enable_auto_commit=False) as consumer:
                consumer.assign([TP])
                consumer.commit({TP: 7})
    with kind(tmp_path / "data", settings=SETTINGS) as node, Admin(node.bootstrap) as admin:
        admin.create_partitions("__consumer_offsets", 2 * COUNT - 1)
        while len(admin.describe_topic("__consumer_offsets").partitions) < 2 * COUNT - 1:
            pass
        for name in IDS:
            assert admin.list_group_offsets(name)[TP].offset == 7
