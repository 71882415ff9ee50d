"""Kafka's own command line tools, unchanged, against minikafka.

Each call starts a JVM, which takes about a second, so the tests run only against minikafka by default. With
`PROVE_TOOLS=1` in the environment they run against Apache Kafka too: do so after changing one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.node import NodeProcess, ServerProcess
from support.oracle import Oracle, needs_oracle, run_tool, tool

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(300)]


NODES = ["minikafka", "kafka"] if os.environ.get("PROVE_TOOLS") else ["minikafka"]


class Tools:
    """The tools with `--bootstrap-server` filled in."""

    def __init__(self, bootstrap: str) -> None:
        self._place = ("--bootstrap-server", bootstrap)

    def __call__(self, name: str, *arguments: object, stdin: str | None = None) -> str:
        return tool(name, *self._place, *arguments, stdin=stdin)

    def refused(self, name: str, *arguments: object) -> str:
        """Runs a call that must fail; returns its output."""
        done = run_tool(name, *self._place, *arguments)
        assert done.returncode != 0, done.stdout
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data_dir = tmp_path_factory.mktemp("tools") / "data"
    with Oracle(data_dir) if request.param == "kafka" else NodeProcess(data_dir) as running:
        yield running


@pytest.fixture
def tools(node: ServerProcess) -> Tools:
    return Tools(node.bootstrap)


@pytest.fixture
def filled(tools: Tools, name: str) -> str:
    """A topic of one partition with the records a:1, b:2 and c:3."""
    tools("topics", "--create", "--topic", name)
    console_produce(tools, name, "a:1\nb:2\nc:3\n")
    return name


def console_produce(tools: Tools, topic: str, lines: str) -> None:
    reader = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tools("console-producer", "--topic", topic, *reader, stdin=lines)


def console_consume(tools: Tools, topic: str, count: int, *arguments: object) -> list[str]:
    said = tools(
        *("console-consumer", "--topic", topic, "--max-messages", count, "--timeout-ms", 60_000),
        *("--formatter-property", "print.key=true", *arguments),
    )
    return [line for line in said.splitlines() if "\t" in line]


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


def partition_dir(node: ServerProcess, topic: str) -> Path:
    logs = node.logs if isinstance(node, Oracle) else node.data_dir
    return logs / f"{topic}-0"


def test_topics_creates_lists_describes_alters_and_deletes(tools: Tools, name: str) -> None:
    settings = ("--config", "retention.ms=100000")
    assert name in tools("topics", "--create", "--topic", name, "--partitions", 2, *settings)
    assert name in tools("topics", "--list").splitlines()
    described = tools("topics", "--describe", "--topic", name)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1\s+Configs: .*retention.ms=100000", described)
    assert re.search(r"Partition: 1\s+Leader: 1\s+Replicas: 1\s+Isr: 1\b", described)
    tools("topics", "--alter", "--topic", name, "--partitions", 5)
    assert "PartitionCount: 5" in tools("topics", "--describe", "--topic", name)
    assert "already exists" in tools.refused("topics", "--create", "--topic", name)
    tools("topics", "--delete", "--topic", name)
    assert name not in tools("topics", "--list").splitlines()


def test_configs_alters_describes_and_deletes_settings_of_a_topic(tools: Tools, name: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", name)
    tools("topics", "--create", "--topic", name)
    tools("configs", "--alter", *entity, "--add-config", "max.message.bytes=4000,retention.ms=99000")
    described = tools("configs", "--describe", *entity)
    assert "max.message.bytes=4000" in described
    assert "retention.ms=99000" in described
    tools("configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools("configs", "--describe", *entity)
    assert "retention.ms=604800000" in tools("configs", "--describe", "--all", *entity)
    assert "retention.ms" in tools.refused("configs", "--alter", *entity, "--add-config", "retention.ms=soon")


def test_configs_describes_a_node(tools: Tools) -> None:
    described = tools("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", 1)
    assert "num.partitions=1" in described
    assert "log.segment.bytes=1073741824" in described


def test_the_console_producer_writes_what_the_console_consumer_reads(tools: Tools, filled: str) -> None:
    assert console_consume(tools, filled, 3, "--from-beginning") == ["a\t1", "b\t2", "c\t3"]
    assert console_consume(tools, filled, 1, "--partition", 0, "--offset", 2) == ["c\t3"]


def test_get_offsets_and_delete_records_agree(tools: Tools, filled: str, tmp_path: Path) -> None:
    assert tools("get-offsets", "--topic", filled).strip() == f"{filled}:0:3"
    assert tools("get-offsets", "--topic", filled, "--time", "earliest").strip() == f"{filled}:0:0"
    newest = tools("get-offsets", "--topic", filled, "--time", "max-timestamp").strip()
    assert newest in {f"{filled}:0:{offset}" for offset in range(3)}, "records of one millisecond tie"
    request = tmp_path / "delete.json"
    what = {"topic": filled, "partition": 0, "offset": 2}
    request.write_text(json.dumps({"partitions": [what], "version": 1}))
    assert "low_watermark: 2" in tools("delete-records", "--offset-json-file", request)
    assert tools("get-offsets", "--topic", filled, "--time", "earliest").strip() == f"{filled}:0:2"
    assert console_consume(tools, filled, 1, "--from-beginning") == ["c\t3"]


def test_log_dirs_shows_size_and_path(tools: Tools, node: ServerProcess, filled: str) -> None:
    said = tools("log-dirs", "--describe", "--topic-list", filled)
    [broker] = events(said)[0]["brokers"]
    [log_dir] = broker["logDirs"]
    [partition] = log_dir["partitions"]
    segment = partition_dir(node, filled) / f"{0:020}.log"
    assert partition == {"partition": f"{filled}-0", "size": segment.stat().st_size, "offsetLag": 0, "isFuture": False}
    assert Path(log_dir["logDir"]).samefile(segment.parent.parent)


def test_consumer_groups_lists_describes_resets_and_deletes(tools: Tools, filled: str) -> None:
    group = f"group-of-{filled}"
    assert len(console_consume(tools, filled, 3, "--from-beginning", "--group", group)) == 3
    assert group in tools("consumer-groups", "--list").splitlines()
    assert re.search(rf"{filled}\s+0\s+3\s+3\s+0\s", tools("consumer-groups", "--describe", "--group", group))
    assert re.search(r"Empty\s+0", tools("consumer-groups", "--describe", "--state", "--group", group))
    reset = ("--reset-offsets", "--group", group, "--topic", filled, "--to-offset", 1, "--execute")
    assert re.search(rf"{filled}\s+0\s+1", tools("consumer-groups", *reset))
    assert re.search(rf"{filled}\s+0\s+1\s+3\s+2\s", tools("consumer-groups", "--describe", "--group", group))
    assert console_consume(tools, filled, 2, "--group", group) == ["b\t2", "c\t3"]
    assert "successful" in tools("consumer-groups", "--delete", "--group", group)
    assert group not in tools("consumer-groups", "--list").splitlines()


def test_dump_log_reads_the_files_on_disk(tools: Tools, node: ServerProcess, filled: str) -> None:
    said = tool("dump-log", "--files", partition_dir(node, filled) / f"{0:020}.log", "--print-data-log")
    payloads = re.findall(r"offset: (\d+) .*key: (\w) payload: (\w)", said)
    assert payloads == [("0", "a", "1"), ("1", "b", "2"), ("2", "c", "3")]
    assert "isvalid: true" in said
    assert "isvalid: false" not in said


def test_dump_log_finds_the_indexes_in_agreement_with_the_log(tools: Tools, node: ServerProcess, name: str) -> None:
    tools("topics", "--create", "--topic", name, "--config", "index.interval.bytes=1")
    for _ in range(3):
        console_produce(tools, name, "".join(f"{n}:{n}\n" for n in range(20)))
    folder = partition_dir(node, name)
    index = tool("dump-log", "--files", folder / f"{0:020}.index", "--verify-index-only")
    assert "Mismatches" not in index
    times = tool("dump-log", "--files", folder / f"{0:020}.timeindex")
    assert "Found timestamp mismatch" not in times
    assert "out of order" not in times


def test_the_perf_tests_succeed(tools: Tools, name: str) -> None:
    tools("topics", "--create", "--topic", name, "--partitions", 3)
    produced = tools(
        *("producer-perf-test", "--topic", name, "--num-records", 20_000, "--record-size", 200),
        *("--throughput", -1),
    )
    assert "20000 records sent" in produced
    consumed = tools("consumer-perf-test", "--topic", name, "--num-records", 20_000, "--timeout", 60_000)
    assert consumed.splitlines()[-1].split(", ")[4] == "20000"


def test_the_verifiable_producer_and_consumer_agree(tools: Tools, name: str) -> None:
    tools("topics", "--create", "--topic", name)
    sent = events(tools("verifiable-producer", "--topic", name, "--max-messages", 500))
    acknowledged = [event for event in sent if event["name"] == "producer_send_success"]
    assert sorted(int(event["value"]) for event in acknowledged) == list(range(500))
    group = ("--group-id", f"group-of-{name}", "--reset-policy", "earliest")
    read = events(tools("verifiable-consumer", "--topic", name, *group, "--max-messages", 500))
    consumed = [event for event in read if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in consumed) == 500
    assert [event for event in read if event["name"] == "offsets_committed"][-1]["offsets"][0]["offset"] == 500


def test_broker_api_versions_understands_every_version_offered(tools: Tools) -> None:
    said = tools("broker-api-versions")
    assert re.search(r"\(id: 1 rack: null", said)
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", said)
    assert re.search(r"Fetch\(1\): 4 to \d+ \[usable: \d+\]", said)


def test_cluster_shows_the_cluster_id(node: ServerProcess) -> None:
    said = tool("cluster", "cluster-id", "--bootstrap-server", node.bootstrap)
    assert re.search(r"Cluster ID: \S{22}$", said.strip())


def test_features_are_described(tools: Tools) -> None:
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: ", tools("features", "describe"))


def test_metadata_quorum_is_described(tools: Tools) -> None:
    status = tools("metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", status)
    assert re.search(r"HighWatermark:\s+\d+", status)
    assert "Leader" in tools("metadata-quorum", "describe", "--replication")
