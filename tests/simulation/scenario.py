"""`run`: one seed: a cluster starts, programs work while faults happen, all is healed, and the history is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from chaos.checker import check
from chaos.history import Recorder
from chaos.workload.administration import create_topics
from chaos.workload.final_reading import final_reading
from chaos.workload.plan import Plan
from chaos.workload.process import ClientProcess, Program
from chaos.workload.programs import members, programs
from chaos.workload.replica_logs import replica_log
from support.logins import Logins

from minikafka.broker.node.node import Node
from minikafka.client.connections.seams import Seams
from minikafka.protocol.names import TopicPartition
from simulation.faults.chaos import Chaos
from simulation.faults.table import fault_of
from simulation.faults.voters import settle
from simulation.guards import Guards, logins, secure_settings
from simulation.invariants import broken_at_rest
from simulation.metadata_checks import CommittedMetadata
from simulation.partition_checks import PartitionStates
from simulation.schedule import DELETE_RETENTION, FaultAt, Schedule
from simulation.world.cluster import Cluster
from simulation.world.machine import Machine
from simulation.world.quorums import FIXED, lay_out
from simulation.world.world import TooManySteps, World

START_MAX_S = 60.0
FINAL_MAX_S = 300.0
REST_MAX_S = 60.0
SETTLE_MAX_S = 60.0
PACE_S = 0.6
REFUSALS = ("AuthorizationFailedError", "AuthenticationFailedError")
"""How the names of errors end that an allowed client never meets."""


class Failure(AssertionError):
    """A seed failed. The text names the invariant.

    Attributes:
        invariant: What was broken, in a few words that are the same for the same cause.
    """

    def __init__(self, invariant: str, evidence: str) -> None:
        super().__init__(f"{invariant}: {evidence}")
        self.invariant = invariant


@dataclass(frozen=True)
class Outcome:
    """What a seed did.

    Attributes:
        trace_hash: Names the whole run.
        virtual_s: How long it lasted, in virtual time.
    """

    seed: int
    trace_hash: str
    virtual_s: float
    steps: int
    operations: int


def run(schedule: Schedule, listener: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed.

    Args:
        listener: Is called with each line of the trace.

    Raises:
        Failure: An invariant is broken.
    """
    scenario = Scenario(schedule)
    if listener is not None:
        scenario.world.listeners.append(listener)
    try:
        return scenario.run()
    finally:
        scenario.world.close()


class Scenario:
    """The run of a seed; `recent` of its world has the last events of each host."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.world = World(schedule.seed)
        self.cluster = Cluster(self.world)
        settings = dict(schedule.settings) | (secure_settings() if schedule.secured else {})
        lay_out(self.cluster, schedule.layout, settings, schedule.quorum)
        bootstrap = self.cluster.bootstrap_servers
        self.guards: Guards | None = None
        if schedule.secured:
            self.cluster.users, self.guards = logins(bootstrap), Guards(bootstrap.split(","))
        self.chaos = Chaos(self.cluster, durable=schedule.durable, tolerates_loss=schedule.replicas == 3)
        self.metadata, self.partitions = CommittedMetadata(self.cluster), PartitionStates(self.cluster)
        self.recorder = Recorder(lambda: int(self.world.now * 1e9))
        self.plan = Plan.of(schedule.brokers)
        self.plan.committed_offsets_are_fresh = False
        self.plan.transaction_versions = schedule.transaction_versions
        self._compacted = set(self.plan.compacted)
        self._incarnations: Counter[str] = Counter()
        self._supervised = self._with_members = True

    def run(self) -> Outcome:
        """See `run` of the module."""
        try:
            self._start()
            self._work()
            self._finish()
        except TooManySteps as error:
            raise Failure("a process never waits", str(error)) from error
        self._judge()
        operations = self.recorder.next_number
        return Outcome(self.schedule.seed, self.world.trace_hash, self.world.now, self.world.steps, operations)

    def coverage(self) -> Counter[str]:
        """How often what has happened so far: faults, effects, and actions of programs."""
        coverage = self.world.coverage + Counter({f"program: {key}": n for key, n in self.plan.coverage.items()})
        for host in self.cluster.hosts.values():
            coverage += Counter({f"disk: {key}": n for key, n in host.disk.effects.items()})
        return coverage

    # -- the beginning -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.metadata.keep_looking()
        self.partitions.keep_looking()
        random = self.world.random("start")
        hosts = list(self.cluster.hosts.values())
        for host in hosts:
            self.world.at(random.choice((0.0, 3.0)) * random.random(), self.cluster.start, host)
        if not self.world.run_until(START_MAX_S, lambda: all(host.ready for host in hosts)):
            waiting = [f"{host.name} {host.refused}" for host in hosts if not host.ready]
            raise Failure("the cluster does not start", ", ".join(waiting))
        if self.guards:
            self._run_to_its_end(self._start_client("users", self.guards.begin), "the users cannot be made")
        first = self._start_client("first", create_topics)
        self._run_to_its_end(first, "the topics cannot be created")

    def _run_to_its_end(self, machine: Machine, invariant: str) -> None:
        self.world.run_until(self.world.now + FINAL_MAX_S, lambda: machine.ended)
        self._check_failures()
        if not machine.ended:
            raise Failure(invariant, f"{machine} has not ended after {FINAL_MAX_S:g} s")

    # -- programs and faults -------------------------------------------------------------------------------------

    def _work(self) -> None:
        known = {**programs(self.plan), **members(self.plan)}
        for program in self.schedule.programs:
            self._keep_running(f"{program.name.replace(' ', '-')}-{program.number}", known[program.name])
        for group, count in self.schedule.groups:
            for number in range(count):
                self._keep_running(f"member-{group}-{number}", members(self.plan)[f"member of {group}"])
        if self.guards:
            self._keep_running("guard", self.guards.watch)
            self._keep_running("changer", self.guards.change)
        began = self.world.now
        for fault in self.schedule.faults:
            self.world.at(began + fault.at_s, self._inject, fault)
        self.world.run_until(began + self.schedule.lasts_s)
        self._check_failures()

    def _inject(self, fault: FaultAt) -> None:
        if not self.chaos.healed:
            self.world.trace("chaos", f"fault {fault.number}: {fault.kind}")
            random = Random(f"{self.schedule.seed}/fault {fault.number}")
            self.chaos.inject(fault.kind, fault_of(fault.kind), self.chaos, random)

    def _keep_running(self, name: str, program: Program) -> None:
        """Run a program again whenever its process has ended, until the end."""
        if not (self._with_members if name.startswith("member-") else self._supervised):
            return
        machine = self._start_client(name, program)
        machine.on_end.append(lambda: self.world.after(1.0, self._keep_running, name, program))

    def _start_client(self, name: str, program: Callable[[ClientProcess], Awaitable[object]]) -> Machine:
        self._incarnations[name] += 1
        incarnation = f"{name}/{self._incarnations[name]}"
        made: list[ClientProcess] = []

        async def start(seams: Seams) -> None:
            process = ClientProcess(
                incarnation,
                self.recorder,
                self.world.random(f"program {incarnation}"),
                seams,
                self.cluster.logins,
                self.plan,
                pace_s=PACE_S,
            )
            made.append(process)
            await program(process)

        machine = self.cluster.start_client(incarnation, f"host-of-{name}", start)
        machine.on_end.append(lambda: [setattr(process, "ended", True) for process in made])
        return machine

    # -- the end -------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._supervised = False
        self.chaos.heal()
        for name, machine in self.cluster.clients.items():
            if not name.startswith("member-") and not machine.ended:
                self.world.kill(machine)
        groups = [name for name, _ in self.schedule.groups]

        async def last(process: ClientProcess) -> None:
            await final_reading(process, groups=groups)

        if self.guards:
            self._run_to_its_end(self._start_client("settling", self.guards.settle), "changes are not in force")
        self._run_to_its_end(self._start_client("last", last), "the final reading does not end")
        if self.schedule.quorum != FIXED:
            self._settle_voters()
        self._with_members = False
        for machine in self.cluster.clients.values():
            if not machine.ended:
                self.world.kill(machine)
        self._come_to_rest()
        self._read_replicas()

    def _settle_voters(self) -> None:
        """All controllers become voters, and none is left whose disk was replaced. Raises Failure."""
        ends_at = self.world.now + SETTLE_MAX_S
        while self.world.run_until(ends_at, lambda: self.chaos.leader() is not None) and self.world.now < ends_at:
            operator = settle(self.chaos)
            if operator is None:
                return
            self.world.run_until(ends_at, partial(getattr, operator, "ended"))
            self._check_failures()
        raise Failure("the voters cannot be changed", f"{self.chaos.voters.in_force()}")

    def _come_to_rest(self) -> None:
        """Without clients, all replicas must come in sync. Raises Failure."""
        ends_at = self.world.now + REST_MAX_S
        while broken := broken_at_rest(self.cluster.hosts.values()):
            if self.world.now >= ends_at:
                raise Failure("the cluster does not come to rest", "\n".join(broken[:10]))
            self.world.run_until(self.world.now + 1.0)
        self._check_failures()

    def _read_replicas(self) -> None:
        """Record the logs of all replicas, under names that no client uses: a topic may have been created again."""
        process = ClientProcess("replicas", self.recorder, Random(0), Seams(), Logins.open(""), self.plan)
        for host in self.cluster.hosts.values():
            for partition in host.node.parts.partitions if isinstance(host.node, Node) else ():
                topic, index = partition.topic_partition
                if partition.log.failure is not None:
                    continue
                name = TopicPartition(f"replicas of {topic} {partition.topic_id.hex()}", index)
                log = replica_log(partition.log, partition.high_watermark, name, host.node_id)
                if partition.log.config.compacts:
                    self._compacted.add(name.topic)
                process.note(f"replicas of {host.name}", log)

    # -- verdicts ------------------------------------------------------------------------------------------------

    def _check_failures(self) -> None:
        if self.metadata.broken:
            raise Failure("committed metadata lost", self.metadata.broken)
        if self.partitions.broken:
            raise Failure("impossible partition", self.partitions.broken)
        for name, error in self.cluster.failures:
            kind = name.partition("/")[0].rstrip("-0123456789")
            raise Failure(f"{type(error).__name__} ends {kind}", f"{name}: {error}") from error
        for bug in self.world.bugs:
            raise Failure("a bug was met", bug)

    def _judge(self) -> None:
        if refused := [key for key in self.plan.coverage if key.endswith(REFUSALS)]:
            raise Failure("the workload was refused", ", ".join(refused))
        tombstones_go = DELETE_RETENTION in dict(self.schedule.settings)
        anomalies = check(
            self.recorder.events,
            compacted=self._compacted,
            keeping=frozenset() if tombstones_go else self.plan.compacted,
            forgetting=self.plan.compacted if self.schedule.replicas == 1 else frozenset(),
        )
        if anomalies:
            raise Failure(str(anomalies[0].kind), "\n".join(str(anomaly) for anomaly in anomalies[:5]))
