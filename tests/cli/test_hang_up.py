"""A terminal that is closed ends a command as Ctrl-C does: what was printed is committed, and the group is left."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command_line import patient_command
from support.node import NodeProcess

from minikafka.client import LATEST, TopicPartition
from minikafka.client.blocking import Admin, Producer


def on_terminal(descriptor: int, words: list[str], *, ignored: bool = False) -> subprocess.Popen[bytes]:
    """A command whose streams and session have this terminal."""

    def begin() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)  # These tests may run under nohup.

    streams = {"stdin": descriptor, "stdout": descriptor, "stderr": descriptor}
    return subprocess.Popen(patient_command(words), start_new_session=True, preexec_fn=begin, **streams)


@pytest.fixture
def ten(node: NodeProcess, topic: str) -> str:
    with Producer(node.bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"v%d" % number, partition=0)
    return topic


@contextmanager
def consumer(node: NodeProcess, topic: str, *, ignored: bool = False) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A member of a group that has printed all records, and its terminal."""
    words = ["consume", topic, "--group", topic, "--from-beginning", "-b", node.bootstrap]
    ours, theirs = pty.openpty()
    with on_terminal(theirs, words, ignored=ignored) as process:
        os.close(theirs)
        shown = b""
        while b"v9\r\n" not in shown:
            shown += os.read(ours, 1 << 16)
        yield process, ours


def check_left(node: NodeProcess, group_id: str) -> None:
    """All was committed, and the member has left."""
    with Admin(node.bootstrap) as admin:
        assert admin.list_group_offsets(group_id)[TopicPartition(group_id, 0)].offset == 10
        assert admin.describe_group(group_id).state == "Empty"


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_a_consumer_that_leaves_its_group(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten) as (process, terminal):
        os.close(terminal)
        assert process.wait(60) == 129, "whether SIGHUP says so or a failed write"
    check_left(node, ten)


@pytest.mark.slow
def test_sighup_is_ignored_under_nohup(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten, ignored=True) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        os.close(terminal)
    check_left(node, ten)


@pytest.mark.slow
def test_sighup_ends_a_command_as_sigterm_does(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 129
        os.close(terminal)
    check_left(node, ten)


TERMINAL = ("stdout", "stderr")
PRINTING = {
    "consume": ["consume", "TOPIC", "--group", "TOPIC", "--from-beginning"],
    "consume-json": ["consume", "TOPIC", "--group", "TOPIC", "--from-beginning", "--json"],
    "top": ["top", "--interval", "0.1"],
    "top-json": ["top", "--interval", "0.1", "--json"],
    "perf-produce": ["perf", "produce", "TOPIC", "--rate", "100"],
    "perf-consume": ["perf", "consume", "TOPIC", "--records", "11", "--timeout-ms", "100"],
    "topics": ["topics", "list"],
}


@pytest.mark.slow
@pytest.mark.parametrize("streams", [("stdout",), TERMINAL], ids=["output", "output-and-errors"])
@pytest.mark.parametrize("name", PRINTING)
def test_a_closed_terminal_that_sends_no_signal_ends_a_command_with_a_sentence(
    name: str, streams: tuple[str, ...], node: NodeProcess, ten: str
) -> None:
    """As for a command under nohup, or in the background: what it writes fails with EIO."""
    words = [one.replace("TOPIC", ten) for one in PRINTING[name]]
    ours, theirs = pty.openpty()
    where = {one: theirs if one in streams else subprocess.PIPE for one in TERMINAL}
    with subprocess.Popen(
        patient_command([*words, "-b", node.bootstrap]), stdin=subprocess.DEVNULL, start_new_session=True, **where
    ) as process:
        os.close(theirs)
        os.close(ours)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 129
    if streams != TERMINAL:
        assert "the terminal is closed" in err.decode().splitlines()[-1]
        assert "Traceback" not in err.decode()
    if name.startswith("consume"):
        with Admin(node.bootstrap) as admin:
            states = {one.group_id: one.state for one in admin.list_groups()}
            assert states.get(ten, "it was not joined yet") in ("Empty", "it was not joined yet")


@pytest.mark.slow
def test_produce_goes_on_without_progress_when_the_terminal_is_closed(node: NodeProcess, topic: str) -> None:
    ours, theirs = pty.openpty()
    command = patient_command(["produce", topic, "-b", node.bootstrap])
    environment = {**os.environ, "TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=theirs, start_new_session=True, env=environment
    ) as process:
        assert process.stdin is not None
        os.close(theirs)
        process.stdin.write(b"before\n")
        process.stdin.flush()
        while b"record" not in os.read(ours, 1 << 16):
            pass
        os.close(ours)
        process.stdin.write(b"after\n" * 100)
        process.stdin.close()
        assert process.wait(60) == 0
    with Admin(node.bootstrap) as admin:
        assert admin.list_offsets({TopicPartition(topic, 0): LATEST})[TopicPartition(topic, 0)].offset == 101


@pytest.mark.slow
def test_an_interrupted_write_that_nobody_reads_of_is_no_traceback(node: NodeProcess, ten: str) -> None:
    """As of `minikafka consume 2>&1 | head`: the words of what is not committed fail as the records did."""
    reading, writing = os.pipe()
    words = ["consume", ten, "--group", ten, "--from-beginning", "-b", node.bootstrap]
    with subprocess.Popen(patient_command(words), stdout=writing, stderr=writing) as process:
        os.close(writing)
        os.close(reading)
        assert process.wait(60) == 0


@pytest.mark.slow
def test_sighup_stops_a_node_cleanly(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Under nohup it is ignored, also by what is started.
    try:
        node = NodeProcess(tmp_path / "data").start()
    finally:
        signal.signal(signal.SIGHUP, before)
    with node:
        assert node._end(signal.SIGHUP, timeout_s=60) == 0
        assert "node stopped" in node.log_tail()
