"""A cluster's directory is no data directory, and the other way round: a node moves away what it does not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from support.command_line import Minikafka

from minikafka.broker.node.directory_kinds import why_no_data_directory, why_not_together
from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.local_cluster import LocalCluster

CLUSTER = ["cluster", "cluster status", "cluster stop", "cluster restart"]


@pytest.fixture(autouse=True)
def log_of_the_node() -> Iterator[None]:
    """A node that starts in this process logs to the standard error that it finds."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """The data directory of a single node."""
    directory = tmp_path / "single"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    return directory


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """The directory of a cluster, whose first node has data."""
    cluster = LocalCluster(tmp_path / "several", brokers=2)
    cluster.data(1).mkdir()
    (cluster.data(1) / "meta.properties").write_text("version=1\nnode.id=1\n")
    return cluster.directory


def files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


@pytest.mark.parametrize("command", CLUSTER)
def test_a_single_node_is_no_cluster(command: str, single: Path, minikafka: Minikafka) -> None:
    before = files(single)
    ran = minikafka(*command.split(), "--data-dir", str(single))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"Error: {single} has the data of a single node, which `minikafka server --data-dir {single}` runs: "
        "a cluster needs a directory of its own\n"
    )
    assert files(single) == before


@pytest.mark.parametrize("command", CLUSTER)
@pytest.mark.parametrize("folder", ["node-1", "node-1/data", "node-2"])
def test_one_node_is_not_the_cluster(command: str, folder: str, several: Path, minikafka: Minikafka) -> None:
    before = files(several)
    ran = minikafka(*command.split(), "--data-dir", str(several / folder))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f" is of one node of a cluster: that of all nodes is --data-dir {several}\n")
    assert files(several) == before


NAMED = {
    "--data-dir": ["--data-dir", "{}"],
    "log.dirs": ["--set", "log.dirs=/nowhere,{}"],
    "log.dir": ["--set", "log.dir={}"],
    "metadata.log.dir": ["--data-dir", "/nowhere", "--set", "metadata.log.dir={}"],
}


@pytest.mark.parametrize("named", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("folder", [".", "node-1", "node-2"])
def test_a_node_by_hand_does_not_take_the_directory_of_a_cluster(
    folder: str, named: list[str], several: Path, minikafka: Minikafka
) -> None:
    before = files(several)
    ends = ["--set", "listeners=PLAINTEXT://192.0.2.1:9"]  # A node that is not refused ends, too.
    ran = minikafka("server", *ends, *(one.format(several / folder) for one in named))
    assert (ran.code, ran.out) == (1, "")
    node = "node-2" if folder == "node-2" else "node-1"
    assert f"`minikafka server --config {several}/{node}/server.properties`" in ran.err
    assert files(several) == before


TOGETHER = {
    "inside": ("{0}/a,{0}/a/b", "", "{0}/a/b is inside of {0}/a, a data directory"),
    "inside, the other way round": ("{0}/a/b,{0}/a", "", "{0}/a/b is inside of {0}/a, a data directory"),
    "deep inside": ("{0}/a,{0}/c,{0}/a/b/c", "", "{0}/a/b/c is inside of {0}/a, a data directory"),
    "the metadata log": ("{0}/a", "{0}/a/metadata", "{0}/a/metadata is inside of {0}/a, a data directory"),
    "by a link": ("{0}/a,{0}/link/b", "", "{0}/link/b is inside of {0}/a, a data directory"),
    "twice by a slash": ("{0}/a,{0}/a/", "", "log.dirs names one directory twice, as {0}/a and as {0}/a/"),
    "twice by a link": ("{0}/a,{0}/link", "", "log.dirs names one directory twice, as {0}/a and as {0}/link"),
    "twice by dots": ("{0}/a,{0}/b/../a", "", "log.dirs names one directory twice, as {0}/a and as {0}/b/../a"),
}


@pytest.mark.parametrize(("log_dirs", "metadata_log_dir", "why"), TOGETHER.values(), ids=TOGETHER)
def test_directories_that_would_disturb_each_other_are_refused(
    log_dirs: str, metadata_log_dir: str, why: str, tmp_path: Path, minikafka: Minikafka
) -> None:
    home = tmp_path / "home"
    (home / "a").mkdir(parents=True)
    (home / "link").symlink_to("a")
    before = files(home)
    words = ["--set", "listeners=PLAINTEXT://192.0.2.1:9", "--set", f"log.dirs={log_dirs.format(home)}"]
    if metadata_log_dir:
        words += ["--set", f"metadata.log.dir={metadata_log_dir.format(home)}"]
    ran = minikafka("server", *words)
    assert (ran.code, ran.out) == (1, "")
    assert why.format(home) in ran.err
    assert files(home) == before


@pytest.mark.parametrize("command", ["server", *CLUSTER])
def test_a_comma_would_be_between_two_directories(command: str, tmp_path: Path, minikafka: Minikafka) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ran = minikafka(*command.split(), "--data-dir", str(home / "a,b"))
    assert (ran.code, ran.out) == (1, "")
    why = "has a comma, which separates directories in log.dirs: set log.dirs itself for several"
    assert ran.err == f"Error: {home}/a,b {why}\n"
    assert files(home) == []


def test_directories_beside_each_other_are_not(tmp_path: Path) -> None:
    a, b = str(tmp_path / "a"), str(tmp_path / "ab")
    assert not why_not_together([a, b], str(tmp_path / "metadata"))
    assert not why_not_together([a, b], a)
    assert not why_not_together([str(tmp_path / "x" / "a")], str(tmp_path / "x"))


def test_code_is_refused_them_too(single: Path, several: Path) -> None:
    for directory in (single, several / "node-1"):
        with pytest.raises(ClusterError, match=r" is of one node of a cluster|has the data of a single node"):
            LocalCluster(directory)


def test_a_data_directory_may_be_named_like_the_folder_of_a_node(tmp_path: Path) -> None:
    """With its settings in it, too: what a node does not know beside its logs it leaves alone."""
    directory = tmp_path / "node-1"
    directory.mkdir()
    (directory / "server.properties").write_text(f"log.dirs={directory}\n")
    assert why_no_data_directory(directory)
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    assert why_no_data_directory(directory) == ""


def test_a_cluster_whose_nodes_run_elsewhere_is_refused_and_left_as_it_is(several: Path) -> None:
    """It would be stopped at the end of the block, under those who use it."""
    config = several / "node-1" / "server.properties"
    before = config.read_text()
    like_a_node = [sys.executable, "-c", "input()", "server", "--config", str(config)]
    with subprocess.Popen(like_a_node, stdin=subprocess.PIPE) as running:
        (several / "node-1" / "pid").write_text(f"{running.pid}\n")
        cluster = LocalCluster(several, settings={"num.partitions": 7})
        with pytest.raises(ClusterError, match=rf"node 1 of .* is already running \(pid {running.pid}\)"), cluster:
            raise AssertionError("the block was entered")
        assert running.poll() is None
        assert config.read_text() == before
        running.kill()
