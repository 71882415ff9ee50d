"""Functions of the application that block: they run beside the event loop, and no program waits for them at its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextvars import ContextVar

import anyio
import pytest
from anyio.to_thread import current_default_thread_limiter
from support.secured_nodes import SecuredNode

from minikafka.client.security.daemon_calls import daemon_call

ENDS_S = 30
RETURNS_S = 10
PROGRAM = """
import signal, sys, threading
import anyio
from minikafka.client import Admin

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell lets its programs in the background ignore it.
options = dict(part.split("=", 1) for part in sys.argv[2:])

def hangs():
    print("called", flush=True)
    threading.Event().wait()

async def main():
    async with Admin(**options, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=hangs):
        pass

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("library", ["asyncio", "trio"])
def test_a_program_whose_provider_of_tokens_hangs_ends_by_ctrl_c(
    secured_by_minikafka: SecuredNode, library: str
) -> None:
    options = [f"{name}={value}" for name, value in secured_by_minikafka.options("LOGIN").items()]
    command = [sys.executable, "-c", PROGRAM, library, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "called\n"
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=ENDS_S)
        finally:
            program.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors


CALLER = ContextVar("CALLER", default="nobody")


@pytest.mark.anyio
async def test_a_function_runs_in_a_daemon_thread_with_the_context_of_its_caller() -> None:
    CALLER.set("the test")
    thread, caller = await daemon_call(lambda: (threading.current_thread(), CALLER.get()))
    assert thread.daemon
    assert thread is not threading.current_thread()
    assert caller == "the test"


@pytest.mark.anyio
async def test_an_event_loop_can_run_in_the_thread() -> None:
    async def given() -> str:
        return "given"

    with anyio.fail_after(RETURNS_S):
        assert await daemon_call(lambda: anyio.run(given)) == "given"


@pytest.mark.anyio
async def test_threads_count_until_their_functions_return() -> None:
    goes_on = threading.Event()
    limiter = current_default_thread_limiter()
    before = limiter.total_tokens
    limiter.total_tokens = 1
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(daemon_call, goes_on.wait)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(0.01) as scope:
            await daemon_call(int)
        assert scope.cancelled_caught
        goes_on.set()
        with anyio.fail_after(RETURNS_S):
            assert await daemon_call(int) == 0
            assert await daemon_call(int) == 0
    finally:
        goes_on.set()
        limiter.total_tokens = before
