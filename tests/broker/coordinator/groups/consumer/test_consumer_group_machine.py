"""State machine test of the consumer protocol: members join, heartbeat, leave, die and are late, topics change, the
coordinator moves.

Invariants: no partition is with two members, epochs never decrease, and a coordinator that reads the log has the same
state. After a quiet period the group is Stable, each partition has an owner, and nothing moves any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.coordinator_bench import GROUP, Bench

from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPICS = ("t", "u")
PARTITIONS = 6
LEFT = -1
QUIET_ROUNDS = 14
Partition = tuple[bytes, int]
REJECTED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class TopicsBench(Bench):
    """A bench whose coordinators share the cluster's metadata."""

    def __init__(self) -> None:
        self.image = Image()
        super().__init__()

    def new_state(self) -> GroupShard:
        return GroupShard(self.settings, self.random, self.image)

    def set_topic(self, name: str, topic_id: bytes, count: int) -> None:
        one = PartitionState(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))
        topic = Topic(name, topic_id, [one] * count)
        self.image.topics[name] = self.image.topics_by_id[topic_id] = topic

    def delete_topic(self, name: str) -> None:
        del self.image.topics_by_id[self.image.topics.pop(name).id]


@dataclass
class Client:
    """A consumer as it sees itself; `given` is an assignment that it has not acted on yet."""

    name: str
    topics: tuple[str, ...]
    epoch: int = 0
    owned: set[Partition] = field(default_factory=set)
    given: set[Partition] | None = None


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Rules are what members, time and machines can do."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = TopicsBench()
        self.clients: list[Client] = []
        self.made = 0
        self.epochs: Counter[str] = Counter()
        for name in TOPICS:
            self.a_topic_appears(name, 3)

    @property
    def group(self) -> ConsumerGroup | None:
        return self.bench.state.consumer_groups.get(GROUP)

    def heartbeat(self, client: Client, epoch: int, *, says: bool) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=client.name, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 20_000, list(client.topics)
        if says or epoch == 0:
            request.topic_partitions = [
                TopicPartitions(topic_id=id_, partitions=[one for topic, one in client.owned if topic == id_])
                for id_ in {topic for topic, _ in client.owned}
            ]
        caller = Caller("client", "/host", 1)
        answer: ConsumerGroupHeartbeatResponse = self.bench.ask(
            lambda builder, ticket: consumer_heartbeat(builder, request, caller, ticket)
        )
        return answer

    def beat(self, client: Client) -> None:
        """A heartbeat, and what a consumer does with the answer."""
        if client.epoch == 0:
            client.owned, client.given = set(), None
        answer = self.heartbeat(client, client.epoch, says=True)
        if answer.error_code:
            assert answer.error_code in REJECTED, answer
            client.epoch, client.owned, client.given = 0, set(), None
            return
        assert answer.member_epoch >= client.epoch
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            client.given = {(bytes(topic.topic_id), one) for topic in topics for one in topic.partitions}

    def act(self, client: Client) -> None:
        if client.given is not None:
            client.owned, client.given = client.given, None

    # -- members -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(topics=st.sampled_from([TOPICS, TOPICS, TOPICS, ("t",), ("u", "none")]))
    def somebody_comes(self, topics: tuple[str, ...]) -> None:
        self.made += 1
        self.clients.append(Client(f"client-{self.made}", topics))
        self.beat(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), acts=st.booleans())
    def somebody_heartbeats(self, which: int, acts: bool) -> None:
        client = self.clients[which % len(self.clients)]
        if acts:
            self.act(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), back=st.integers(-1, 2))
    def a_request_of_the_past_arrives(self, which: int, back: int) -> None:
        """Its answer is lost. One of another epoch is refused."""
        client = self.clients[which % len(self.clients)]
        epoch = client.epoch - back
        if epoch > 0:
            known = None if self.group is None else self.group.members.get(client.name)
            answer = self.heartbeat(client, epoch, says=False)
            assert (answer.error_code == 0) == (known is not None and known.epoch == epoch)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), says=st.booleans())
    def somebody_goes(self, which: int, says: bool) -> None:
        client = self.clients.pop(which % len(self.clients))
        if says:
            self.heartbeat(client, LEFT, says=False)

    # -- topics, time and machines -------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, PARTITIONS))
    def a_topic_appears(self, name: str, count: int) -> None:
        known = self.bench.image.topics.get(name)
        self.made += 1
        if known is None:
            self.bench.set_topic(name, self.made.to_bytes(16, "big"), count)
        else:
            self.bench.set_topic(name, known.id, max(count, len(known.partitions)))

    @rule(name=st.sampled_from(TOPICS))
    def a_topic_goes(self, name: str) -> None:
        if name in self.bench.image.topics:
            self.bench.delete_topic(name)

    @rule(elapsed_ms=st.sampled_from([10, 1_100, 21_000, 50_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.bench.pass_time(elapsed_ms)

    @rule()
    def the_coordinator_moves(self) -> None:
        self.bench.crash()

    @rule()
    def the_group_settles(self) -> None:
        for _ in range(QUIET_ROUNDS):
            for client in self.clients:
                self.act(client)
                self.beat(client)
            self.bench.pass_time(5_000)
        for client in self.clients:
            self.act(client)
            self.beat(client)
        if self.group is not None and self.clients:
            self.check_settled(self.group)

    def check_settled(self, group: ConsumerGroup) -> None:
        assert group.state is ConsumerGroupState.STABLE
        assert group.members.keys() == {client.name for client in self.clients}
        ids = {name: topic.id for name, topic in self.bench.image.topics.items()}
        for client in self.clients:
            target = {(id_, one) for id_, parts in group.targets[client.name].items() for one in parts}
            assert client.owned == target
            assert {id_ for id_, _ in target} <= {ids[name] for name in client.topics if name in ids}
        wanted = {name for client in self.clients for name in client.topics if name in ids}
        all_of_them = {(ids[n], one) for n in wanted for one in range(len(self.bench.image.topics[n].partitions))}
        assert set().union(*(client.owned for client in self.clients)) == all_of_them
        sizes = [len(client.owned) for client in self.clients]
        if len({client.topics for client in self.clients}) == 1:
            assert max(sizes) - min(sizes) <= 1
        before = [(client.epoch, set(client.owned)) for client in self.clients]
        for client in self.clients:
            self.beat(client)
        assert [(client.epoch, set(client.owned)) for client in self.clients] == before

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def a_partition_is_with_one_member(self) -> None:
        if self.group is None:
            return
        claims: Counter[Partition] = Counter()
        for member in self.group.members.values():
            for part in (member.assigned, member.revoking):
                claims.update((topic_id, one) for topic_id, parts in part.items() for one in parts)
        assert not claims or max(claims.values()) == 1, claims
        current = [one for one in self.clients if self.is_current(one)]
        held = Counter(partition for client in current for partition in client.owned)
        assert not held or max(held.values()) == 1, held

    def is_current(self, client: Client) -> bool:
        """Whether the coordinator knows it: another one has been removed, and will notice."""
        member = None if self.group is None else self.group.members.get(client.name)
        return member is not None and client.epoch == member.epoch

    @invariant()
    def epochs_do_not_decrease(self) -> None:
        if self.group is None:
            self.epochs.clear()
            return
        now = {"": self.group.epoch, "target": self.group.assignment_epoch}
        assert self.group.epoch >= self.group.assignment_epoch
        for name, epoch in now.items():
            assert epoch >= self.epochs[name]
        self.epochs.update({name: epoch - self.epochs[name] for name, epoch in now.items()})
        assert all(member.epoch <= self.group.epoch for member in self.group.members.values())

    @invariant()
    def the_log_has_all(self) -> None:
        again = self.bench.reloaded().consumer_groups.get(GROUP)
        assert (again is None) == (self.group is None)
        if again is not None and self.group is not None:
            for name in ("epoch", "assignment_epoch", "members", "targets", "owners", "metadata_hash"):
                assert getattr(again, name) == getattr(self.group, name), name


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
