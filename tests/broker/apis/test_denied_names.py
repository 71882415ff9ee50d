"""A request that names thousands of resources that its client may not use lets other tasks run in between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import trio
import trio.testing
from support.authorized_node import ALICE, Grants, allow, authorized_node

from minikafka.broker.apis.fetch_response import AT_ONCE as FETCHED_AT_ONCE
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.storage.steps import EVERY

NAMES = [f"name-{number}" for number in range(3 * EVERY)]
TOPICS: list[dict[str, Any]] = [{"name": name, "partitions": []} for name in NAMES]
GROUP = {"group_id": "g"}
MEMBER = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000, "topic_partitions": []}
PRODUCER = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
TO_TXN = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}
ONE = [{"name": name, "partitions": [0]} for name in NAMES]
SIZE = {"num_partitions": 1, "replication_factor": 1}
WITH_TIME = {"timeout_ms": 60_000}
REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    ("DescribeGroups", 5, {"groups": NAMES}),
    ("DeleteGroups", 2, {"groups_names": NAMES}),
    ("DescribeTransactions", 0, {"transactional_ids": NAMES}),
    ("DescribeTopicPartitions", 0, {"topics": [{"name": name} for name in NAMES]}),
    ("ConsumerGroupHeartbeat", 1, GROUP | MEMBER | {"subscribed_topic_names": NAMES}),
    ("OffsetCommit", 9, GROUP | {"topics": TOPICS}),
    ("OffsetFetch", 8, {"groups": [GROUP | {"topics": [{"name": name, "partition_indexes": []} for name in NAMES]}]}),
    ("OffsetDelete", 0, GROUP | {"topics": TOPICS}),
    ("TxnOffsetCommit", 3, GROUP | PRODUCER | {"topics": TOPICS}),
    ("AddPartitionsToTxn", 3, TO_TXN | {"v3_and_below_topics": ONE}),
    ("ConsumerGroupDescribe", 1, {"group_ids": NAMES}),
    ("OffsetFetch", 9, {"groups": [{"group_id": name, "topics": []} for name in NAMES]}),
    ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": NAMES}),
    ("FindCoordinator", 5, {"key_type": 1, "coordinator_keys": NAMES}),
    ("Metadata", 9, {"topics": [{"name": name} for name in NAMES], "allow_auto_topic_creation": True}),
    ("Produce", 9, {"acks": 1, "topic_data": [{"name": name, "partition_data": [{"index": 0}]} for name in NAMES]}),
    ("Fetch", 12, {"topics": [{"topic": name, "partitions": [{"partition": 0}]} for name in NAMES]}),
    ("ListOffsets", 7, {"topics": [{"name": name, "partitions": [{}]} for name in NAMES]}),
    ("OffsetForLeaderEpoch", 4, {"topics": [{"topic": name, "partitions": [{}]} for name in NAMES]}),
    ("DescribeProducers", 0, {"topics": [{"name": name, "partition_indexes": [0]} for name in NAMES]}),
    ("DeleteRecords", 2, {"topics": [{"name": name, "partitions": [{}]} for name in NAMES]}),
    ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": name} for name in NAMES]}),
    ("DescribeConfigs", 4, {"resources": [{"resource_type": 32, "resource_name": name} for name in NAMES]}),
    ("CreateTopics", 7, WITH_TIME | {"topics": [{"name": name} | SIZE for name in NAMES]}),
    ("DeleteTopics", 6, WITH_TIME | {"topics": [{"name": name} for name in NAMES]}),
    ("CreatePartitions", 3, WITH_TIME | {"topics": [{"name": name, "count": 3} for name in NAMES]}),
    ("AlterConfigs", 2, {"resources": [{"resource_type": 2, "resource_name": name} for name in NAMES]}),
    ("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": 2, "resource_name": name} for name in NAMES]}),
    ("IncrementalAlterConfigs", 1, {"resources": [{"resource_type": 32, "resource_name": name} for name in NAMES]}),
]


class Watch(trio.abc.Instrument):
    """Notes at each step of a task how many questions the authorizer was asked before it."""

    def __init__(self) -> None:
        self.grants = Grants()
        self.counts: set[int] = set()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.counts.add(len(self.grants.asked))


def test_others_run_while_names_are_decided_on() -> None:
    watch = Watch()
    asked_at_once: dict[tuple[str, int], int] = {}

    async def main() -> None:
        async with authorized_node() as node:
            of_group, of_txn = AclResourceType.GROUP, AclResourceType.TRANSACTIONAL_ID
            node.grants.granted = [allow(one, of_group, "g") for one in (AclOperation.READ, AclOperation.DELETE)]
            node.grants.granted.append(allow(AclOperation.WRITE, of_txn, "x"))
            watch.grants = node.grants
            for api, version, body in REQUESTS:
                node.grants.asked.clear()
                watch.counts = {0}
                await node.ask(ALICE, api, version, body)
                counts = sorted(watch.counts | {len(node.grants.asked)})
                assert counts[-1] >= len(NAMES), api
                asked_at_once[api, version] = max(after - before for before, after in pairwise(counts))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[watch])
    at_once = {api: FETCHED_AT_ONCE if api == "Fetch" else EVERY for api, _ in asked_at_once}
    assert {api: count for api, count in asked_at_once.items() if count > at_once[api[0]] + 2} == {}
