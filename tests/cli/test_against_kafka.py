"""The client commands speak to Apache Kafka as well; skipped where there is none to ask."""

import json
from pathlib import Path

import pytest
from support.clients import eventually
from support.command_line import Minikafka
from support.oracle import Oracle, needs_oracle

from minikafka.protocol.errors import UnknownTopicOrPartitionError


def partitions(listed: str) -> dict[str, int]:
    return {one["name"]: one["partitions"] for one in json.loads(listed)}


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_client_command_against_apache_kafka(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Oracle(tmp_path / "kafka") as kafka:
        there = ("-b", kafka.bootstrap)
        assert minikafka("topics", "create", "t", "--partitions", "2", "--config", "segment.ms=60000", *there).code == 0
        assert minikafka("topics", "alter", "t", "--partitions", "3", "--delete-config", "segment.ms", *there).code == 0
        eventually(lambda: partitions(minikafka("topics", "list", "--json", *there).out) == {"t": 3})
        words = ("--key-separator", ":", "--compression-type", "zstd", *there)
        ran = minikafka("produce", "t", *words, stdin=b"a:1\nb:2\n")
        assert ran.err.startswith("2 records to t")
        read = ("consume", "t", "--from-beginning", *there)
        assert sorted(minikafka(*read, "-n", "2", "--format", "%k=%v").lines) == ["a=1", "b=2"]
        first = minikafka(*read, "--group", "g", "-n", "1").lines
        assert sorted(first + minikafka(*read, "--group", "g", "-n", "1").lines) == ["1", "2"]
        assert minikafka("perf", "produce", "t", "--records", "1000", *there).code == 0
        assert minikafka("perf", "latency", "t", "--records", "10", *there).code == 0
        assert minikafka("perf", "consume", "t", *there).out.startswith("1013 records read")
        assert minikafka("topics", "delete", "t", *there).out == "Deleted topic t.\n"
        eventually(lambda: partitions(minikafka("topics", "list", "--json", *there).out) == {})
        monkeypatch.setattr(UnknownTopicOrPartitionError, "retriable", False)
        assert "there is no topic 't'" in minikafka(*read).err
