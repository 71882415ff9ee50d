"""What read_committed consumers see of partitions: that no transaction is open."""

from __future__ import annotations

import time
from collections.abc import Iterable

import confluent_kafka as ck

from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.names import TopicPartition
from support.logins import Logins

PATIENCE_S = 90
WAIT_S = 10


def until_no_transaction_is_open(cluster: LocalCluster, partitions: Iterable[TopicPartition]) -> None:
    """The last stable offset reaches the end: what killed programs left open times out."""
    committed, plain = (
        ck.Consumer({
            **Logins.of(cluster).load.confluent, "group.id": "unused", "log_level": 0, "isolation.level": level,
        })
        for level in ("read_committed", "read_uncommitted")
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    for partition in partitions:
        where = ck.TopicPartition(*partition)
        while committed.get_watermark_offsets(where, WAIT_S)[1] < plain.get_watermark_offsets(where, WAIT_S)[1]:
            assert time.monotonic() < deadline, f"a transaction hangs in {partition}"
            time.sleep(0.5)
