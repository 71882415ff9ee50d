"""`LocalCluster` and `minikafka cluster` with one node; tests with several nodes are in tests/cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command_line import Minikafka, command

from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.commands.cluster import Stopping, exit_reason, wait_until_ready
from minikafka.cli.commands.cluster_view import nodes_table, partitions_summary
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.admin.admin_types import QuorumDescription
from minikafka.client.blocking import Admin
from minikafka.client.connections.cluster_metadata import Partition, Topic


@pytest.fixture
def one(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "one", brokers=1) as cluster:
        yield cluster


def topics_of(cluster: LocalCluster) -> list[str]:
    with Admin(cluster.bootstrap) as admin:
        return list(admin.list_topics())


@pytest.mark.slow
def test_a_node_keeps_its_data_when_killed_paused_and_restarted(one: LocalCluster) -> None:
    with Admin(one.bootstrap) as admin:
        admin.create_topic("kept")
    one.kill(1)
    assert not one.running(1)
    assert one.exit_code(1) == -signal.SIGKILL
    one.start(1)
    assert topics_of(one) == ["kept"]
    one.pause(1)
    assert one.running(1)
    one.resume(1)
    one.restart(1)
    assert one.exit_code(1) is None
    one.wait_in_sync()
    one.stop()
    assert (one.running(1), one.exit_code(1)) == (False, 0)
    assert {path.name for path in one.folder(1).iterdir()} == {"server.properties", "server.log", "data"}


def test_the_exit_code_of_a_process_is_not_that_of_the_one_before(one: LocalCluster) -> None:
    """As told by `minikafka cluster` of a node that was killed, started by `cluster restart`, and stopped by it."""
    one.kill(1)
    assert one.exit_code(1) == -signal.SIGKILL
    by_hand = LocalCluster(one.directory)
    by_hand.start(1)
    assert (one.running(1), one.exit_code(1)) == (True, None)
    by_hand.stop(1)
    assert (one.running(1), one.exit_code(1)) == (False, None)


@pytest.mark.parametrize("started", [True, False])
@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_a_cluster_that_was_moved_or_copied_uses_its_own_data(
    how: Callable[[Path, Path], object], started: bool, tmp_path: Path
) -> None:
    before = LocalCluster(tmp_path / "before", brokers=2, node_settings={2: {"log.dirs": tmp_path / "disk"}})
    if started:
        before.data(1).mkdir()
    how(before.directory, tmp_path / "now")
    if how is shutil.copytree and not started:
        before.data(1).mkdir()
        (tmp_path / "now" / "node-1" / "data").mkdir()
    now = LocalCluster(tmp_path / "now")
    read = [read_properties(now.config(node).read_bytes())["log.dirs"] for node in now.node_ids]
    assert read == [str(tmp_path / "now" / "node-1" / "data"), str(tmp_path / "disk")]
    assert now.warnings == [f"node 1: log.dirs was {before.data(1)}, and is {now.data(1)} from now on"]
    assert LocalCluster(tmp_path / "now").warnings == []
    if how is shutil.copytree:
        assert f"log.dirs={before.data(1)}\n" in before.config(1).read_text()


@pytest.mark.slow
def test_an_existing_cluster_restarts_on_its_ports(one: LocalCluster) -> None:
    one.kill()
    again = LocalCluster(one.directory, port=0, settings={"num.partitions": 7})
    assert (again.bootstrap, again.node_ids) == (one.bootstrap, [1])
    with again:
        assert topics_of(again) == []
        with pytest.raises(ClusterError, match=r"node 1 of .* is already running \(pid"):
            one.launch(1)
    assert "num.partitions=7\n" in again.config(1).read_text()


@pytest.mark.slow
def test_a_node_started_by_hand_is_part_of_the_cluster(one: LocalCluster) -> None:
    one.kill(1)
    words = command(["server", "--config", str(one.config(1))])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as by_hand:
        assert by_hand.stdout is not None
        assert by_hand.stdout.readline().decode() == f"ready {one.bootstrap}\n"
        assert one.pid(1) == by_hand.pid
        one.stop()
        assert by_hand.wait(60) == 0
    assert one.pid(1) == 0


@pytest.mark.slow
def test_a_failed_start_reports_the_end_of_the_log(one: LocalCluster, tmp_path: Path) -> None:
    port = one.nodes[1].port
    with pytest.raises(ClusterError, match=r"node 1 exited; .*server.log ends:\n(.|\n)*in use"):
        LocalCluster(tmp_path / "other", brokers=1, port=port).start()


def test_the_layout_of_an_existing_cluster_cannot_change(tmp_path: Path) -> None:
    LocalCluster(tmp_path, brokers=3, controllers=1)
    with pytest.raises(ClusterError, match=r"holds 3 brokers; use a new directory for 2"):
        LocalCluster(tmp_path, brokers=2)
    with pytest.raises(ClusterError, match=r"holds a quorum of 1 .* use a new directory for another quorum"):
        LocalCluster(tmp_path, controllers=3)
    grown = LocalCluster(tmp_path, brokers=4)
    assert (grown.broker_ids, grown.controller_ids) == ([1, 2, 3, 4], [1])
    voters = [line for line in grown.config(4).read_text().splitlines() if line.startswith("controller.quorum.voters")]
    assert voters == [f"controller.quorum.voters=1@127.0.0.1:{grown.nodes[1].controller_port}"]


@pytest.mark.slow
def test_another_port_is_refused(tmp_path: Path, minikafka: Minikafka) -> None:
    made = LocalCluster(tmp_path, brokers=2)
    first = made.nodes[1].port
    for port in (0, None, first):
        assert LocalCluster(tmp_path, port=port).nodes == made.nodes
    with pytest.raises(ClusterError, match=f"first broker is at port {first}, not {first + 1}: leave out --port"):
        LocalCluster(tmp_path, port=first + 1)
    ran = minikafka("cluster", "--port", str(first + 1), "--data-dir", str(tmp_path))
    assert ran.code == 1
    assert f"is at port {first}, not {first + 1}" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["new", "new/below", "."])
@pytest.mark.parametrize("problem", ["port", "setting"])
def test_a_cluster_that_cannot_start_leaves_nothing(
    folder: str, problem: str, tmp_path: Path, minikafka: Minikafka
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if problem == "port" else 0
        wrong = ["--set", "num.partitions=none"] if problem == "setting" else []
        words = ["--brokers", "1", "--port", str(port), "--data-dir", str(tmp_path / "data" / folder), *wrong]
        (tmp_path / "data").mkdir()
        ran = minikafka("cluster", *words)
    assert ran.code == 1
    assert ("num.partitions=none" if wrong else "in use") in ran.err
    assert [one.name for one in (tmp_path / "data").iterdir() if one.name != "cluster.pid"] == []


@pytest.mark.parametrize("failure", [ClusterError, KeyboardInterrupt])
@pytest.mark.parametrize("was_ready", [False, True])
def test_a_block_that_cannot_start_leaves_nothing(
    failure: type[BaseException], was_ready: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster(tmp_path / "new", brokers=1)
    monkeypatch.setattr(cluster, "command", lambda node_id: ["sleep", "600"])

    def fail(*node_ids: int, timeout_s: float) -> None:
        assert cluster.running(1)
        raise failure

    monkeypatch.setattr(cluster, "wait_ready", fail)
    cluster.was_ready = was_ready
    with pytest.raises(failure), cluster:
        pass
    assert cluster.exit_code(1) is not None
    assert (tmp_path / "new").exists() == was_ready


@pytest.mark.parametrize("error", [None, ValueError("of the child")], ids=["returns", "raises"])
def test_a_forked_process_that_leaves_the_block_leaves_the_nodes(one: LocalCluster, error: Exception | None) -> None:
    """As a worker does that calls `sys.exit` within the block of its parent."""
    node = one.pid(1)
    child = os.fork()
    if not child:
        try:
            one.__exit__(error and type(error), error, None)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert one.pid(1) == node
    assert one.exit_code(1) is None
    assert topics_of(one) == []


def test_a_block_that_a_forked_process_has_entered_ends_its_nodes(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "forked", brokers=1)
    child = os.fork()
    if not child:
        ended = False
        try:
            with cluster:
                cluster.wait_ready()
            ended = not cluster.running(1)
        finally:
            os._exit(0 if ended else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not cluster.running(1)


def test_nodes_that_are_ready_are_known_to_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LocalCluster(tmp_path, brokers=1)
    ready: list[bool] = []
    monkeypatch.setattr(cluster, "_is_ready", lambda node_id: bool(ready))
    assert (cluster.not_ready(), cluster.was_ready) == ([1], False)
    ready.append(True)
    assert (cluster.not_ready(), cluster.was_ready) == ([], True)


def test_settings_of_single_nodes(tmp_path: Path) -> None:
    racks = {1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}}
    cluster = LocalCluster(tmp_path, brokers=2, settings={"num.partitions": 2}, node_settings=racks)
    texts = {node_id: cluster.config(node_id).read_text() for node_id in cluster.node_ids}
    assert "num.partitions=2\nbroker.rack=a\n" in texts[1]
    assert "num.partitions=2\nbroker.rack=b\n" in texts[2]


METHODS = (
    "address metrics_url folder config data pid running exit_code log_tail command chosen "
    "start launch wait_ready not_ready stop kill pause resume restart"
)


@pytest.mark.parametrize("method", METHODS.split())
@pytest.mark.parametrize("node_id", [0, 3, -1, "1", None, [1, 2]])
def test_a_node_that_the_cluster_has_not_is_refused(method: str, node_id: object, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2)
    with pytest.raises(ValueError, match=r"has no node .*: it has 1,2$") as raised:
        getattr(cluster, method)(node_id)
    assert repr(node_id) in str(raised.value)


def test_settings_of_a_node_that_the_cluster_has_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no node 3: it has 1,2"):
        LocalCluster(tmp_path / "x", brokers=2, node_settings={3: {}})
    assert not (tmp_path / "x").exists()


def test_the_addresses_of_brokers_only(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, controllers=1, isolated=True, port=9092)
    assert cluster.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093"
    with pytest.raises(ValueError, match="node 3 is no broker"):
        cluster.address(3)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_runs_until_a_signal(number: signal.Signals, code: int, tmp_path: Path) -> None:
    words = command(["cluster", "--brokers", "1", "--port", "0", "--data-dir", str(tmp_path)])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        word, _, bootstrap = running.stdout.readline().strip().partition(" ")
        assert word == "ready"
        cluster = LocalCluster(tmp_path)
        assert cluster.bootstrap == bootstrap
        os.kill(cluster.pid(1), signal.SIGKILL)
        while (told := running.stderr.readline()).startswith("waiting for node 1 to be ready"):
            pass  # on a busy machine
        assert "node 1 killed (SIGKILL); restart it with: minikafka server" in told
        cluster.start(1)
        assert "node 1 restarted" in running.stderr.readline()
        running.send_signal(number)
        assert running.wait(60) == code
        assert cluster.pid(1) == 0


@pytest.mark.slow
def test_a_running_cluster_is_not_started_twice(one: LocalCluster, minikafka: Minikafka) -> None:
    before = one.pid(1)
    refused = minikafka("cluster", "--data-dir", str(one.directory))
    assert (refused.code, "is already running (pid" in refused.err) == (1, True)
    assert one.pid(1) == before


def test_an_impossible_layout_is_an_error_of_one_line(minikafka: Minikafka, tmp_path: Path) -> None:
    refused = minikafka("cluster", "--brokers", "100", "--data-dir", str(tmp_path / "x"))
    assert (refused.code, refused.lines) == (1, [])
    assert refused.err == "Error: at most 99 brokers and as many controllers: the ports after these are taken\n"


class Starting(LocalCluster):
    """Nodes of which one after the other gets ready, each time that somebody looks."""

    def not_ready(self, *node_ids: int) -> list[int]:
        self.left = getattr(self, "left", list(node_ids))[1:]
        return self.left


def test_what_a_start_waits_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("minikafka.client.connections.waits.PATIENCE_S", 0)
    wait_until_ready(Starting(tmp_path), [1, 2, 3], Stopping())
    told = f"waiting for nodes 2,3 to be ready: see {tmp_path}/node-2/server.log\n"
    assert capsys.readouterr().err == told, "once in ten seconds"
    monkeypatch.setattr("minikafka.client.connections.waits.INTERVAL_S", 0)
    wait_until_ready(Starting(tmp_path), [1, 2, 3], Stopping())
    assert capsys.readouterr().err == told + f"waiting for node 3 to be ready: see {tmp_path}/node-3/server.log\n"


def test_exit_reasons() -> None:
    assert [exit_reason(code) for code in (None, 0, 1, -9)] == [
        "exited",
        "exited",
        "exited with status 1",
        "killed (SIGKILL)",
    ]


def test_the_status_table(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2, controllers=1, port=9092)
    topics = [Topic("t", partitions=(Partition(0, 1, 0, (1, 2), (1,)), Partition(1, -1, 0, (2,), ())))]
    quorum = QuorumDescription(1, 3, 10, [], [])
    assert nodes_table(cluster, {1: 77, 2: 0}, quorum, topics) == [
        "NODE  ROLES              PORT  PID   QUORUM    LEADS  IN SYNC",
        "   1  broker,controller  9092  77    leader        1  1/1",
        "   2  broker             9093  down  observer      0  0/2",
    ]
    assert partitions_summary(topics) == ["2 partitions", "2 under-replicated (t-0 t-1)", "1 without leader (t-1)"]


def test_importing_it_imports_no_event_loop() -> None:
    """`minikafka cluster` starts faster without."""
    code = "import sys, minikafka.cli.local_cluster; print('trio' in sys.modules, 'anyio' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"
