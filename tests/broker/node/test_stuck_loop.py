"""SIGTERM ends a process whose event loop is stuck, after a grace, and says where; others end by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
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
