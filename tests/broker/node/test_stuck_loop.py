"""SIGTERM ends a process whose event loop is stuck, after a grace, and says where; others end by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys, threading
import trio
from minikafka.broker.node.stuck_loop import StuckLoop

async def main():
    stuck = StuckLoop(grace_s=float(sys.argv[2]))
    with trio.open_signal_receiver(signal.SIGTERM) as signals, stuck.watching(signal.SIGTERM):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stuck.run)
            nursery.start_soon(globals()[sys.argv[1]])
            print("ready", flush=True)
            async for _ in signals:
                break
            await trio.sleep(0.3)
            nursery.cancel_scope.cancel()

async def stuck_in_a_step():
    await trio.sleep(0)
    print("stuck", flush=True)
    while True:
        pass

async def stuck_while_nobody_reads():
    await trio.sleep(0)
    print("stuck", flush=True)
    os.set_blocking(1, False)
    try:
        while True:
            os.write(1, b"x")
    except BlockingIOError:
        os.set_blocking(1, True)
    print("full", file=sys.stderr, flush=True)
    while True:
        pass

async def stuck_without_threads():
    start = threading.Thread.start
    def refuse(thread):
        if sys.argv[3] in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)
    await trio.sleep(0)
    threading.Thread.start = refuse
    print("stuck", flush=True)
    if sys.argv[3] == "stuck loop":
        await trio.sleep_forever()
    while True:
        pass

async def runs():
    print("stuck", flush=True)
    await trio.sleep_forever()

trio.run(main)
print("by itself", flush=True)
"""


@pytest.mark.parametrize(("task", "grace_s", "code"), [("stuck_in_a_step", 0.1, 1), ("runs", 30.0, 0)])
def test_sigterm_ends_the_process(task: str, grace_s: float, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM, task, str(grace_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        said = [process.stdout.readline(), process.stdout.readline()]
        process.send_signal(signal.SIGTERM)
        said += process.communicate(timeout=60)
    finally:
        process.kill()
    text = "".join(filter(None, said))
    assert process.returncode == code
    assert ("event loop stuck" in text) == (code == 1)
    assert ("stuck_in_a_step" in text) == (code == 1)
    assert ("by itself" in text) == (code == 0)


@pytest.mark.slow
def test_sigterm_ends_a_stuck_process_whose_log_nobody_reads() -> None:
    command = [sys.executable, "-c", PROGRAM, "stuck_while_nobody_reads", "0.1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == "full\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 1
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("refused", "code"), [("stuck loop's report", 1), ("stuck loop", 0)])
def test_sigterm_ends_a_process_that_can_start_no_thread(refused: str, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM, "stuck_without_threads", "0.1", refused]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        assert [process.stdout.readline(), process.stdout.readline()] == ["ready\n", "stuck\n"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == code
    finally:
        process.kill()
        process.communicate()
