"""Simulates quorums with random faults. A seed determines the quorum, its faults and its recovery.

    PYTHONPATH=tests python -m simulation.raft --seeds 10000           # that many seeds; --first 0, --jobs 2
    PYTHONPATH=tests python -m simulation.raft --trace 4711            # the trace of one seed

In the first part faults are injected: messages are lost, delayed, duplicated and reordered; nodes crash and lose
unsynced changes, pause, and have fast, slow and jumping clocks; links fail, some in one direction only. In most of the
quorums voters come and go, and disks are replaced; some of these begin as static ones. `raft_checks` checks the
invariants. In the second part the faults end, and the quorum must recover.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from random import Random
from time import process_time
from typing import TYPE_CHECKING

from minikafka.controller.raft.voter_set import VoterSet
from simulation.raft_node import Network, Node
from simulation.raft_world import World

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS_LAST_S = 3.0
RECOVERY_MAX_S = 30.0
"""In simulated time. Recovery takes about one second; slow clocks and pauses that continue may add some."""


class NoProgress(AssertionError):
    """The quorum did not recover after the faults ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a seed.

    Attributes:
        events: the number of events.
        sometimes: how often each notable event was seen.
    """

    seed: int
    events: int
    sometimes: dict[str, int]


def run(seed: int, trace: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed.

    Raises:
        Violation, NoProgress, Inconsistent, AssertionError: the run failed.
    """
    scenario = Scenario(seed, trace)
    scenario.inject_faults()
    scenario.recover()
    return Outcome(seed, scenario.world.events_count, scenario.world.checker.sometimes)


class Scenario:
    """A world, and the faults injected into it."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        random = self.random = Random(seed)
        voters = random.choices((1, 3, 5), (1, 12, 4))[0]
        network = Network(
            loss=random.choice((0, 0, 0.02, 0.1, 0.3)),
            doubling=random.choice((0, 0, 0.1)),
            delay=random.choice((0.001, 0.001, 0.01, 0.05)),
        )
        kind = random.choice(("static", "static", "upgraded", "dynamic", "dynamic"))
        self.world = World(
            seed=random.getrandbits(64),
            voters=voters,
            observers=random.choice((0, 0, 1, 2)) if kind == "static" else random.choice((1, 2, 2)),
            dynamic=kind == "dynamic",
            network=network,
            sync_delay=random.choice((0, 0.002, 0.02, 0.1)),
            clock_skew=random.choice((0, 0, 0.1, 0.3)),
            trace=trace,
        )
        self.faults = random.choices(*zip(*FAULTS, strict=True), k=random.randint(1, 6))
        if kind != "static":
            self.faults += random.choices(*zip(*CHANGES, strict=True), k=random.randint(2, 6))
        if kind == "upgraded":
            self.faults.append(Scenario.upgrade)
        self.pace = random.choice((0.05, 0.1, 0.3))
        """Mean time between faults, and between appends."""

    def inject_faults(self) -> None:
        self.world.log(
            f"{len(self.world.voters)} voters of {len(self.world.nodes)} nodes, {self.world.network},"
            f" syncs take {self.world.sync_delay}"
        )
        self._next_append()
        if len(self.world.nodes) > 1:
            self.world.at(0.5 + self.random.random(), self._inject_fault)
        self.world.run_until(FAULTS_LAST_S)

    def _next_append(self) -> None:
        leader = self.world.leader
        if leader is not None and self.random.random() < 0.7:
            self.world.append(leader, self.random.randint(1, 3))
        else:
            self.world.append(self._pick_node())  # possibly a former leader that has not noticed
        if self.world.now < FAULTS_LAST_S:
            self.world.at(self.world.now + self.random.expovariate(1 / self.pace), self._next_append)

    def _inject_fault(self) -> None:
        if self.world.now < FAULTS_LAST_S:
            self.random.choice(self.faults)(self)
            self.world.at(self.world.now + self.random.expovariate(1 / self.pace), self._inject_fault)

    def _pick_node(self) -> Node:
        """A random node; the leader more often than others."""
        leader = self.world.leader
        if leader is not None and self.random.random() < 0.4:
            return leader
        return self.random.choice(list(self.world.nodes.values()))

    def crash(self) -> None:
        node = self._pick_node()
        if node.raft is None:
            self.world.start(node)
            return
        self.world.crash(node)
        if self.random.random() < 0.6:
            self.world.at(self.world.now + self.random.random() * 0.5, self._restart, node)

    def crash_after_append(self) -> None:
        """Crash the leader while appended records are in flight to the followers and to its own disk."""
        leader = self.world.leader
        if leader is not None:
            self.world.append(leader, 3)
            self.world.at(self.world.now + self.random.expovariate(1 / 0.01), self._crash_for_a_while, leader)

    def _crash_for_a_while(self, node: Node) -> None:
        if node.raft is not None:
            self.world.crash(node)
            self.world.at(self.world.now + self.random.random(), self._restart, node)

    def crash_all(self) -> None:
        for node in self.world.running:
            self.world.crash(node)
            self.world.at(self.world.now + self.random.random() * 0.3, self._restart, node)

    def _restart(self, node: Node) -> None:
        if node.raft is None:
            self.world.start(node)

    def isolate(self) -> None:
        """Partition one node from all others, in both directions or in one."""
        node = self._pick_node()
        direction = self.random.choice(("both", "in", "out"))
        self.world.log(f"{node} is partitioned ({direction})")
        for other in self.world.nodes:
            if direction != "in":
                self.world.network.cut.add((node.id, other))
            if direction != "out":
                self.world.network.cut.add((other, node.id))

    def partition(self) -> None:
        """Partition the nodes into two groups."""
        others = list(self.world.nodes)
        self.random.shuffle(others)
        left = set(others[: self.random.randint(1, len(others))])
        self.world.log(f"nodes {sorted(left)} are partitioned from the others")
        self.world.network.cut |= {(one, two) for one in others for two in others if (one in left) != (two in left)}

    def break_link(self) -> None:
        """Break the link between two nodes, in one direction."""
        one, two = self.random.choice(list(self.world.nodes)), self.random.choice(list(self.world.nodes))
        self.world.log(f"the link from n{one} to n{two} is broken")
        self.world.network.cut.add((one, two))

    def heal(self) -> None:
        self.world.log("the network is healed")
        self.world.network.cut.clear()

    def pause(self) -> None:
        self.world.pause(self._pick_node(), self.random.expovariate(1 / 0.4))

    def jump(self) -> None:
        self.world.jump(self._pick_node(), self.random.expovariate(1 / 0.5))

    def snapshot(self) -> None:
        self.world.snapshot(self._pick_node(), trim=self.random.random() < 0.8)

    def resign(self) -> None:
        self.world.resign(self._pick_node())

    def _voters(self) -> VoterSet:
        """Those of the latest leader."""
        leader = self.world.leader
        return VoterSet() if leader is None or leader.raft is None else leader.raft.voter_set

    def upgrade(self) -> None:
        """From kraft.version 0 to 1."""
        leader, nodes = self._asked_leader(), self.world.nodes
        if leader is not None and not leader.membership.kraft_version:
            voters = VoterSet(nodes[voter.key.id].own for voter in self._voters())
            self.world.change_voters(leader, "upgrade", lambda raft, now: raft.upgrade(now, voters))

    def add_voter(self) -> None:
        leader, voters = self._asked_leader(), self._voters()
        others = [node for node in self.world.nodes.values() if voters.get(node.id) is None]
        if leader is not None and others:
            own = self.random.choice(others).own
            self.world.change_voters(leader, "add voter", lambda raft, now: raft.add_voter(now, own))

    def remove_voter(self) -> None:
        """Remove a voter: one whose disk was replaced if there is one, often the leader."""
        leader, voters = self._asked_leader(), self._voters()
        if leader is None or not voters:
            return
        gone = [key for key in voters.keys if self.world.nodes[key.id].key != key]
        leaders = [key for key in voters.keys if key == leader.key]
        key = gone[0] if gone else self.random.choice([*voters.keys, *leaders])
        if gone or self.world.can_lose(key, removed=True):
            self.world.change_voters(leader, "remove voter", lambda raft, now: raft.remove_voter(now, key))

    def move_voter(self) -> None:
        """A voter is restarted with another address, which it has the leader write."""
        leader, node = self._asked_leader(), self._pick_node()
        node.port += 1
        if node.raft is not None and node is not leader:
            self.world.crash(node)
            self.world.start(node)
        if leader is not None:
            self.world.change_voters(leader, "update voter", lambda raft, now: raft.update_voter(now, node.own))

    def replace_disk(self) -> None:
        """A disk is lost while every set of voters can do without it."""
        node, leader = self._pick_node(), self.world.leader
        is_dynamic = leader is not None and leader.raft is not None and leader.membership.kraft_version
        if is_dynamic and leader.membership.offset < leader.raft.high_watermark and self.world.can_lose(node.key):
            self.world.replace_disk(node)

    def _asked_leader(self) -> Node | None:
        """The leader, or one that has not noticed that it was replaced."""
        leaders = [node for node in self.world.running if node.raft is not None and node.raft.is_leader]
        return self.random.choice(leaders) if leaders else None

    def recover(self) -> None:
        """End all faults; within a bounded time all nodes must agree, with newly committed records."""
        world = self.world
        world.log("the faults have ended")
        world.network.cut.clear()
        world.network.loss = world.network.doubling = 0.0
        world.network.delay = min(world.network.delay, 0.01)
        for node in world.nodes.values():
            node.paused_until = min(node.paused_until, world.now + 0.1)
            self._restart(node)
        before = world.checker.committed_end
        ends_at = world.now + RECOVERY_MAX_S
        while not world.is_settled(before):
            if world.now > ends_at:
                raise NoProgress(f"no offset beyond {before} is committed everywhere: {describe(world)}")
            leader = world.leader
            if leader is not None and leader.log.end_offset <= before + 10:
                world.append(leader)
            world.run_until(world.now + 0.1)
        if any(node.log.truncations for node in world.nodes.values()):
            world.checker.seen("node that truncated its log")


FAULTS: list[tuple[Callable[[Scenario], None], float]] = [
    (Scenario.crash, 4),
    (Scenario.crash_all, 1),
    (Scenario.crash_after_append, 3),
    (Scenario.isolate, 2),
    (Scenario.partition, 2),
    (Scenario.break_link, 2),
    (Scenario.heal, 3),
    (Scenario.pause, 1),
    (Scenario.jump, 1),
    (Scenario.snapshot, 3),
    (Scenario.resign, 1),
]
"""The faults and their weights. Each seed uses a few of them, so that combinations vary."""

CHANGES: list[tuple[Callable[[Scenario], None], float]] = [
    (Scenario.add_voter, 3),
    (Scenario.remove_voter, 3),
    (Scenario.move_voter, 1),
    (Scenario.replace_disk, 1),
]
"""What an operator does in a dynamic quorum."""


def describe(world: World) -> str:
    return ", ".join(
        f"{node} {node.raft.role.value} epoch {node.raft.epoch} of n{node.raft.leader_id} applied {node.applied}"
        f" end {node.log.end_offset}"
        if node.raft
        else f"{node} down"
        for node in world.nodes.values()
    )


def trace_hash(seed: int) -> str:
    """A hash of the whole trace, which is the same in every process."""
    digest = sha256()
    run(seed, lambda line: digest.update(line.encode()))
    return digest.hexdigest()


def trace_of(seed: int) -> tuple[list[str], Exception | None]:
    """The trace of a seed, and the error that ended it."""
    lines: list[str] = []
    try:
        run(seed, lines.append)
    except Exception as error:  # noqa: BLE001 (any error is a finding)
        return lines, error
    return lines, None


@dataclass(slots=True)
class Tally:
    """The outcomes of many seeds."""

    seeds: int
    events: int
    seconds: float
    sometimes: dict[str, int]
    failed: dict[int, str]

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.events += other.events
        self.seconds += other.seconds
        self.failed |= other.failed
        for what, count in other.sometimes.items():
            self.sometimes[what] = self.sometimes.get(what, 0) + count


def run_many(first: int, count: int, *, failures_max: int = 5) -> Tally:
    """Run seeds `first`, `first` + 1, …"""
    tally = Tally(0, 0, 0.0, {}, {})
    began = process_time()
    for seed in range(first, first + count):
        try:
            outcome = run(seed)
        except Exception as error:  # noqa: BLE001 (any error is a finding)
            tally.failed[seed] = f"{type(error).__name__}: {error}"
            if len(tally.failed) >= failures_max:
                break
            continue
        tally.add(Tally(1, outcome.events, 0.0, outcome.sometimes, {}))
    tally.seconds = process_time() - began
    return tally


def run_parallel(first: int, count: int, *, jobs: int, portion: int = 250, failures: int | None = None) -> Tally:
    """Like `run_many`, in several processes; ends after the portion with which there are so many failures."""
    tally = Tally(0, 0, 0.0, {}, {})
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        starts = range(first, first + count, portion)
        parts = [pool.submit(run_many, start, min(portion, first + count - start)) for start in starts]
        for part in parts:
            tally.add(part.result())
            if failures is not None and len(tally.failed) >= failures:
                pool.shutdown(cancel_futures=True)
                break
    return tally


def report(tally: Tally) -> str:
    lines = [f"{tally.seeds} seeds, {tally.events} events in {tally.seconds:.1f} s of processor time"]
    lines += [f"  {count:9} {what}" for what, count in sorted(tally.sometimes.items())]
    for seed, error in sorted(tally.failed.items())[:5]:
        lines += [f"FAILED seed {seed}: {error}", f"  python -m simulation.raft --trace {seed}"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate quorums.")
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--failures", type=int, help="end after so many")
    parser.add_argument("--trace", type=int, help="print the trace of this seed")
    options = parser.parse_args()
    if options.trace is not None:
        lines, error = trace_of(options.trace)
        print("\n".join(lines), f"\n{error!r}" if error else "\nno failure")
        return 1 if error else 0
    tally = run_parallel(options.first, options.seeds, jobs=options.jobs, failures=options.failures)
    print(report(tally))
    for seed in sorted(tally.failed)[:1]:
        lines, _ = trace_of(seed)
        print(f"the end of seed {seed}:", *lines[-60:], sep="\n")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
