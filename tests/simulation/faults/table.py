"""`FAULTS`: all faults by name, with their weights."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from simulation.faults import disks, disks_at_start, network, processes, voters
from simulation.faults.chaos import Chaos

Fault = Callable[[Chaos, Random], None]


class Off(NamedTuple):
    """A fault that is switched off: why, and arguments of `simulation.seeds` that show it."""

    fault: Fault
    weight: float
    reason: str
    shown_by: str


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
    "slow disk": (disks.slow, 3),
    "full disk": (disks.fill, 2),
    "one of several directories is full": (disks.fill_one_of_several, 2),
    "failing disk": (disks.fail, 3),
    "lose power at an operation": (disks.lose_power_at_operation, 3),
    "stop during recovery": (disks.stop_during_recovery, 2),
    "wiped directories": (disks_at_start.wipe, 2),
    "old directories": (disks_at_start.restore, 2),
    "rot": (disks.rot, 2),
    "few descriptors": (disks.few_descriptors, 1),
    "metadata directory fails at start": (disks_at_start.metadata_fails, 1),
    "data directory fails at start": (disks_at_start.data_fails, 2),
    "data directory missing at start": (disks_at_start.data_missing, 2),
    "metadata directory missing at start": (disks_at_start.metadata_missing, 1),
    "one of several directories fails": (disks.fail_one_of_several, 2),
    "disk fails for good": (disks.leave_failed, 1),
}

VOTER_FAULTS: dict[str, tuple[Fault, float]] = {
    "add a voter": (voters.add, 4),
    "add all voters": (voters.add_all, 1),
    "remove a voter": (voters.remove, 3),
    "change voters at once": (voters.change_at_once, 1),
    "change voters of a leader cut off": (voters.change_apart, 3),
    "change voters and lose the leader": (voters.change_and_lose_the_leader, 3),
    "remove and stop a voter": (voters.remove_and_stop, 1),
    "replace the disk of a voter": (voters.replace_disk, 5),
    "move a controller": (voters.move, 3),
    "upgrade kraft.version": (voters.upgrade_quorum, 0.5),
}
"""Those of clusters whose voters come and go, beside the others; they are drawn apart from these."""

NOT_SURVIVED_YET: dict[str, Off] = {}
"""Faults that should be survived and are not yet; `--faults` of `simulation.seeds` switches them on."""


def fault_of(kind: str) -> Fault:
    """The fault of this name, also if it is switched off."""
    known = FAULTS.get(kind) or VOTER_FAULTS.get(kind)
    return NOT_SURVIVED_YET[kind].fault if known is None else known[0]


def weight_of(kind: str) -> float:
    """How often it is drawn, in proportion to others."""
    known = FAULTS.get(kind) or VOTER_FAULTS.get(kind)
    return NOT_SURVIVED_YET[kind].weight if known is None else known[1]
