"""`minikafka brokers`, `health`, `log-dirs`, `features` and `api-versions`; Kafka's own tools are the judges."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.command_line import Minikafka
from support.node import NodeProcess
from support.oracle import needs_oracle, tool

from minikafka.cli.commands.api_versions import details
from minikafka.cli.commands.brokers import broker_details, broker_lines
from minikafka.cli.commands.health import VOTER_PATIENCE_MS, Check, disks_check, partition_checks, silent_voters
from minikafka.cli.commands.log_dirs import directory_details, directory_lines, size_text
from minikafka.client import ApiVersionRange, ClusterDescription, LogDirectory, QuorumDescription, QuorumReplica
from minikafka.client.connections.cluster_metadata import Broker, Partition, Topic
from minikafka.protocol.errors import KafkaStorageError, RequestTimedOutError

FEATURE = re.compile(r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+")
API = re.compile(r"(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]")


def test_a_cluster_of_one_broker(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    found = json.loads(minikafka("brokers", "--json").out)
    (one,) = found["brokers"]
    assert (one["broker"], f"{one['host']}:{one['port']}") == (1, node.bootstrap)
    assert (one["state"], one["quorum"], one["leads"] == one["in_sync"]) == ("live", "leader", True)
    assert minikafka("brokers").lines[1].split()[:5] == ["1", node.bootstrap, "-", "live", "leader"]


async def never(admin: Any) -> None:
    await anyio.sleep_forever()


async def refuses(admin: Any) -> None:
    raise RequestTimedOutError("no leader")


SILENT = [(never, "no controller has answered within 0.01 s"), (refuses, "no leader")]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("quorum", "why"), SILENT, ids=["never", "refuses"])
def test_brokers_are_listed_though_no_controller_answers(
    minikafka: Minikafka, node: NodeProcess, monkeypatch: pytest.MonkeyPatch, quorum: Any, why: str
) -> None:
    monkeypatch.setattr("minikafka.cli.commands.brokers.QUORUM_PATIENCE_S", 0.01)
    monkeypatch.setattr("minikafka.client.Admin.describe_quorum", quorum)
    ran = minikafka("brokers")
    assert ran.code == 0
    assert ran.lines[1].split()[:5] == ["1", node.bootstrap, "-", "live", "-"]
    assert ran.err.startswith(f"The controller quorum is not known: {why}")
    assert json.loads(minikafka("brokers", "--json").out)["brokers"][0]["quorum"] is None


NOW = 1_700_000_000_000


def test_brokers_that_are_fenced_or_behind() -> None:
    cluster = ClusterDescription("c", 1, [Broker(2, "b", 2, "r"), Broker(1, "a", 1, None)], frozenset({2}))
    topics = [Topic("t", partitions=(Partition(0, 1, 0, (1, 2), (1,)),))]
    rows = broker_details(cluster, topics, QuorumDescription(3, 1, 9, [QuorumReplica(1, 9), QuorumReplica(3, 9)], []))
    assert broker_lines(rows) == [
        "BROKER  ADDRESS  RACK  STATE   QUORUM    LEADS  REPLICAS  IN SYNC",
        "     1  a:1      -     live    voter         1         1        1",
        "     2  b:2      r     fenced  observer      0         1        0",
    ]


def test_a_cluster_that_is_well(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("health", "--timeout", "60")
    assert (ran.code, ran.lines[0]) == (0, "ok    brokers: 1 of 1 answer")
    found = json.loads(minikafka("health", "--timeout", "60", "--json").out)
    assert found["healthy"]
    assert [one["check"] for one in found["checks"]] == [
        "brokers",
        "controller",
        "disks",
        "offline",
        "under-min-isr",
        "under-replicated",
    ]


@pytest.mark.parametrize(
    ("fetched", "says"),
    [
        (NOW, []),
        (NOW - VOTER_PATIENCE_MS, []),
        (NOW - VOTER_PATIENCE_MS - 1, ["voter 2 has not fetched the metadata log for 10 s"]),
        (-1, ["voter 2 has not fetched the metadata log since node 1 leads"]),
    ],
)
def test_a_voter_that_does_not_follow_is_a_problem_and_an_observer_is_none(fetched: int, says: list[str]) -> None:
    voters = [QuorumReplica(1, 9, NOW, NOW), QuorumReplica(2, 9, fetched, fetched)]
    assert silent_voters(QuorumDescription(1, 1, 9, voters, [QuorumReplica(3, 1)])) == says
    untold = [QuorumReplica(1, 9), QuorumReplica(2, 9)]
    assert silent_voters(QuorumDescription(1, 1, 9, untold, [])) == [], "a broker that tells no times"


def test_partitions_that_are_not_well() -> None:
    two_in_sync, one_in_sync = Partition(0, 1, 0, (1, 2, 3), (1, 2)), Partition(1, 2, 0, (1, 2, 3), (2,))
    topic = Topic("t", partitions=(two_in_sync, one_in_sync, Partition(2, -1, 0, (3,), ())))
    offline, under_min, under = partition_checks([topic], {"t": 2}, {1, 2, 3})
    assert offline.problems == ["t-2 has no leader"]
    assert under_min.problems == [
        "t-1 has 1 of 3 replicas in sync, min.insync.replicas=2",
        "t-2 has 0 of 1 replica in sync, min.insync.replicas=2",
    ]
    assert under.line.startswith("FAIL  under-replicated: t-0 has 2 of 3 replicas in sync; t-1 has")
    assert Check("x", list("abcdefg")).line == "FAIL  x: a; b; c; d; e, and 2 more"


@pytest.mark.parametrize("live", [set(some) for size in range(4) for some in combinations((1, 2, 3), size)])
def test_only_replicas_at_brokers_that_answer_count(live: set[int]) -> None:
    """The metadata still have brokers in sync that were killed a moment ago, or while there is no controller."""
    topic = Topic("t", partitions=(Partition(0, 1, 0, (1, 2, 3), (1, 2, 3)),))
    offline, under_min, under = partition_checks([topic], {"t": 2}, live)
    assert offline.problems == ([] if 1 in live else ["t-0 has a leader, 1, that does not answer"])
    says = f"t-0 has {len(live)} of 3 replicas in sync"
    assert under_min.problems == ([] if len(live) >= 2 else [f"{says}, min.insync.replicas=2"])
    assert under.problems == ([] if len(live) == 3 else [says])


@pytest.mark.parametrize(("usable", "full"), [(-1, False), (0, True), ((1 << 21) - 1, True), (1 << 21, False)])
def test_a_full_disk_is_a_problem(usable: int, full: bool) -> None:
    one = LogDirectory("/data", None, 1 << 40 if usable >= 0 else -1, usable, {})
    details = directory_details(7, one, ())
    assert details["full"] is full
    assert directory_lines([details])[1].split()[2] == ("full" if full else "ok")
    says = f"the disk of /data of broker 7 is full: {size_text(usable)} of 1.0 TiB left"
    assert disks_check({7: [one]}).problems == ([says] if full else [])
    assert disks_check({7: "broker 7 does not answer within 1 s"}).problems == []


def test_a_failed_directory_is_a_problem() -> None:
    one = LogDirectory("/data", KafkaStorageError("gone"), -1, -1, {})
    (problem,) = disks_check({7: [one], 8: []}).problems
    assert problem.startswith("/data of broker 7: ")


@pytest.mark.usefixtures("impatient")
def test_health_of_a_cluster_that_is_not_there(minikafka: Minikafka) -> None:
    ran = minikafka("health", "-b", "127.0.0.1:1", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["healthy"]) == (1, False)
    assert "no answer by way of 127.0.0.1:1" in found["checks"][0]["problems"][0]


@pytest.mark.slow
def test_health_notices_a_broker_that_hangs(tmp_path: Path, minikafka: Minikafka) -> None:
    with NodeProcess(tmp_path / "data") as alone:
        assert minikafka("health", "-b", alone.bootstrap, "--timeout", "60").code == 0
        alone.pause()
        ran = minikafka("health", "-b", alone.bootstrap, "--timeout", "0.2")
        alone.resume()
        assert (ran.code, ran.out.startswith("FAIL  brokers: no answer by way of")) == (1, True), ran
        assert "within 200 ms" in ran.out
        assert minikafka("health", "-b", alone.bootstrap, "--timeout", "60").code == 0


def test_directories_and_replicas(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    assert minikafka("produce", topic, stdin=b"one\n").code == 0
    (one,) = json.loads(minikafka("log-dirs", topic, "--json").out)
    assert (one["broker"], one["error"], one["path"]) == (1, None, str(node.data_dir))
    (replica,) = one["replicas"]
    assert (replica["topic"], replica["partition"], replica["lag"], replica["future"]) == (topic, 0, 0, False)
    assert replica["size_bytes"] == one["size_bytes"] > 0
    row = minikafka("log-dirs", topic, "--replicas", "--broker", "1").lines[1].split()
    assert row == ["1", topic, "0", str(one["size_bytes"]), "0", "current", str(node.data_dir)]
    assert minikafka("log-dirs").lines[1].split()[:3] == ["1", str(node.data_dir), "ok"]
    assert "broker 7 is not a live broker" in minikafka("log-dirs", "--broker", "7").err


def test_a_directory_that_has_failed() -> None:
    failed = directory_details(3, LogDirectory("/d", KafkaStorageError("/d: disk error"), -1, -1, {}), ())
    assert directory_lines([failed])[1].split() == ["3", "/d", "/d:", "disk", "error", "0", "0", "B", "-", "-"]
    assert [size_text(size) for size in (1023, 1024, 5 << 30, 3 << 40)] == ["1023 B", "1.0 KiB", "5.0 GiB", "3.0 TiB"]


def test_features_and_their_levels(minikafka: Minikafka) -> None:
    found = json.loads(minikafka("features", "describe", "--json").out)
    levels = {one["name"]: one["level"] for one in found["features"]}
    assert levels["transaction.version"] == 2
    shown = [line.split() for line in minikafka("features", "describe", "--broker", "1").lines]
    assert ["transaction.version", "2", "0", "2"] in shown
    lower = ("features", "downgrade", "transaction.version=1", "--dry-run")
    assert minikafka(*lower).out == "transaction.version can be set to level 1.\n"
    assert json.loads(minikafka(*lower, "--json").out)[0]["changed"] is False
    assert json.loads(minikafka("features", "describe", "--json").out) == found
    refused = minikafka("features", "upgrade", "bogus=1")
    assert (refused.code, "Invalid update version 1 for feature bogus" in refused.err) == (1, True)
    unreadable = minikafka("features", "upgrade", "transaction.version=two")
    assert (unreadable.code, "a level is a number" in unreadable.err) == (2, True)


def test_levels_are_changed(minikafka: Minikafka) -> None:
    def level() -> int:
        found = json.loads(minikafka("features", "describe", "--json").out)["features"]
        return int(next(one["level"] for one in found if one["name"] == "group.version"))

    assert minikafka("features", "disable", "group.version").code == 0
    assert level() == 0
    assert minikafka("features", "upgrade", "group.version=1").out == "group.version is now at level 1.\n"
    assert level() == 1


def test_versions_of_apis(minikafka: Minikafka) -> None:
    found = {one["name"]: one for one in json.loads(minikafka("api-versions", "--broker", "1", "--json").out)}
    assert found["ApiVersions"]["first"] == 0
    assert all(one["used"] is not None for one in found.values())
    assert minikafka("api-versions").lines[1].split()[:2] == ["0", "Produce"]
    assert details(ApiVersionRange(999, "API 999", 0, 1))["used"] is None
    assert details(ApiVersionRange(18, "ApiVersions", 90, 91))["used"] is None


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_tools_show_the_same(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    assert minikafka("produce", topic, stdin=b"one\n").code == 0
    at = ("--bootstrap-server", node.bootstrap)
    printed = json.loads(tool("log-dirs", *at, "--describe", "--topic-list", topic).splitlines()[-1])
    (ours,) = json.loads(minikafka("log-dirs", topic, "--json").out)
    (theirs,) = printed["brokers"][0]["logDirs"]
    assert (theirs["logDir"], theirs["error"]) == (ours["path"], ours["error"])
    (replica,) = theirs["partitions"]
    names = {"partition": f"{topic}-0", "size": ours["size_bytes"], "offsetLag": 0, "isFuture": False}
    assert replica == names

    features = json.loads(minikafka("features", "describe", "--json").out)["features"]
    described = FEATURE.findall(tool("features", *at, "describe"))
    assert [name for name, _, _ in described] == [one["name"] for one in features]
    numbered = {name: (int(low), int(high)) for name, low, high in described if low.isdecimal()}
    known = {one["name"]: (one["supported_min"], one["supported_max"]) for one in features}
    assert numbered.items() <= known.items()

    versions = {one["name"]: one for one in json.loads(minikafka("api-versions", "--json").out)}
    listed = API.findall(tool("broker-api-versions", *at))
    assert {name: (int(key), int(first), int(last or first)) for name, key, first, last, _ in listed} == {
        name: (one["key"], one["first"], one["last"]) for name, one in versions.items()
    }
