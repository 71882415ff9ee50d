"""`Plan`: the topics and groups of a run, and what its programs share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chaos.checks.counted import COUNTING_GROUP
from minikafka.client.options import AssignorName, GroupProtocol

SHORT_SEGMENT_MS = 2000
"""The least value of segment.bytes is 1 MiB, so that segments are to be rolled by time."""
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(slots=True)
class TopicPlan:
    """A topic that exists from the beginning to the end.

    Attributes:
        partitions: The number of partitions at the beginning; 'administration' may add some.
        partitions_max: The number up to which it may.
        shrinking: Retention and DeleteRecords may delete records.
        configs: Besides min.insync.replicas.
    """

    name: str
    partitions: int
    partitions_max: int
    shrinking: bool = False
    configs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def compacted(self) -> bool:
        """Whether a later record of a key may replace a record; all records have a key then."""
        return "compact" in self.configs.get("cleanup.policy", "")


@dataclass(slots=True)
class GroupPlan:
    """A group of consumers.

    Attributes:
        automatic: Its members commit automatically.
        static: Its members have a `group_instance_id`, the stable name of their process.
        protocol: Who assigns: the leader of the group, or the coordinator (KIP-848).
    """

    name: str
    topics: tuple[str, ...]
    assignor: AssignorName = "range"
    automatic: bool = False
    static: bool = False
    protocol: GroupProtocol = "classic"


COUNTING = GroupPlan(COUNTING_GROUP, ("steady",))
"""The group of read-process-write programs, which commit its offsets in their transactions only."""

CONFLUENT_GROUP, JAVA_GROUP = "confluent", "java"
FOREIGN = {name: GroupPlan(name, ("steady",)) for name in (CONFLUENT_GROUP, JAVA_GROUP)}
"""The groups of other clients, which run on real clusters only."""


@dataclass(slots=True)
class Plan:
    """What a run works on.

    Attributes:
        replicas: The replication factor of all topics.
        min_insync: The values of min.insync.replicas that an administrator may set; the first one is set at first.
        transaction_versions: Levels of transaction.version; the first one is set at first, an administrator sets any.
        committed_offsets_are_fresh: No coordinator can be isolated without knowing it; see the package's caveats.
        grown: The numbers of partitions that an administrator was told that topics have now, by topic.
        incarnations: The names in the history of topics that are created again and again, by their names.
        brief: Topics that exist for a while, and are never created again.
        cordoned: Brokers that an administrator has told to take no new replicas in some directories.
        coverage: How often each thing was done; `program: action` for success, `program: action: error` for failure.
    """

    topics: dict[str, TopicPlan]
    groups: dict[str, GroupPlan]
    replicas: int = 1
    min_insync: tuple[int, ...] = (1,)
    transaction_versions: tuple[int, ...] = (2,)
    committed_offsets_are_fresh: bool = True
    grown: dict[str, int] = field(default_factory=dict[str, int])
    incarnations: dict[str, str] = field(default_factory=dict[str, str])
    brief: dict[str, None] = field(default_factory=dict[str, None])
    cordoned: dict[int, None] = field(default_factory=dict[int, None])
    coverage: Counter[str] = field(default_factory=Counter[str])

    @classmethod
    def of(cls, brokers: int) -> Plan:
        """The usual plan for a cluster with this number of brokers."""
        short = {"segment.ms": str(SHORT_SEGMENT_MS)}
        topics = [
            TopicPlan("steady", partitions=3, partitions_max=3),
            TopicPlan("growing", partitions=1, partitions_max=4),
            TopicPlan("shrinking", partitions=2, partitions_max=2, shrinking=True, configs=short),
            TopicPlan("compacted", partitions=1, partitions_max=1, configs={**short, **COMPACTED}),
        ]
        groups = [
            GroupPlan("eager", ("steady", "growing")),
            GroupPlan("cooperative", ("steady", "growing"), assignor="cooperative-sticky"),
            GroupPlan("automatic", ("steady", "shrinking", "compacted"), automatic=True),
            GroupPlan("static", ("steady",), assignor="roundrobin", static=True),
            GroupPlan("assigned", ("steady", "growing"), protocol="consumer"),
            GroupPlan("static assigned", ("steady",), static=True, protocol="consumer"),
        ]
        replicas = min(brokers, 3)
        return cls(
            topics={one.name: one for one in topics},
            groups={one.name: one for one in groups},
            replicas=replicas,
            min_insync=(2,) if replicas == 3 else (1,),
        )

    @property
    def compacted(self) -> frozenset[str]:
        """The topics in which a later record of a key may replace a record."""
        return frozenset(topic.name for topic in self.topics.values() if topic.compacted)

    def topics_of(self, group: str) -> tuple[str, ...]:
        """What the members of a group read."""
        return {COUNTING.name: COUNTING, **FOREIGN, **self.groups}[group].topics

    def succeeded(self, program: str) -> list[str]:
        """What a program has done at least once."""
        return [what for what, count in self.coverage.items() if what.startswith(f"{program}: ") and count]
