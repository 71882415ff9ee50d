"""`FAULTS`: all faults by name, with their weights."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from simulation.faults import network, processes
from simulation.faults.chaos import Chaos

Fault = Callable[[Chaos, Random], None]

FAULTS: dict[str, tuple[Fault, float]] = {
    "kill": (processes.kill, 4),
    "kill again and again": (processes.kill_again_and_again, 2),
    "kill several": (processes.kill_several, 2),
    "lose power": (processes.lose_power, 4),
    "lose all power": (processes.lose_all_power, 1),
    "stop": (processes.stop, 2),
    "roll": (processes.roll, 1),
    "pause": (processes.pause, 4),
    "pause a client": (processes.pause_client, 1),
    "kill a client": (processes.kill_client, 2),
    "set a clock": (processes.set_clock, 2),
    "cut a link": (network.cut_link, 4),
    "isolate": (network.isolate, 4),
    "partition": (network.partition, 2),
    "slow a link": (network.slow_link, 2),
    "heal the network": (network.fast_links, 2),
    "reset connections": (network.reset_connections, 3),
    "half-open connections": (network.forget_connections, 2),
    "break a frame": (network.break_frame, 3),
}
