"""State machine test of the consumer protocol: members join, heartbeat, change their subscription, leave for good or
for a while, die and are late; topics grow, go and return; the coordinator moves.

Invariants: no partition is with two members, nor was in one epoch; what a member has is kept for it; epochs never
decrease; a coordinator that reads the log has the same state. After a quiet period the group is Stable, each partition
has an owner, as the assignor demands, a change of members has moved no more than it must, and nothing moves any more,
not even when static members restart.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.coordinator_bench import GROUP
from support.topics_bench import TopicsBench, matching

from minikafka.broker.coordinator.groups.consumer.consumer_heartbeat import consumer_heartbeat
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

TOPICS = ("t", "u", "v")
Subscription = tuple[tuple[str, ...], str]
ALL, ANY = (TOPICS, ""), ((), ".*")
SUBSCRIPTIONS: tuple[tuple[Subscription, ...], ...] = (
    (ALL,),
    (ANY,),
    (ALL, ALL, ANY, (("t",), ""), (("u", "none"), ""), ((), "t|v"), (("u",), "[tu]")),
)
"""Names and a regular expression of a member; in a run members may all subscribe alike."""
PARTITIONS = 6
LEFT, LEFT_FOR_A_WHILE = -1, -2
QUIET_ROUNDS = 20
Partition = tuple[bytes, int]
REJECTED = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)


@dataclass
class Client:
    """A consumer as it sees itself.

    Attributes:
        given: An assignment that it has not acted on yet.
        missed: It has missed an answer: its next heartbeat says all.
    """

    name: str
    instance: str | None
    topics: tuple[str, ...]
    pattern: str
    assignor: str | None
    epoch: int = 0
    owned: set[Partition] = field(default_factory=set)
    given: set[Partition] | None = None
    missed: bool = False


class ConsumerGroupMachine(RuleBasedStateMachine):
    """Rules are what members, time and machines can do.

    Attributes:
        away: Static members that have left for a while.
        owners: Who had a partition in an epoch.
        settled: Who had which partitions when the group had settled last.
        events: What has happened since: "came", "gone", or "other".
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = TopicsBench()
        self.clients: list[Client] = []
        self.away: list[Client] = []
        self.made = 0
        self.epochs: Counter[str] = Counter()
        self.owners: dict[tuple[int, Partition], str] = {}
        self.settled: dict[str, set[Partition]] = {}
        self.events: set[str] = set()
        self.assignors: tuple[str | None, ...] = (None,)
        self.subscriptions = SUBSCRIPTIONS[0]
        for name in TOPICS[:2]:
            self.a_topic_appears(name, 3)

    @initialize(
        assignors=st.sampled_from([(None,), ("range",), (None, "range", "uniform")]),
        subscriptions=st.sampled_from(SUBSCRIPTIONS),
    )
    def members_ask_for(self, assignors: tuple[str | None, ...], subscriptions: tuple[Subscription, ...]) -> None:
        self.assignors, self.subscriptions = assignors, subscriptions

    @property
    def group(self) -> ConsumerGroup | None:
        return self.bench.state.consumer_groups.get(GROUP)

    def heartbeat(
        self, client: Client, epoch: int, *, says: bool, full: bool = False
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=client.name, member_epoch=epoch, instance_id=client.instance
        )
        if epoch == 0 or full:
            request.rebalance_timeout_ms, request.server_assignor = 20_000, client.assignor
            request.subscribed_topic_names, request.subscribed_topic_regex = list(client.topics), client.pattern
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

    def beat(self, client: Client, *, full: bool = False) -> None:
        """A heartbeat, and what a consumer does with the answer."""
        if client.epoch == 0:
            client.owned, client.given = set(), None
        answer = self.heartbeat(client, client.epoch, says=True, full=full or client.missed)
        client.missed = False
        if answer.error_code:
            assert answer.error_code in REJECTED, answer
            client.epoch, client.owned, client.given = 0, set(), None
            self.events.add("other")
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
    @rule(which=st.integers(0, 20), static=st.booleans())
    def somebody_comes(self, which: int, static: bool) -> None:
        self.made += 1
        name, instance = f"client-{self.made}", f"instance-{9999 - self.made}" if static else None
        assignor = self.assignors[which % len(self.assignors)]
        subscribes = self.subscriptions[which % len(self.subscriptions)]
        self.clients.append(Client(name, instance, *subscribes, assignor))
        self.events.add("came")
        self.beat(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), acts=st.booleans())
    def somebody_heartbeats(self, which: int, acts: bool) -> None:
        client = self.clients[which % len(self.clients)]
        if acts:
            self.act(client)
        self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), to=st.sampled_from(SUBSCRIPTIONS[2]))
    def somebody_subscribes_anew(self, which: int, to: Subscription) -> None:
        client = self.clients[which % len(self.clients)]
        client.topics, client.pattern = to
        self.events.add("other")
        self.beat(client, full=True)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), back=st.integers(-1, 2))
    def a_request_of_the_past_arrives(self, which: int, back: int) -> None:
        """Its answer is lost. One of another epoch is refused."""
        client = self.clients[which % len(self.clients)]
        epoch = client.epoch - back
        if epoch > 0:
            known = None if self.group is None else self.group.members.get(client.name)
            answer = self.heartbeat(client, epoch, says=False)
            client.missed = True
            assert (answer.error_code == 0) == (known is not None and known.epoch == epoch)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), says=st.booleans())
    def somebody_goes(self, which: int, says: bool) -> None:
        client = self.clients.pop(which % len(self.clients))
        self.events.add("gone")
        if says:
            self.heartbeat(client, LEFT, says=False)

    @precondition(lambda self: any(one.instance for one in self.clients))
    @rule(which=st.integers(0, 9), says=st.booleans())
    def a_static_member_goes_for_a_while(self, which: int, says: bool) -> None:
        """If it does not say so, it finds itself there when it comes back, until its session has ended."""
        static = [one for one in self.clients if one.instance]
        client = static[which % len(static)]
        self.clients.remove(client)
        self.away.append(client)
        self.events.add("gone")
        if says:
            self.heartbeat(client, LEFT_FOR_A_WHILE, says=False)

    @precondition(lambda self: self.away)
    @rule(which=st.integers(0, 9))
    def a_static_member_comes_back(self, which: int) -> None:
        self.events.add("came")
        self.come_back(self.away.pop(which % len(self.away)))

    @precondition(lambda self: 0 < len(self.clients) < 5)
    @rule(static=st.booleans(), leaves=st.booleans())
    def somebody_comes_to_a_settled_group(self, static: bool, leaves: bool) -> None:
        self.the_group_settles()
        self.somebody_comes(0, static)
        self.the_group_settles()
        if leaves:
            self.somebody_goes(0, says=True)
            self.the_group_settles()

    def come_back(self, client: Client) -> Client:
        self.made += 1
        again = replace(client, name=f"client-{self.made}", epoch=0, owned=set(), given=None)
        self.clients.append(again)
        self.beat(again)
        return again

    @precondition(lambda self: any(one.instance for one in self.clients))
    @rule(which=st.integers(0, 9))
    def another_one_has_the_same_instance_id(self, which: int) -> None:
        """It is refused while the first one is there, and changes nothing."""
        static = [one for one in self.clients if one.instance]
        first = static[which % len(static)]
        known = None if self.group is None else self.group.members.get(first.name)
        if known is None:
            return
        before = (known, len(self.bench.log))
        self.made += 1
        answer = self.heartbeat(replace(first, name=f"client-{self.made}", owned=set()), 0, says=True)
        assert answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert (self.group and self.group.members[first.name], len(self.bench.log)) == before

    # -- topics, time and machines -------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), count=st.integers(1, PARTITIONS))
    def a_topic_appears(self, name: str, count: int) -> None:
        known = self.bench.image.topics.get(name)
        self.made += 1
        self.events.add("other")
        if known is None:
            self.bench.set_topic(name, self.made.to_bytes(16, "big"), count)
        else:
            self.bench.set_topic(name, known.id, max(count, len(known.partitions)))

    @rule(name=st.sampled_from(TOPICS))
    def a_topic_goes(self, name: str) -> None:
        self.events.add("other")
        if name in self.bench.image.topics:
            self.bench.delete_topic(name)

    @rule()
    def expressions_are_resolved(self) -> None:
        self.bench.report_resolved()

    @rule(elapsed_ms=st.sampled_from([10, 1_100, 21_000, 50_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.bench.pass_time(elapsed_ms)

    @rule(hours=st.sampled_from([-1, 1]))
    def the_clock_is_set(self, hours: int) -> None:
        self.bench.clock_ms += hours * 3_600_000

    @rule()
    def the_coordinator_moves(self) -> None:
        self.bench.crash()

    @rule()
    def the_group_settles(self) -> None:
        for _ in range(QUIET_ROUNDS):
            self.all_act()
            self.bench.pass_time(5_000)
        self.all_act()
        if self.group is None or not self.clients:
            return
        self.check_settled(self.group)
        self.check_moved()
        self.check_still()
        self.check_restarts(self.group)

    def teardown(self) -> None:
        self.the_group_settles()

    def all_act(self) -> None:
        for client in self.clients:
            self.act(client)
            self.beat(client)
            self.bench.report_resolved()

    # -- when it has settled -------------------------------------------------------------------------------------

    def check_settled(self, group: ConsumerGroup) -> None:
        assert group.state is ConsumerGroupState.STABLE
        assert group.members.keys() == {client.name for client in self.clients}
        ids = {name: topic.id for name, topic in self.bench.image.topics.items()}
        subscribed = {client.name: self.topics_of(client) for client in self.clients}
        for client in self.clients:
            target = {(id_, one) for id_, parts in group.targets.get(client.name, {}).items() for one in parts}
            assert client.owned == target
            assert {id_ for id_, _ in target} <= {ids[name] for name in subscribed[client.name]}
        wanted = frozenset[str]().union(*subscribed.values())
        all_of_them = {(ids[n], one) for n in wanted for one in range(len(self.bench.image.topics[n].partitions))}
        assert set().union(*(client.owned for client in self.clients)) == all_of_them
        if self.assignors == ("range",):
            for name in wanted:
                self.check_range(name, [client for client in self.clients if name in subscribed[client.name]])
        elif len(self.assignors) == 1 and self.are_alike():
            sizes = [len(client.owned) for client in self.clients]
            assert max(sizes) - min(sizes) <= 1

    def topics_of(self, client: Client) -> frozenset[str]:
        there = self.bench.image.topics
        return frozenset(client.topics) & there.keys() | matching(client.pattern, there)

    def are_alike(self) -> bool:
        return len({(client.topics, client.pattern) for client in self.clients}) == 1

    def check_range(self, name: str, subscribers: list[Client]) -> None:
        """Neighbours are together; static members come first, and earlier ones have one more."""
        topic = self.bench.image.topics[name]
        left = list(range(len(topic.partitions)))
        for index, client in enumerate(
            sorted(subscribers, key=lambda one: (one.instance is None, one.instance or one.name))
        ):
            size = -(-len(left) // (len(subscribers) - index))
            assert {one for id_, one in client.owned if id_ == topic.id} == set(left[:size])
            left = left[size:]

    def check_moved(self) -> None:
        """After joins alone nothing moves between members that were there, and after departures they lose nothing."""
        now = {client.name: set(client.owned) for client in self.clients}
        if "range" not in self.assignors and self.are_alike():
            for name in now.keys() & self.settled.keys():
                if self.events == {"came"}:
                    assert now[name] <= self.settled[name]
                elif self.events == {"gone"}:
                    assert now[name] >= self.settled[name]
        self.settled, self.events = now, set()

    def check_still(self) -> None:
        before = [(client.epoch, set(client.owned)) for client in self.clients]
        self.all_act()
        assert [(client.epoch, set(client.owned)) for client in self.clients] == before

    def check_restarts(self, group: ConsumerGroup) -> None:
        """Static members that leave for a while and come back at once have what they had, and others notice nothing."""
        before = {client.instance or client.name: (client.epoch, set(client.owned)) for client in self.clients}
        for client in [one for one in self.clients if one.instance]:
            assert not self.heartbeat(client, LEFT_FOR_A_WHILE, says=False).error_code
            self.clients.remove(client)
            self.act(self.come_back(client))
            self.a_partition_is_with_one_member()
        self.all_act()
        self.check_settled(group)
        after = {client.instance or client.name: (client.epoch, set(client.owned)) for client in self.clients}
        assert after == before
        self.settled = {client.name: set(client.owned) for client in self.clients}

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def a_partition_is_with_one_member(self) -> None:
        if self.group is None:
            return
        claims: dict[Partition, str] = {}
        for member in self.group.members.values():
            for part in (member.assigned, member.revoking):
                for one in ((topic_id, number) for topic_id, numbers in part.items() for number in numbers):
                    assert claims.setdefault(one, member.member_id) == member.member_id
        assert claims == {
            (topic_id, number): owner
            for topic_id, owners in self.group.owners.items()
            for number, owner in owners.items()
        }
        current = [one for one in self.clients if self.is_current(one)]
        held = Counter(partition for client in current for partition in client.owned)
        assert not held or max(held.values()) == 1, held

    @invariant()
    def what_a_member_has_is_kept_for_it(self) -> None:
        for client in self.clients:
            if self.is_current(client) and self.group is not None:
                member = self.group.members[client.name]
                kept = [(id_, one) for part in (member.assigned, member.revoking) for id_ in part for one in part[id_]]
                assert client.owned <= set(kept)

    @invariant()
    def a_partition_has_one_owner_in_an_epoch(self) -> None:
        for member in () if self.group is None else self.group.members.values():
            for partition in ((id_, one) for id_, parts in member.assigned.items() for one in parts):
                name = member.instance_id or member.member_id
                assert member.epoch <= 0 or self.owners.setdefault((member.epoch, partition), name) == name

    def is_current(self, client: Client) -> bool:
        """Whether the coordinator knows it: another one has been removed, and will notice."""
        member = None if self.group is None else self.group.members.get(client.name)
        return member is not None and client.epoch == member.epoch

    @invariant()
    def each_member_has_a_session(self) -> None:
        for member in () if self.group is None else self.group.members.values():
            assert self.session_ends(member.member_id) is not None

    def session_ends(self, member_id: str) -> int | None:
        return self.bench.state.deadlines.get(("session", GROUP, member_id))

    @invariant()
    def epochs_do_not_decrease(self) -> None:
        if self.group is None:
            self.epochs.clear()
            self.owners.clear()
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
            for name in ("epoch", "assignment_epoch", "members", "static_members", "targets", "owners", "patterns"):
                assert getattr(again, name) == getattr(self.group, name), name
            assert again.subscribers == self.group.subscribers
            assert again.kept == self.group.kept
            assert again.metadata_hash == self.group.metadata_hash


TestConsumerGroupMachine = ConsumerGroupMachine.TestCase
TestConsumerGroupMachine.settings = settings(
    max_examples=300,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink or "MUTATION_RUN" not in os.environ],
)
