"""Apache Kafka on several nodes, with the interface of `LocalCluster`.

The cluster tests run against it too: what a test asserts must hold for Kafka before it is demanded of minikafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka.cli.local_cluster import LocalCluster
from support.oracle import kafka

UNHURRIED = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
}
"""Long, since three JVMs share two cores."""


class OracleCluster(LocalCluster):
    """Three Kafka nodes, or another number; arguments as for `LocalCluster`."""

    READY = re.compile(rb"Kafka Server started")

    def __init__(self, directory: Path, *, settings: Mapping[str, object] | None = None, **rest: Any) -> None:
        super().__init__(directory, settings={**(settings or {}), **UNHURRIED}, **rest)

    def command(self, node_id: int) -> list[str]:
        return kafka("server", "--config", self.config(node_id), "--heap", "300m")
