"""Faults of processes and hosts: kills, power failures, restarts, pauses, wrong clocks."""

from __future__ import annotations

from random import Random

from simulation.faults.chaos import Chaos
from simulation.world.cluster import Host

HOUR_MS = 3_600_000


def _downtime_s(random: Random) -> float:
    """Short, as of a supervisor, or longer than a broker's session."""
    return random.choice((random.uniform(0.05, 1.0), random.uniform(1.0, 20.0)))


def kill(chaos: Chaos, random: Random) -> None:
    """SIGKILL of one node."""
    _kill(chaos, random, chaos.any_host(random))


def _kill(chaos: Chaos, random: Random, host: Host) -> None:
    chaos.kill(host)
    chaos.later(_downtime_s(random), chaos.cluster.start, host)


def kill_again_and_again(chaos: Chaos, random: Random) -> None:
    """One node is killed at start, several times."""
    host = chaos.any_host(random)
    at = 0.0
    for _ in range(random.randint(2, 5)):
        chaos.later(at, _kill, chaos, Random(random.random()), host)
        at += random.uniform(0.1, 4.0)


def kill_several(chaos: Chaos, random: Random) -> None:
    """SIGKILL of several nodes, perhaps of all."""
    hosts = random.sample(chaos.hosts(), random.randint(1, len(chaos.hosts())))
    for host in hosts:
        chaos.later(random.uniform(0, 0.5), _kill, chaos, Random(random.random()), host)


def lose_power(chaos: Chaos, random: Random) -> None:
    """One host loses power, and unsynced writes with it."""
    host = chaos.any_host(random)
    if not chaos.may_lose_records(host):
        return kill(chaos, random)
    chaos.loses_records(host)
    chaos.cluster.lose_power(host)
    chaos.count("power lost")
    chaos.later(_downtime_s(random), chaos.cluster.start, host)
    return None


def lose_all_power(chaos: Chaos, random: Random) -> None:
    """All hosts lose power. Only where every acknowledged record is synced first."""
    if not chaos.durable or chaos.unsafe:
        return lose_power(chaos, random)
    for host in chaos.hosts():
        chaos.cluster.lose_power(host)
        chaos.later(_downtime_s(random), chaos.cluster.start, host)
    chaos.count("power lost everywhere")
    return None


def stop(chaos: Chaos, random: Random) -> None:
    """SIGTERM, and a start afterwards; perhaps a kill in the middle of the shutdown."""
    host = chaos.any_host(random)
    if not host.is_running:
        return
    chaos.cluster.stop(host)
    chaos.count("node stopped")
    if random.random() < 0.2:
        chaos.later(random.uniform(0, 0.5), chaos.kill, host)
    chaos.later(_downtime_s(random) + 1.0, chaos.cluster.start, host)


def roll(chaos: Chaos, random: Random) -> None:
    """A rolling restart of all nodes."""
    pause_s = random.uniform(1.0, 8.0)
    for number, host in enumerate(chaos.hosts()):
        chaos.later(number * pause_s, chaos.cluster.stop, host)
        chaos.later((number + random.uniform(0.3, 0.9)) * pause_s, chaos.cluster.start, host)
    chaos.count("rolling restart")


def pause(chaos: Chaos, random: Random) -> None:
    """SIGSTOP of a node, and SIGCONT: it resumes in the role that it had."""
    host = chaos.any_host(random)
    if host.is_running and host.machine is not None:
        seconds = random.choice((random.uniform(0.01, 1.0), random.uniform(1.0, 25.0)))
        chaos.tell(f"{host.name} pauses for {seconds:.2f} s")
        chaos.world.pause(host.machine, seconds)
        chaos.count("node paused")


def pause_client(chaos: Chaos, random: Random) -> None:
    """SIGSTOP of a client."""
    clients = [machine for machine in chaos.cluster.clients.values() if not machine.ended]
    if clients:
        machine = random.choice(clients)
        seconds = random.choice((random.uniform(0.01, 1.0), random.uniform(1.0, 15.0)))
        chaos.tell(f"{machine} pauses for {seconds:.2f} s")
        chaos.world.pause(machine, seconds)
        chaos.count("client paused")


def kill_client(chaos: Chaos, random: Random) -> None:
    """SIGKILL of a client; the scenario starts the next incarnation."""
    clients = [machine for machine in chaos.cluster.clients.values() if not machine.ended]
    if clients:
        machine = random.choice(clients)
        chaos.tell(f"{machine} is killed")
        chaos.world.kill(machine)
        chaos.count("client killed")


def set_clock(chaos: Chaos, random: Random) -> None:
    """A wall clock jumps, or runs fast or slow."""
    host = chaos.any_host(random)
    if random.random() < 0.5:
        host.clock.offset_ms += random.choice((-1, 1)) * random.choice((50, 5_000, HOUR_MS)) * random.random()
        chaos.count("clock jumped")
    else:
        host.clock.rate = random.uniform(0.8, 1.25)
        chaos.count("clock at a wrong rate")
    chaos.tell(f"the clock of {host.name}: {host.clock.offset_ms:+.0f} ms, rate {host.clock.rate:.3f}")
