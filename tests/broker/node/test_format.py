"""Formatting data directories: which files, which refusals, and what remains of a format that was interrupted."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from minikafka.broker.node.format import (
    CannotFormat,
    Voters,
    feature_levels,
    first_voters,
    format_directories,
)
from minikafka.broker.settings.node_config import NodeConfig, load_config
from minikafka.controller.metadata.formatted_levels import Formatted, read_formatted
from minikafka.controller.quorum.bootstrap_checkpoint import read_bootstrap_checkpoint
from minikafka.controller.raft.voter_set import VoterEndpoint, VoterSet
from minikafka.protocol.names import uuid_text
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.checkpoint_files import read_properties
from minikafka.storage.disks.disk import Disk, RealDisk
from minikafka.storage.disks.memory_disk import MemoryDisk, PowerLoss

CLUSTER, OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAKg", "BBBBBBBBBBBBBBBBBBBBKg"
DIRECTORY = "OE8e3QHzSYiQ4sEexampAA"
STANDALONE, JOINS = Voters(standalone=True), Voters(none_yet=True)


def config(roles: str = "controller", **settings: str) -> NodeConfig:
    listeners = {"controller": "CONTROLLER://127.0.0.1:9093", "broker": "PLAINTEXT://127.0.0.1:9092"}
    given = {
        "node.id": "1",
        "process.roles": roles,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners[role] for role in roles.split(",")),
        "log.dirs": "/a,/b",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    if "controller.quorum.voters" not in given:
        given["controller.quorum.bootstrap.servers"] = "127.0.0.1:9093"
    return load_config(properties=given)


FIXED = {"controller_quorum_voters": "1@127.0.0.1:9093"}


def formatted(
    disk: Disk,
    node: NodeConfig,
    voters: Voters = STANDALONE,
    *,
    cluster_id: str = CLUSTER,
    ignore_formatted: bool = False,
) -> list[str]:
    random = Random(7)
    return format_directories(
        disk,
        node,
        cluster_id,
        formatted=Formatted(feature_levels(None, {}, voters=voters, fixed=False)),
        voters=first_voters(node, voters, random),
        ignore_formatted=ignore_formatted,
        now_ms=1_795_000_000_000,
        random=random,
    )


def test_a_controller_alone_is_the_first_voter() -> None:
    disk = MemoryDisk(Random(0))
    assert formatted(disk, config()) == [
        "Formatting dynamic metadata voter directory /a with metadata.version 4.3-IV0.",
        "Formatting data directory /b with metadata.version 4.3-IV0.",
    ]
    found = read_properties(disk, "/a/meta.properties")
    assert found is not None
    assert {name: found[name] for name in ("version", "node.id", "cluster.id")} == {
        "version": "1",
        "node.id": "1",
        "cluster.id": CLUSTER,
    }
    first = read_bootstrap_checkpoint(disk, "/a")
    assert first is not None
    assert (first.kraft_version, isinstance(first.voters, VoterSet)) == (1, True)
    [voter] = list(first.voters)
    assert (voter.key.id, uuid_text(voter.key.directory_id)) == (1, found["directory.id"])
    assert voter.endpoints == (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),)
    assert read_bootstrap_checkpoint(disk, "/b") is None
    assert read_formatted(disk, "/a") == read_formatted(disk, "/b")
    other = read_properties(disk, "/b/meta.properties")
    assert other is not None
    assert other["directory.id"] != found["directory.id"]


def test_initial_controllers_know_each_other_by_their_directories() -> None:
    text = f"1@127.0.0.1:9093:{DIRECTORY}, 2@[::1]:9094:MJLEMSSxRLKOsMYEkXyvFA"
    disk = MemoryDisk(Random(0))
    assert "dynamic metadata voter" in formatted(disk, config(), Voters(initial=text))[0]
    first = read_bootstrap_checkpoint(disk, "/a")
    assert first is not None
    assert [(one.key.id, *one.endpoints) for one in first.voters] == [
        (1, ("CONTROLLER", "127.0.0.1", 9093)),
        (2, ("CONTROLLER", "::1", 9094)),
    ]
    properties = read_properties(disk, "/a/meta.properties")
    assert properties is not None
    assert properties["directory.id"] == DIRECTORY
    other = formatted(MemoryDisk(Random(0)), config(node_id="3"), Voters(initial=text))
    assert other[0].startswith("Formatting dynamic metadata directory /a ")


def test_a_node_that_joins_names_no_voters() -> None:
    for node in (config(), config("broker")):
        disk = MemoryDisk(Random(0))
        assert formatted(disk, node, JOINS)[0].startswith("Formatting metadata directory /a ")
        assert read_bootstrap_checkpoint(disk, "/a") is None


@pytest.mark.parametrize(
    ("node", "voters", "words"),
    [
        (config("broker"), STANDALONE, "You can only use --standalone on a controller"),
        (config("broker"), Voters(initial="1"), "You can only use --initial-controllers on a controller"),
        (config(**FIXED), STANDALONE, "You cannot specify controller.quorum.voters and format the node with"),
        (config(), Voters(), "Because controller.quorum.voters is not set on this controller, you must specify one of"),
        (config(), Voters(initial="1@127.0.0.1"), "is not ID@HOST:PORT:DIRECTORY_ID"),
        (config(), Voters(initial="1@127.0.0.1:5:short"), "invalid directory id"),
        (config(), Voters(initial=f"1@h:0:{DIRECTORY}"), "a port that is none"),
        (config(), Voters(initial="1@h:5:AAAAAAAAAAAAAAAAAAAAAA"), "reserved directory id"),
        (config(), Voters(initial=f"1@h:5:{DIRECTORY},1@h:6:{DIRECTORY}"), "two voters"),
        (config(), Voters(initial=" , "), "names no controller"),
    ],
)
def test_voters_that_cannot_be(node: NodeConfig, voters: Voters, words: str) -> None:
    disk = MemoryDisk(Random(0))
    with pytest.raises(CannotFormat, match=words):
        formatted(disk, node, voters)
    assert not disk.exists("/a")


def test_fixed_voters_and_a_node_that_is_the_whole_cluster_need_none() -> None:
    assert first_voters(config(**FIXED), Voters(), Random(0)) is None
    alone = load_config(properties={"log.dirs": "/a"})
    assert first_voters(alone, Voters(), Random(0)) is None
    with pytest.raises(CannotFormat, match="A voter needs a listener for controllers"):
        first_voters(alone, STANDALONE, Random(0))


@pytest.mark.parametrize(
    ("release", "given", "words"),
    [
        ("4.1", {"metadata.version": 27}, "Use --release-version instead of"),
        ("9.9", {}, "Unknown metadata.version '9.9'. Supported metadata.version are: 4.0-IV1"),
        ("3.9", {}, "Unknown metadata.version '3.9'"),
        (None, {"nonsense": 1}, "Unsupported feature: nonsense. Supported features are: eligible"),
        (None, {"transaction.version": 9}, "No feature:transaction.version with feature level 9"),
        (None, {"metadata.version": 22}, "No feature:metadata.version with feature level 22"),
        (None, {"kraft.version": 0}, "Cannot set kraft.version to 0 if"),
        (None, {"kraft.version": 2}, "No feature:kraft.version with feature level 2"),
    ],
)
def test_levels_that_cannot_be(release: str | None, given: dict[str, int], words: str) -> None:
    with pytest.raises(CannotFormat, match=words):
        feature_levels(release, given, voters=STANDALONE, fixed=False)


def test_levels() -> None:
    found = feature_levels("4.1", {"transaction.version": 1, "kraft.version": 1}, voters=JOINS, fixed=False)
    assert (found["metadata.version"], found["transaction.version"]) == (27, 1)
    assert "kraft.version" not in found
    assert next(iter(found)) == "metadata.version"
    assert "group.version" not in feature_levels(None, {"group.version": 0}, voters=JOINS, fixed=False)
    assert feature_levels(None, {"kraft.version": 0}, voters=Voters(), fixed=True)["metadata.version"] == 30
    with pytest.raises(CannotFormat, match=r"Cannot set kraft\.version to 1 unless"):
        feature_levels(None, {"kraft.version": 1}, voters=JOINS, fixed=True)


@pytest.mark.parametrize(
    ("release", "given"), [("4.0-IV1", {}), (None, {"metadata.version": 23}), ("4.0-IV2", {}), ("4.2", {}), (None, {})]
)
def test_a_release_begins_with_the_features_that_it_had(release: str | None, given: dict[str, int]) -> None:
    """Recorded from Kafka: transaction.version came with metadata.version 24. It has no eligible leader replicas before
    26, which here cannot be switched off."""
    found = feature_levels(release, given, voters=JOINS, fixed=False)
    others = {"group.version": 1, "eligible.leader.replicas.version": 1}
    if found["metadata.version"] > 23:
        others["transaction.version"] = 2
    assert {name: level for name, level in found.items() if name != "metadata.version"} == others


def test_formatted_directories_are_kept() -> None:
    disk = MemoryDisk(Random(0))
    formatted(disk, config())
    before = disk.read_bytes("/a/meta.properties")
    with pytest.raises(CannotFormat, match="Log directory /a is already formatted"):
        formatted(disk, config())
    done = formatted(disk, config(), ignore_formatted=True)
    assert done == ["All of the log directories are already formatted."]
    more = formatted(disk, config(log_dirs="/a,/b,/c"), ignore_formatted=True)
    assert more == ["Formatting data directory /c with metadata.version 4.3-IV0."]
    assert disk.read_bytes("/a/meta.properties") == before
    with pytest.raises(WrongDirectory, match=f"belong to cluster {CLUSTER}, not {OTHER_CLUSTER}"):
        formatted(disk, config(), cluster_id=OTHER_CLUSTER, ignore_formatted=True)
    with pytest.raises(WrongDirectory, match="belongs to node 1"):
        formatted(disk, config(node_id="2"), ignore_formatted=True)


def test_the_directory_of_a_running_node_is_not_formatted(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    directory.mkdir()
    running = RealDisk()
    running.lock(f"{directory}/.lock")
    with pytest.raises(BlockingIOError):
        formatted(RealDisk(), config(log_dirs=str(directory)))
    assert not (directory / "meta.properties").exists()
    running.unlock_all()
    assert formatted(RealDisk(), config(log_dirs=str(directory)))


def test_an_interrupted_format_can_be_repeated() -> None:
    """However many steps it came: a directory with a `meta.properties` has all other files, too."""
    for steps in range(200):
        disk = MemoryDisk(Random(steps))
        disk.lose_power_after(steps)
        try:
            formatted(disk, config())
        except PowerLoss:
            ended = False
        else:
            ended = True
        disk.crash()
        for directory in ("/a", "/b"):
            if disk.exists(f"{directory}/meta.properties"):
                assert read_formatted(disk, directory).levels
                assert (read_bootstrap_checkpoint(disk, directory) is not None) == (directory == "/a")
        formatted(disk, config(), ignore_formatted=True)
        assert read_properties(disk, "/b/meta.properties")
        if ended:
            assert steps > 10
            return
    raise AssertionError("never ended")
