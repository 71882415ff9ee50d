"""The client commands against Apache Kafka; skipped without an oracle."""

import json
from pathlib import Path

import pytest
from support.clients import eventually
from support.command_line import Minikafka
from support.oracle import Oracle, needs_oracle

from minikafka.protocol.errors import UnknownTopicOrPartitionError


def partitions(listed: str) -> dict[str, int]:
    return {one["name"]: one["partitions"] for one in json.loads(listed)}


def ask_about_the_cluster(minikafka: Minikafka, at: tuple[str, ...]) -> None:
    """The commands for those who run a cluster; the topic t has three partitions and 1,013 records."""
    assert [one.split()[:4] for one in minikafka("brokers", *at).lines[1:]] == [["1", at[1], "-", "live"]]
    assert minikafka("health", *at).code == 0
    frame = json.loads(minikafka("top", "--count", "1", "--json", *at).out)
    assert [(one["topic"], one["partitions"]) for one in frame["topics"]] == [("t", 3)]
    found = json.loads(minikafka("offsets", "t", "--json", *at).out)
    assert sum(one["end"] - one["first"] for one in found) == 1013
    assert minikafka("delete-records", "t", "--all", *at).code == 0
    assert sum(one["end"] - one["first"] for one in json.loads(minikafka("offsets", "t", "--json", *at).out)) == 0
    assert minikafka("offsets", "t", "--newest", *at).code == 0
    assert json.loads(minikafka("producers", "t", "--json", *at).out) != []
    replicas = json.loads(minikafka("log-dirs", "t", "--json", *at).out)[0]["replicas"]
    assert [one["partition"] for one in replicas] == [0, 1, 2]
    levels = json.loads(minikafka("features", "describe", "--json", *at).out)["features"]
    assert {"metadata.version", "transaction.version"} <= {one["name"] for one in levels}
    assert minikafka("features", "downgrade", "transaction.version=1", "--dry-run", *at).code == 0
    versions = json.loads(minikafka("api-versions", "--broker", "1", "--json", *at).out)
    assert {"Produce", "Fetch", "DescribeTopicPartitions"} <= {one["name"] for one in versions}
    settings = (("topic", "t", "retention.ms"), ("group", "g2", "consumer.session.timeout.ms"))
    for kind, name, setting in settings:
        assert minikafka("configs", "alter", kind, name, "--set", f"{setting}=50000", *at).code == 0
        eventually(lambda kind=kind, name=name: "50000" in minikafka("configs", "describe", kind, name, *at).out)
    assert minikafka("configs", "alter", "client", "app", "--set", "producer_byte_rate=1048576", *at).code == 0
    eventually(lambda: "client-id app" in minikafka("configs", "describe", "client", *at).out)
    assert "node.id" in minikafka("configs", "describe", "broker", *at).out


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_client_command_against_apache_kafka(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Oracle(tmp_path / "kafka") as kafka:
        at = ("-b", kafka.bootstrap)
        assert minikafka("topics", "create", "t", "--partitions", "2", "--config", "segment.ms=60000", *at).code == 0
        assert minikafka("topics", "alter", "t", "--partitions", "3", "--delete-config", "segment.ms", *at).code == 0
        eventually(lambda: partitions(minikafka("topics", "list", "--json", *at).out) == {"t": 3})
        words = ("--key-separator", ":", "--compression-type", "zstd", *at)
        ran = minikafka("produce", "t", *words, stdin=b"a:1\nb:2\n")
        assert ran.err.startswith("2 records to t")
        read = ("consume", "t", "--from-beginning", *at)
        assert sorted(minikafka(*read, "-n", "2", "--format", "%k=%v").lines) == ["a=1", "b=2"]
        runs = [minikafka(*read, "--group", "g", "-n", "1") for _ in range(2)]
        assert sorted(ran.lines[0] for ran in runs) == ["1", "2"], runs
        shift = ("groups", "reset-offsets", "g", "--all-topics", "--shift-by", "-1", "--execute")
        assert minikafka(*shift, *at).code == 0
        lags = json.loads(minikafka("groups", "lag", "g", "--json", *at).out)
        assert [one["lag"] for one in lags if one["end"]] == [1] * len({one["partition"] for one in lags if one["end"]})
        assert minikafka("groups", "members", "g", *at).err == "Consumer group 'g' has no active members.\n"
        assert minikafka("groups", "delete", "g", *at).out == "Deleted group g.\n"
        assert "group 'g' does not exist" in minikafka("groups", "describe", "g", *at).err
        assert minikafka("perf", "produce", "t", "--records", "1000", *at).code == 0
        assert minikafka("perf", "latency", "t", "--records", "10", *at).code == 0
        assert minikafka("perf", "consume", "t", *at).out.startswith("1,013 records read")
        ask_about_the_cluster(minikafka, at)
        assert minikafka("topics", "delete", "t", *at).out == "Deleted topic t.\n"
        eventually(lambda: partitions(minikafka("topics", "list", "--json", *at).out) == {})
        monkeypatch.setattr(UnknownTopicOrPartitionError, "retriable", False)
        assert "topic 't' does not exist" in minikafka(*read).err
