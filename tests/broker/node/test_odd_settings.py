"""A node starts, works and stops with every number that a setting takes: without a crash, and without a busy loop."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest
import trio
import trio.testing
from support.memory_node import MemoryListeners, config, system

from minikafka.broker.node.main import make_node, serve
from minikafka.broker.settings.node_config import ConfigError, NodeConfig
from minikafka.protocol.settings.registry import NODE_SETTINGS
from minikafka.protocol.settings.value_types import SettingType
from minikafka.storage.disks.memory_disk import MemoryDisk

INTEGERS = {SettingType.SHORT, SettingType.INT, SettingType.LONG}
NAMES = [one.name for one in NODE_SETTINGS.values() if one.supported and one.type in INTEGERS and one.name != "node.id"]
NUMBERS = [-(1 << 63), -(1 << 31), -1, 0, 1, 5, (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1]
RUNS_S = 0.5
TURNS_AT_ONCE_MAX = 2000


class Busy(trio.abc.Instrument):
    """Cancels a scope if tasks run on and on while the clock stands still."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self._turns, self._time = 0, 0.0
        self.found = False

    def before_io_wait(self, timeout: float) -> None:
        now = trio.current_time()
        self._turns, self._time = (self._turns + 1 if now == self._time else 0), now
        if self._turns > TURNS_AT_ONCE_MAX:
            self.found = True
            self._scope.cancel()


async def live(node: NodeConfig) -> None:
    """Start a node, let it run for a while, and stop it."""
    send, signals = trio.open_memory_channel[int](1)
    with trio.CancelScope() as scope:
        busy = Busy(scope)
        trio.lowlevel.add_instrument(busy)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[str]) -> None:
                made = make_node(node, system(MemoryDisk(), MemoryListeners()))
                await serve(made, signals, task_status=task_status)

            await nursery.start(run)
            await trio.sleep(RUNS_S)
            send.send_nowait(signal.SIGTERM)
    assert not busy.found, "tasks run on and on"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_node_lives_with_every_number_that_it_takes(name: str) -> None:
    for number in NUMBERS:
        with suppress(ConfigError):
            node = config(1, **{name: str(number)})
            trio.run(live, node, clock=trio.testing.MockClock(autojump_threshold=0))
