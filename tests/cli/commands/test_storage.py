"""`minikafka storage`: directories that it formats, nodes that start with them, and Kafka as the judge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.command_line import Minikafka
from support.controller_process import free_port, standalone_node
from support.node import NodeProcess
from support.oracle import Oracle, needs_oracle, run_tool, tool

from minikafka.client.blocking import Admin

CLUSTER = "AAAAAAAAAAAAAAAAAAAAKg"
DIRECTORY = "OE8e3QHzSYiQ4sEexampAA"
LEVELS = {"metadata.version": 29, "transaction.version": 1}


def config_of(folder: Path, voters: str = "", port: int = 9093, client_port: int = 0) -> Path:
    """The file of a node that is broker and controller; without voters its quorum can change."""
    path = folder / "server.properties"
    quorum = f"controller.quorum.voters={voters}" if voters else f"controller.quorum.bootstrap.servers=127.0.0.1:{port}"
    path.write_text(
        "node.id=1\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{port}\n"
        "inter.broker.listener.name=PLAINTEXT\noffsets.topic.replication.factor=1\n"
        f"{quorum}\nlog.dirs={folder / 'data'},{folder / 'more'}\n"
    )
    return path


def levels_at(bootstrap: str) -> dict[str, int]:
    with Admin(bootstrap) as admin:
        found = {one.name: one.level for one in admin.describe_features().features}
    return {name: found[name] for name in LEVELS}


def test_directories_are_formatted_and_described(minikafka: Minikafka, tmp_path: Path) -> None:
    config = str(config_of(tmp_path))
    before = minikafka("storage", "info", "--config", config)
    assert (before.code, before.lines[0]) == (1, "Found problems:")
    ran = minikafka("storage", "format", "-c", config, "-t", CLUSTER, "--standalone", "-r", "4.2")
    assert ran.lines == [
        f"Formatting dynamic metadata voter directory {tmp_path}/data with metadata.version 4.2-IV1.",
        f"Formatting data directory {tmp_path}/more with metadata.version 4.2-IV1.",
    ]
    after = minikafka("storage", "info", "-c", config)
    assert after.code == 0
    assert after.lines[:3] == ["Found log directories:", f"  {tmp_path}/data", f"  {tmp_path}/more"]
    assert f"cluster.id={CLUSTER}, directory.id=" in after.out
    again = minikafka("storage", "format", "-c", config, "-t", CLUSTER, "--standalone")
    assert (again.code, "is already formatted" in again.err) == (1, True)
    (tmp_path / "more" / "meta.properties").write_text("nonsense")
    broken = minikafka("storage", "info", "-c", config)
    assert (broken.code, "has a line without '='" in broken.out) == (1, True)


def test_options_that_do_not_fit(minikafka: Minikafka, tmp_path: Path) -> None:
    place = ("-c", str(config_of(tmp_path)), "-t", CLUSTER)
    ran = minikafka("storage", "format", *place, "-s", "-N")
    assert (ran.code, ran.err.startswith("Error: only one of --standalone")) == (2, True)
    assert minikafka("storage", "format", *place, "-s", "-f", "transaction.version=x").code == 2
    assert minikafka("storage", "format", *place[:2], "-t", "", "-s").code == 2
    assert "No feature:transaction.version" in minikafka(
        "storage", "format", *place, "-s", "-f", "transaction.version=9"
    ).err
    assert not (tmp_path / "data").exists()


def test_random_ids(minikafka: Minikafka) -> None:
    ids = {minikafka("storage", "random-uuid").out for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch(r"[\w-]{22}\n", one) for one in ids)


@pytest.mark.slow
def test_a_node_starts_with_what_it_was_formatted_with(minikafka: Minikafka, tmp_path: Path) -> None:
    node, (_, port) = standalone_node(tmp_path / "data")
    config = config_of(tmp_path, f"1@127.0.0.1:{port}", port, node.port)
    features = [word for name, level in LEVELS.items() for word in ("-f", f"{name}={level}")]
    ran = minikafka("storage", "format", "-c", str(config), "-t", CLUSTER, *features)
    assert ran.lines[0] == f"Formatting metadata directory {tmp_path}/data with metadata.version 4.2-IV1."
    with node:
        assert levels_at(node.bootstrap) == LEVELS
        with Admin(node.bootstrap) as admin:
            assert admin.describe_cluster().cluster_id == CLUSTER


@pytest.mark.slow
def test_levels_that_cannot_be_read_are_refused_at_start(minikafka: Minikafka, tmp_path: Path) -> None:
    node, _ = standalone_node(tmp_path / "data")
    config = config_of(tmp_path, "1@127.0.0.1:9093")
    assert minikafka("storage", "format", "-c", str(config), "-t", CLUSTER).code == 0
    path = tmp_path / "data" / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(Exception, match=r"bootstrap\.checkpoint"):
        node.start()


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_tools_read_what_is_formatted_here(minikafka: Minikafka, tmp_path: Path) -> None:
    config = str(config_of(tmp_path))
    voters = f"1@127.0.0.1:9093:{DIRECTORY},2@127.0.0.1:9094:MJLEMSSxRLKOsMYEkXyvFA"
    assert minikafka("storage", "format", "-c", config, "-t", CLUSTER, "-I", voters).code == 0
    shown = f"cluster.id={CLUSTER}, directory.id={DIRECTORY}, node.id=1, version=1"
    assert shown in tool("storage", "info", "-c", config)
    again = run_tool("storage", "format", "-c", config, "-t", CLUSTER, "-I", voters, "-g")
    assert "All of the log directories are already formatted." in again.stdout
    first = tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint"
    decode = ("--cluster-metadata-decoder", "--files")
    for file in (first, tmp_path / "data" / "bootstrap.checkpoint"):
        said = tool("dump-log", *decode, file)
        assert "isvalid: true" in said
        assert "isvalid: false" not in said
    assert '"name":"metadata.version","featureLevel":30' in said


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_starts_with_what_is_formatted_here(minikafka: Minikafka, tmp_path: Path) -> None:
    """The only voter, in a quorum whose voters can change."""
    node = Oracle(tmp_path)
    folder = tmp_path / "node-1"
    folder.mkdir()
    config = config_of(folder, port=node.port + 100, client_port=node.port)
    features = [word for name, level in LEVELS.items() for word in ("-f", f"{name}={level}")]
    assert minikafka("storage", "format", "-c", str(config), "-t", CLUSTER, "--standalone", *features).code == 0
    with node:
        assert levels_at(node.bootstrap) == LEVELS
        with Admin(node.bootstrap) as admin:
            assert admin.describe_cluster().cluster_id == CLUSTER
            [voter] = admin.describe_quorum().voters
        assert f"directory.id={voter.directory_id}" in (folder / "data" / "meta.properties").read_text()


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_node_starts_with_what_kafka_has_formatted(tmp_path: Path, dynamic: bool) -> None:
    """Features that minikafka has not, such as share.version, are left out."""
    port, client_port = free_port(), free_port()
    quorum = {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
    if dynamic:
        quorum = {"controller.quorum.bootstrap.servers": f"127.0.0.1:{port}"}
    config = config_of(tmp_path, quorum.get("controller.quorum.voters", ""), port, client_port)
    features = ("-r", "4.2", "-f", "transaction.version=1", *(["--standalone"] if dynamic else []))
    tool("storage", "format", "-c", config, "-t", CLUSTER, *features)
    listeners = f"PLAINTEXT://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{port}"
    given = quorum | {"controller.listener.names": "CONTROLLER", "listeners": listeners}
    given["log.dirs"] = f"{tmp_path}/data,{tmp_path}/more"
    with NodeProcess(tmp_path / "data", settings=given, port=client_port) as node:
        assert levels_at(node.bootstrap) == LEVELS
        with Admin(node.bootstrap) as admin:
            assert admin.describe_cluster().cluster_id == CLUSTER
            [voter] = admin.describe_quorum().voters
    properties = (tmp_path / "data" / "meta.properties").read_text()
    assert (f"directory.id={voter.directory_id}" in properties) == dynamic
