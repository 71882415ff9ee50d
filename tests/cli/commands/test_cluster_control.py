"""`minikafka cluster status`, `stop` and `restart`, `--attach`, and which process is known as a node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from support.clients import eventually
from support.command_line import Minikafka, command

from minikafka.cli import local_cluster
from minikafka.cli.clusters.node_process import pid_file_of_this_process, pid_of_node, send
from minikafka.cli.clusters.supervisor_lock import supervisor
from minikafka.cli.local_cluster import LocalCluster

SLEEP = "import time; time.sleep(600)"


@contextlib.contextmanager
def process(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is killed at the end, also of a test that fails."""
    with subprocess.Popen(words, **options) as running:
        try:
            yield running
        finally:
            running.kill()


@pytest.fixture
def run_cluster(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`minikafka cluster` with one node in `tmp_path/c`, ready; whatever becomes of it, no node is left behind."""
    words = command(["cluster", "--brokers", "1", "--port", "0", "--data-dir", str(tmp_path / "c")])
    with process(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("ready ")
        yield running
        running.kill()
    LocalCluster(tmp_path / "c").kill()


@pytest.mark.slow
def test_a_cluster_is_shown_restarted_and_stopped_by_other_commands(
    run_cluster: subprocess.Popen[str], minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ("--data-dir", str(tmp_path / "c"))
    shown = minikafka("cluster", "status", *at)
    assert (shown.code, shown.lines[0]) == (0, f"{tmp_path}/c: `minikafka cluster` runs it (pid {run_cluster.pid})")
    before = json.loads(minikafka("cluster", *at, "status", "--json").out)
    assert (before["pid"], before["leader"], len(before["nodes"])) == (run_cluster.pid, 1, 1)
    twice = minikafka("cluster", *at)
    assert (twice.code, f"already runs in {tmp_path}/c (pid {run_cluster.pid})" in twice.err) == (1, True)

    with monkeypatch.context() as patch:
        patch.setattr(local_cluster, "under_replicated", lambda admin: ["t-1"])
        patch.setattr(LocalCluster, "wait_in_sync", partialmethod(LocalCluster.wait_in_sync, 0.1))
        refused = minikafka("cluster", "restart", "1", *at)
    assert (refused.code, refused.out) == (1, "")
    assert "t-1. Node 1 was not restarted; if it is the cause itself" in refused.err
    assert "`minikafka cluster stop 1`, then `minikafka cluster restart 1`" in refused.err

    restarted = json.loads(minikafka("cluster", "restart", "1", *at, "--json").out)
    after = json.loads(minikafka("cluster", "status", *at, "--json").out)
    assert restarted == {"started": [], "restarted": [{"node": 1, "pid": after["nodes"][0]["pid"]}]}
    assert after["nodes"][0]["pid"] not in (None, before["nodes"][0]["pid"])
    assert minikafka("cluster", "stop", "1", *at).out == "Stopped node 1.\n"
    assert not (tmp_path / "c" / "node-1" / "pid").exists()
    down = minikafka("cluster", "status", *at)
    assert (down.code, "down" in down.lines[2].split(), down.lines[-1]) == (1, True, "no node runs")
    assert minikafka("cluster", "restart", *at).out == "Started node 1.\n"
    assert minikafka("cluster", "stop", *at).out == "Stopped node 1.\n"
    assert run_cluster.wait(60) == 0
    assert supervisor(tmp_path / "c") == 0
    assert minikafka("cluster", "stop", *at).out == "Nothing ran.\n"
    assert minikafka("cluster", "stop", *at, "--json").out == '{"stopped": []}\n'


@pytest.mark.slow
def test_nodes_outlive_a_parent_that_was_killed_and_are_taken_up_again(
    run_cluster: subprocess.Popen[str], minikafka: Minikafka, tmp_path: Path
) -> None:
    at = ("--data-dir", str(tmp_path / "c"))
    pid = LocalCluster(tmp_path / "c").pid(1)
    run_cluster.kill()
    run_cluster.wait(60)
    shown = minikafka("cluster", "status", *at)
    assert (shown.code, shown.lines[0]) == (0, f"{tmp_path}/c: no `minikafka cluster` runs it")
    refused = minikafka("cluster", *at)
    assert (refused.code, "add --attach to take up what runs" in refused.err) == (1, True)
    with process(command(["cluster", *at, "--attach"]), stdout=subprocess.PIPE, text=True) as again:
        assert again.stdout is not None
        assert again.stdout.readline().startswith("ready ")
        assert LocalCluster(tmp_path / "c").pid(1) == pid
        again.terminate()
        assert again.wait(60) == 0
    assert LocalCluster(tmp_path / "c").pid(1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("by", ["relative path", "data directory"])
def test_a_node_started_by_hand_is_known_and_stopped(
    minikafka: Minikafka, tmp_path: Path, by: str
) -> None:
    cluster = LocalCluster(tmp_path / "c", brokers=1)
    how = {
        "relative path": ["--config", "c/node-1/server.properties"],
        "data directory": ["--data-dir", "c/node-1/data", "--port", str(cluster.nodes[1].port)],
    }
    words = command(["server", *how[by]])
    with process(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path) as by_hand:
        assert by_hand.stdout is not None
        assert by_hand.stdout.readline().startswith(b"ready ")
        try:
            assert cluster.pid(1) == by_hand.pid
            ran = minikafka("cluster", "stop", "1", "--data-dir", str(tmp_path / "c"))
            assert (ran.code, ran.out, by_hand.wait(60)) == (0, "Stopped node 1.\n", 0)
        finally:
            by_hand.kill()
    assert cluster.pid(1) == 0


@pytest.mark.slow
def test_a_second_server_leaves_the_pid_file_of_the_first(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "c", brokers=1) as cluster:
        pid = cluster.pid(1)
        second = subprocess.run(cluster.command(1), capture_output=True, check=False, timeout=60)
        assert second.returncode == 1
        assert (cluster.folder(1) / "pid").read_text() == f"{pid}\n"
        assert cluster.pid(1) == pid


@pytest.mark.parametrize("words", [[], ["server"], ["server", "--config"], ["view", "--config", "CONFIG"], ["CONFIG"]])
def test_a_stale_pid_file_names_no_other_process(tmp_path: Path, words: list[str]) -> None:
    cluster = LocalCluster(tmp_path / "c", brokers=1)
    config = str(cluster.config(1))
    with process([sys.executable, "-c", SLEEP, *(word.replace("CONFIG", config) for word in words)]) as other:
        (cluster.folder(1) / "pid").write_text(f"{other.pid}\n")
        assert cluster.pid(1) == 0
        cluster.kill()
        cluster.stop()
        assert other.poll() is None
        other.kill()


def test_the_lock_of_a_process_that_is_no_server_is_not_a_node(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "c", brokers=1)
    cluster.data(1).mkdir()
    lock = f"import fcntl; f = open({str(cluster.data(1) / '.lock')!r}, 'w'); fcntl.flock(f, 2)"
    script = f"{lock}; print(1, flush=True); {SLEEP}"
    with process([sys.executable, "-c", script], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"1\n"
        assert cluster.pid(1) == 0
        other.kill()


def test_the_pid_file_goes_with_its_process(tmp_path: Path) -> None:
    config, pid_file = tmp_path / "node-1" / "server.properties", tmp_path / "node-1" / "pid"
    config.parent.mkdir()
    with pid_file_of_this_process(config):
        assert not pid_file.exists()  # no local cluster has ever started this node
    (tmp_path / "node-1" / "server.log").touch()
    with pid_file_of_this_process(config):
        assert pid_file.read_text() == f"{os.getpid()}\n"
    assert not pid_file.exists()
    with pid_file_of_this_process(config):
        pid_file.write_text("1\n")  # of another one, which has started meanwhile
    assert pid_file.read_text() == "1\n"
    assert pid_of_node(pid_file, config, tmp_path / "node-1" / "data") == 0


def test_a_process_that_ends_before_the_signal_is_not_confused_with_another() -> None:
    with process([sys.executable, "-c", SLEEP]) as other:
        answers = iter([other.pid, 0])
        assert not send(lambda: next(answers), signal.SIGKILL)
        assert other.poll() is None
        assert send(lambda: other.pid, signal.SIGKILL)
        eventually(lambda: other.poll() == -signal.SIGKILL)
    assert not send(lambda: 0, signal.SIGKILL)


def test_a_cluster_that_is_not_there(minikafka: Minikafka, tmp_path: Path) -> None:
    for action in ("status", "stop", "restart"):
        ran = minikafka("cluster", action, "--data-dir", str(tmp_path / "none"))
        assert (ran.code, ran.out) == (1, "")
        assert f"no cluster in {tmp_path}/none: `minikafka cluster --data-dir {tmp_path}/none` creates one" in ran.err
    assert not (tmp_path / "none").exists()
    LocalCluster(tmp_path / "c", brokers=1)
    ran = minikafka("cluster", "stop", "7", "--data-dir", str(tmp_path / "c"))
    assert (ran.code, "has no node 7: it has 1" in ran.err) == (1, True)


@pytest.mark.parametrize("data", [bytes(100), b"a=1\nb=\\u12\n"], ids=["zeros, as after a power failure", "an escape"])
def test_a_damaged_file_of_a_node_is_named(minikafka: Minikafka, tmp_path: Path, data: bytes) -> None:
    LocalCluster(tmp_path, brokers=2)
    path = tmp_path / "node-2" / "server.properties"
    path.write_bytes(data)
    for words in (["status"], ["stop"], ["restart", "1"], []):
        ran = minikafka("cluster", *words, "--data-dir", str(tmp_path))
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert f"{path}, line " in ran.err
    assert path.read_bytes() == data


def test_nodes_that_were_added_by_hand_are_kept_as_they_are(tmp_path: Path) -> None:
    LocalCluster(tmp_path, brokers=1)
    by_hand = tmp_path / "node-7"
    by_hand.mkdir()
    text = (tmp_path / "node-1" / "server.properties").read_text()
    (by_hand / "server.properties").write_text(text.replace("node.id=1\n", "node.id=7\n"))
    assert LocalCluster(tmp_path).node_ids == [1, 7]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node-1", "node-7"]
