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

import pytest
from support.command_line import patient_command
from support.node import NodeProcess

from minikafka.client import TopicPartition
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
        while b"v9" not in shown:
            shown += os.read(ours, 1 << 16)
        yield process, ours


def check_left(node: NodeProcess, group_id: str) -> None:
    """All was committed, and the member has left."""
    with Admin(node.bootstrap) as admin:
        assert admin.list_group_offsets(group_id)[TopicPartition(group_id, 0)].offset == 10
        assert admin.describe_group(group_id).state == "Empty"


def test_a_terminal_that_is_closed_ends_a_consumer_that_leaves_its_group(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten) as (process, terminal):
        os.close(terminal)
        assert process.wait(60) in (129, 0), "0 if it sees first that its output is closed"
    check_left(node, ten)


def test_sighup_is_ignored_under_nohup(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten, ignored=True) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        os.close(terminal)
    check_left(node, ten)


def test_sighup_ends_a_command_as_sigterm_does(node: NodeProcess, ten: str) -> None:
    with consumer(node, ten) as (process, terminal):
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 129
        os.close(terminal)
    check_left(node, ten)
