"""`Schedule`: everything that a seed decides in advance: the cluster, its settings, the programs, and the faults."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from random import Random

from simulation.faults.table import FAULTS, VOTER_FAULTS, weight_of
from simulation.world.quorums import FIXED, INITIAL, JOINS, STANDALONE, UPGRADED

Part = int | str | tuple[str, int]
"""What `Schedule.parts` names: a fault, a program or a setting, or a member of a group."""

LAYOUTS: dict[str, float] = {
    "1": 1,  # one node, without a quorum
    "3": 6,
    "3+1": 1,
    "3+2": 1,
    "1:3": 1,  # one controller, three brokers
    "1:2": 0.5,
    "2:3": 0.3,
    "3:2": 0.3,
}
"""`3` are nodes with both roles, `3+2` and two brokers, `1:3` are controllers and brokers apart."""

VOTERS_SHARE = 0.15
"""The share of the seeds whose voters may come and go, unless there is no quorum."""
QUORUMS: dict[str, float] = {INITIAL: 3, STANDALONE: 2, UPGRADED: 1}
UPGRADE = "upgrade kraft.version"
FIRST_VOTER_FAULT = {STANDALONE: "add all voters", UPGRADED: UPGRADE}
"""What an operator does soon after the start."""
JOINS_SHARE = 0.25

PROGRAMS: dict[str, float] = {
    "idempotent producer": 1.4,
    "short-lived producer": 0.7,
    "weak producer": 0.7,
    "assigned consumer": 0.7,
    "offset reader": 0.5,
    "record deleter": 0.5,
    "administrator": 0.8,
    "recreator": 0.5,
}
"""Programs, besides the members of groups, and how many of each a seed has on average."""

CONSUMER_GROUPS = {"eager": "assigned", "static": "static assigned"}
"""The groups under the consumer protocol, in place of those under the classic one."""
CONSUMER_SHARE = 0.5

TRANSACTIONAL_PROGRAMS = ("transactional producer", "read-process-write", "read-process-write")
TRANSACTIONAL_SHARE = 0.3
"""The share of the seeds that have transactions: all these programs."""

RARE_SETTINGS: dict[str, tuple[int, ...]] = {
    "leader.imbalance.check.interval.seconds": (1, 5),
    "max.incremental.fetch.session.cache.slots": (0, 2),
    "offsets.retention.check.interval.ms": (2000,),
    "replica.fetch.max.bytes": (500, 20_000),
    "replica.fetch.response.max.bytes": (1000, 50_000),
    "connections.max.idle.ms": (3000,),
}
"""Values that lead to code which the defaults seldom reach."""
RARE_SHARE = 0.25
SECURED_SHARE = 0.25

OFTEN_COMPACTED = {"log.roll.ms": (1000, 3000), "log.cleaner.min.cleanable.ratio": (0.01,)}
"""With them the cleaner is at work more often: only whole segments are cleaned."""
DELETE_RETENTION = "log.cleaner.delete.retention.ms"
"""Its default is longer than any run: tombstones and markers are removed in seeds with this setting only."""
DELETE_RETENTIONS_MS = (0, 1000, 10_000)
TRANSACTION_VERSIONS = {(2,): 0.5, (1,): 0.25, (1, 2): 0.15, (2, 1): 0.1}

CONSUMER_SETTINGS = {
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 1000,
}
"""Members that die are to be noticed within a run."""

KEPT_SETTINGS = frozenset({
    "min.insync.replicas",
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "auto.create.topics.enable",
    "group.min.session.timeout.ms",
    *CONSUMER_SETTINGS,
    "log.flush.interval.messages",
})
"""Without these acknowledged records need not survive, the programs cannot work, or a run is slow."""


@dataclass(frozen=True)
class ProgramAt:
    """A program with its number. Its randomness depends on the seed, its name and its number only."""

    number: int
    name: str


@dataclass(frozen=True)
class FaultAt:
    """A fault at a time, in seconds after the beginning. Its randomness depends on the seed and its number only."""

    number: int
    at_s: float
    kind: str


@dataclass(frozen=True)
class Schedule:
    """See above.

    Attributes:
        layout: A key of `LAYOUTS`.
        settings: Of every node.
        durable: Each batch is synced before it is acknowledged.
        transaction_versions: The level of transaction.version at first, and levels that an administrator sets.
        secured: All log in, and ACLs decide (`simulation.guards`).
        quorum: How the voters are named: see `world/quorums.py`.
        programs: Each runs in a machine of its own.
        groups: The number of members of each group.
        lasts_s: The time of the faults.
    """

    seed: int
    layout: str
    settings: tuple[tuple[str, str], ...]
    durable: bool
    programs: tuple[ProgramAt, ...]
    groups: tuple[tuple[str, int], ...]
    lasts_s: float
    faults: tuple[FaultAt, ...]
    transaction_versions: tuple[int, ...] = (2,)
    quorum: str = FIXED
    secured: bool = False

    @property
    def brokers(self) -> int:
        return sum(int(part) for part in self.layout.split("+")) if ":" not in self.layout else int(self.layout[-1])

    @property
    def replicas(self) -> int:
        return min(3, self.brokers)

    def parts(self) -> dict[str, list[Part]]:
        """What may be left out, by kind: numbers of faults and programs, members of groups, names of settings."""
        return {
            "faults": [fault.number for fault in self.faults],
            "programs": [program.number for program in self.programs],
            "members": [(group, number) for group, count in self.groups for number in range(count)],
            "settings": [name for name, _ in self.settings if name not in KEPT_SETTINGS],
        }

    def without(self, kind: str, left_out: Collection[Part]) -> Schedule:
        """This schedule without some parts of a kind; a setting that is left out has its default."""
        if kind == "faults":
            return replace(self, faults=tuple(one for one in self.faults if one.number not in left_out))
        if kind == "programs":
            return replace(self, programs=tuple(one for one in self.programs if one.number not in left_out))
        if kind == "settings":
            return replace(self, settings=tuple(one for one in self.settings if one[0] not in left_out))
        counts = ((group, sum((group, one) not in left_out for one in range(count))) for group, count in self.groups)
        return replace(self, groups=tuple((group, count) for group, count in counts if count))

    def describe(self) -> list[str]:
        """Lines for a report."""
        return [
            f"layout {self.layout}, voters {self.quorum}{', secured' if self.secured else ''}",
            f"{'synced' if self.durable else 'not synced'} before acknowledged",
            f"faults for {self.lasts_s:g} s",
            f"transaction.version {', '.join(map(str, self.transaction_versions))}",
            "settings " + ", ".join(f"{name}={value}" for name, value in self.settings),
            "programs " + ", ".join(f"{one.number} {one.name}" for one in self.programs),
            "groups " + ", ".join(f"{name} ({members})" for name, members in self.groups),
            *(
                f"{fault.at_s:8.3f} s  fault {fault.number}: {fault.kind}"
                for fault in sorted(self.faults, key=lambda fault: fault.at_s)
            ),
        ]


def draw(seed: int, kinds: Sequence[str] = ()) -> Schedule:
    """The schedule of a seed; with faults of these kinds, if any are given, instead of those that the seed draws."""
    random = Random(f"{seed}/schedule")
    layout = random.choices([*LAYOUTS], [*LAYOUTS.values()])[0]
    durable = random.random() < (0.7 if layout == "1" else 0.2)
    lasts_s = random.choice((10.0, 20.0, 30.0, 60.0))
    programs = _programs(random)
    groups = _assigned_by_coordinators(seed, _groups(random))
    schedule = Schedule(seed, layout, (), durable, programs, groups, lasts_s, ())
    drawn = random.sample([*FAULTS], random.randint(1, 6))
    programs += _transactional_programs(seed, len(programs))
    settings = _settings(random, schedule)
    schedule = replace(
        schedule,
        programs=programs,
        settings=settings,
        faults=_faults(random, [*kinds] or drawn, lasts_s),
        transaction_versions=_transaction_versions(seed),
    )
    secured = Random(f"{seed}/security").random() < SECURED_SHARE
    return replace(_with_voters(schedule, kinds), secured=secured)


def _with_voters(schedule: Schedule, kinds: Sequence[str]) -> Schedule:
    """With voters that come and go in some seeds, by a random stream of its own: the others remain as they were."""
    random = Random(f"{schedule.seed}/voters")
    asked_for = any(kind in VOTER_FAULTS for kind in kinds)
    if (random.random() >= VOTERS_SHARE and not asked_for) or schedule.layout == "1":
        return schedule
    quorum = random.choices([*QUORUMS], [*QUORUMS.values()])[0]
    if UPGRADE in kinds:
        quorum = UPGRADED
    settings = schedule.settings + (((JOINS, "true"),) if random.random() < JOINS_SHARE else ())
    known = [kind for kind in VOTER_FAULTS if kind != UPGRADE or quorum == UPGRADED]
    drawn = random.sample(known, random.randint(1, len(known)))
    further = [] if kinds else [(one.at_s, one.kind) for one in _faults(random, drawn, schedule.lasts_s)]
    if quorum in FIRST_VOTER_FAULT:
        further.append((round(random.uniform(0, 2), 3), FIRST_VOTER_FAULT[quorum]))
    numbered = enumerate(further, len(schedule.faults))
    faults = schedule.faults + tuple(FaultAt(number, at_s, kind) for number, (at_s, kind) in numbered)
    return replace(schedule, settings=settings, faults=faults, quorum=quorum)


def _programs(random: Random) -> tuple[ProgramAt, ...]:
    names = (
        name
        for name, mean in PROGRAMS.items()
        for _ in range(int(mean) + (random.random() < mean - int(mean)) - (mean >= 1 and random.random() < 0.3))
    )
    return tuple(ProgramAt(number, name) for number, name in enumerate(names))


def _transactional_programs(seed: int, first: int) -> tuple[ProgramAt, ...]:
    if Random(f"{seed}/transactions").random() >= TRANSACTIONAL_SHARE:
        return ()
    return tuple(ProgramAt(number, name) for number, name in enumerate(TRANSACTIONAL_PROGRAMS, first))


def _transaction_versions(seed: int) -> tuple[int, ...]:
    random = Random(f"{seed}/transaction version")
    return random.choices([*TRANSACTION_VERSIONS], [*TRANSACTION_VERSIONS.values()])[0]


def _groups(random: Random) -> tuple[tuple[str, int], ...]:
    names = random.sample(("eager", "cooperative", "automatic", "static"), random.choice((1, 1, 1, 2)))
    return tuple((name, random.randint(1, 3)) for name in names)


def _assigned_by_coordinators(seed: int, groups: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Some groups use the consumer protocol (KIP-848) instead of the classic one."""
    random = Random(f"{seed}/group protocols")
    names = {name: instead for name, instead in CONSUMER_GROUPS.items() if random.random() < CONSUMER_SHARE}
    return tuple((names.get(name, name), members) for name, members in groups)


def _settings(random: Random, schedule: Schedule) -> tuple[tuple[str, str], ...]:
    replicas = schedule.replicas
    session_ms = random.choice((2000, 4000, 9000))
    given = {
        "min.insync.replicas": 2 if replicas == 3 else 1,
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": random.choice((1, 3)),
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": random.choice((session_ms // 10, session_ms // 4)),
        "replica.lag.time.max.ms": random.choice((2000, 10000, 30000)),
        "replica.fetch.wait.max.ms": random.choice((500, 1000)),
        "group.initial.rebalance.delay.ms": random.choice((0, 500, 3000)),
        "group.min.session.timeout.ms": 1000,
        **CONSUMER_SETTINGS,
        "log.retention.check.interval.ms": random.choice((1000, 5000)),
        "log.segment.delete.delay.ms": random.choice((0, 1000)),
        "replica.high.watermark.checkpoint.interval.ms": random.choice((500, 5000)),
        "log.flush.offset.checkpoint.interval.ms": random.choice((500, 60000)),
        "metadata.log.max.record.bytes.between.snapshots": random.choice((2000, 20000, 20971520)),
        "log.index.size.max.bytes": random.choice((1000, 20000)),
        "log.cleaner.backoff.ms": 1000,
    }
    if schedule.durable:
        given["log.flush.interval.messages"] = 1
    elif random.random() < 0.3:
        given["log.flush.interval.ms"] = 1000
    if random.random() < 0.3:
        given["log.dirs"] = "/data/a,/data/b"
        if random.random() < 0.5:
            given["metadata.log.dir"] = "/metadata"
    rare = Random(f"{schedule.seed}/rare settings")
    given |= {name: rare.choice(values) for name, values in RARE_SETTINGS.items() if rare.random() < RARE_SHARE}
    cleaning = Random(f"{schedule.seed}/cleaning")
    if cleaning.random() < RARE_SHARE:
        given |= {name: cleaning.choice(values) for name, values in OFTEN_COMPACTED.items()}
    if cleaning.random() < RARE_SHARE:
        given[DELETE_RETENTION] = cleaning.choice(DELETE_RETENTIONS_MS)
    return tuple((name, str(value)) for name, value in given.items())


def _faults(random: Random, kinds: list[str], lasts_s: float) -> tuple[FaultAt, ...]:
    weights = [weight_of(kind) for kind in kinds]
    pause_s = random.choice((0.5, 2.0, 5.0))
    faults: list[FaultAt] = []
    at_s = random.expovariate(1 / pause_s)
    while at_s < lasts_s:
        faults.append(FaultAt(len(faults), round(at_s, 3), random.choices(kinds, weights)[0]))
        at_s += random.expovariate(1 / pause_s)
    return tuple(faults)
