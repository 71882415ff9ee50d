"""Random scenarios: only a replica with all committed records is elected, and epochs never decrease."""

from random import Random

import pytest
from support.decided_cluster import SESSION_MS, DecidedCluster
from support.images import applied, topic_id

from minikafka.controller.decisions import leader_balancing
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import TopicRecord
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot, encode_snapshot, records_of
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

NODES = (1, 2, 3, 4, 5)
SEEDS = range(40)
STEPS = 250


class Scenario:
    """A random scenario of faults and requests.

    A record is committed when all members of an ISR of at least min.insync.replicas have it. The scenario assumes that
    a record is committed whenever that is possible: then only the members of the ISR have all committed records.

    Attributes:
        holders: the nodes that have every committed record, by topic and partition.
        lost: nodes that crashed and have not returned.
        back: the node that has returned from a crash in this step.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = DecidedCluster(NODES)
        self.clean: set[int] = set()
        self.lost: set[int] = set()
        self.back: int | None = None
        self.topics = {"safe": 2, "single": 1, "loose": 1, "strict": 3}
        for name, minimum in self.topics.items():
            replicas = [tuple(self.random.sample(NODES, self.random.choice((1, 2, 3)))) for _ in range(4)]
            unclean = "true" if name == "loose" else "false"
            self.cluster.topic(
                *replicas, name=name, min_insync_replicas=str(minimum), unclean_leader_election_enable=unclean
            )
        self.holders = {key: set(state.isr) for key, state in self.partitions().items()}

    def partitions(self) -> dict[tuple[str, int], PartitionState]:
        topics = self.cluster.image.topics
        return {(name, index): state for name in topics for index, state in enumerate(topics[name].partitions)}

    def step(self) -> None:
        before = self.partitions()
        self.back = None
        often = [self.crash, self.start, self.start, self.start, self.alter, self.alter, self.alter]
        rarely = [self.stop, self.restart, self.silence, self.beat, self.reassign, self.elect, self.balance]
        action = self.random.choice([*often, *rarely, self.configure])
        action()
        self.check(before, asked_unclean=action == self.elect)

    def node(self) -> int:
        return self.random.choice(NODES)

    def crash(self) -> None:
        """A crash; records that the node had not synced are lost."""
        node = self.node()
        self.cluster.fence(node)
        self.lose(node)

    def restart(self) -> None:
        """A crash and a restart before the session times out."""
        node = self.node()
        self.lose(node)
        self.cluster.now_ms += SESSION_MS
        self.cluster.join(node)
        self.lost.discard(node)
        self.back = node

    def lose(self, node: int) -> None:
        self.clean.discard(node)
        self.lost.add(node)
        for holders in self.holders.values():
            holders.discard(node)

    def silence(self) -> None:
        """A session timeout without a crash."""
        self.cluster.fence(self.node())

    def stop(self) -> None:
        node = self.node()
        if not self.cluster.image.is_alive(node):
            return
        for _ in range(4):
            if self.cluster.heartbeat(node, want_shut_down=True).should_shut_down:
                self.clean.add(node)
                return
            for other in self.cluster.image.live_brokers():
                if self.cluster.image.may_lead(other):
                    self.cluster.heartbeat(other)
        raise AssertionError("a controlled shutdown ends")

    def start(self) -> None:
        node = self.node()
        if not self.cluster.image.is_alive(node):
            self.cluster.now_ms += SESSION_MS
            self.cluster.join(node, previous=self.cluster.epoch(node) if node in self.clean else -1)
            self.back = None if node in self.clean else node
            if self.back is not None:
                self.lose(node)
            self.clean.discard(node)
            self.lost.discard(node)

    def beat(self) -> None:
        node = self.node()
        if self.cluster.image.is_alive(node):
            self.cluster.heartbeat(node)

    def alter(self) -> None:
        """The leader shrinks or expands the ISR; a replica that joins it has all committed records."""
        (name, index), state = self.random.choice(sorted(self.partitions().items()))
        if state.leader < 0:
            return
        others = [node for node in state.replicas if node != state.leader and self.random.random() < 0.6]
        stale = {"partition_epoch": state.partition_epoch - 2} if self.random.random() < 0.1 else {}
        told = self.cluster.alter([state.leader, *others], name=name, index=index, **stale)
        assert told.error_code or not stale, "what is old is refused"
        if told.error_code in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            self.holders[name, index] |= {*others}

    def reassign(self) -> None:
        (name, index), _ = self.random.choice(sorted(self.partitions().items()))
        target = self.random.sample(NODES, self.random.choice((1, 2, 3)))
        self.cluster.reassign(None if self.random.random() < 0.3 else target, name=name, index=index)

    def elect(self) -> None:
        (name, index), _ = self.random.choice(sorted(self.partitions().items()))
        self.cluster.elect(unclean=self.random.random() < 0.2, name=name, index=index)

    def configure(self) -> None:
        """Changes min.insync.replicas of a topic."""
        name, minimum = self.random.choice(sorted(self.topics)), self.random.choice((1, 2, 3))
        setting = AlterableConfig(name="min.insync.replicas", value=str(minimum))
        resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=[setting])
        self.cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))
        self.topics[name] = minimum

    def balance(self) -> None:
        decide = self.random.choice([leader_balancing.preferred, leader_balancing.leaderless])
        self.cluster.carry_out(decide(self.cluster.image, self.cluster.context()))

    def check(self, before: dict[tuple[str, int], PartitionState], *, asked_unclean: bool) -> None:
        for key, state in self.partitions().items():
            self.check_shape(state)
            self.check_epochs(before[key], state)
            if state.leader >= 0 and state.leader != before[key].leader:
                self.check_election(key, before[key], state, unclean=asked_unclean or key[0] == "loose")
            self.follow(key, state)

    def check_shape(self, state: PartitionState) -> None:
        image = self.cluster.image
        assert state.replicas
        assert len(set(state.replicas)) == len(state.replicas)
        assert set(state.isr) <= set(state.replicas)
        assert set(state.elr) <= set(state.replicas) - set(state.isr)
        assert set(state.adding_replicas) | set(state.removing_replicas) <= set(state.replicas)
        assert all(image.may_lead(node) for node in state.isr), "fenced ones are not in sync"
        if state.leader >= 0:
            assert state.leader in state.isr
            assert image.may_lead(state.leader)
            assert not state.last_known_elr
        else:
            assert not any(image.may_lead(node) for node in state.isr + state.elr), "it could have a leader"

    @staticmethod
    def check_epochs(before: PartitionState, state: PartitionState) -> None:
        assert state.partition_epoch >= before.partition_epoch
        assert (state.partition_epoch > before.partition_epoch) == (state != before)
        assert state.leader_epoch >= before.leader_epoch
        assert state.leader == before.leader or state.leader_epoch > before.leader_epoch
        assert set(before.replicas) <= set(state.replicas) or state.leader_epoch > before.leader_epoch

    def check_election(
        self, key: tuple[str, int], before: PartitionState, state: PartitionState, *, unclean: bool
    ) -> None:
        """A new leader has all committed records, except after an unclean election and if no such replica is left."""
        if state.leader in self.holders[key]:
            return
        complete = {*before.isr, *before.elr} - {self.back}
        last_known = {*before.last_known_elr, before.leader} - {-1}
        last_resort = not complete and state.leader in last_known
        assert unclean or last_resort, f"{key}: {before} became {state}, but {self.holders[key]} have everything"
        assert state.isr == (state.leader,)
        self.holders[key] = {state.leader}

    def follow(self, key: tuple[str, int], state: PartitionState) -> None:
        """Updates the nodes that have every committed record."""
        if state.leader >= 0:
            enough = len(state.isr) >= min(self.topics[key[0]], len(state.replicas))
            self.holders[key] = {*state.isr} | (set() if enough else self.holders[key])
        assert {*state.elr} - self.lost <= self.holders[key], "whoever is eligible has everything"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_scenarios_keep_committed_records(seed: int) -> None:
    scenario = Scenario(seed)
    for _ in range(STEPS):
        scenario.step()
    image = scenario.cluster.image
    again: Image = applied(decode_snapshot(encode_snapshot(records_of(image))))
    assert list(records_of(again)) == list(records_of(image))


def test_random_scenarios_cover_elections_eligible_replicas_and_reassignments() -> None:
    """The scenarios include elections, leaderless partitions, eligible replicas and reassignments."""
    seen = {"leaderless": 0, "eligible": 0, "reassigned": 0, "last known": 0}
    for seed in range(5):
        scenario = Scenario(seed)
        for _ in range(STEPS):
            scenario.step()
            for state in scenario.partitions().values():
                seen["leaderless"] += state.leader < 0
                seen["eligible"] += bool(state.elr)
                seen["reassigned"] += bool(state.adding_replicas)
                seen["last known"] += bool(state.last_known_elr)
    assert min(seen.values()) > 100, seen
    assert TopicRecord(topic_id("safe"), "safe") in list(records_of(scenario.cluster.image))
