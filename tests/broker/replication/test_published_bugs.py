"""Published bugs of Kafka's replication, each a scenario of three nodes (docs/published-bugs.md, Replication)."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from support.replica_world import KEY, TOPIC_ID, Node, World

from minikafka.broker.partitions.fetch_result import Fetcher
from minikafka.broker.partitions.fetch_sessions import CachedPartition
from minikafka.controller.metadata.records import (
    BrokerChange,
    PartitionChange,
    PartitionRecord,
    RemoveTopic,
    TopicRecord,
)
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

Story = Callable[[], Awaitable[None]]


def run(story: Story) -> None:
    trio.run(story)


def rows(node: Node) -> list[tuple[int, bytes]]:
    """(leader epoch, value) of a log."""
    return [(epoch, value) for _, epoch, value in node.values()]


def test_kip_101_a_restarted_follower_does_not_truncate_to_its_high_watermark() -> None:
    """KIP-101, KAFKA-1211: it had the acknowledged record, but not yet the high watermark that covers it."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        leader, follower = world.nodes[1], world.nodes[2]
        made = leader.produce(b"acked")
        await follower.fetch()
        await follower.fetch()
        assert made.look() == "acked"
        follower.kill()
        follower.start()
        assert follower.partition.high_watermark == 0
        leader.kill()
        world.elect(2, isr=(2,))
        follower.catch_up()
        assert rows(follower) == [(0, b"acked")]
        assert follower.consume() == [(0, b"acked")]

    run(story)


def test_kip_101_logs_converge_after_both_replicas_lost_their_tail() -> None:
    """KIP-101, second scenario: the shorter log leads first and appends other records at the same offset."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        first, second = world.nodes[1], world.nodes[2]
        for value in (b"a", b"b"):
            first.produce(value)
        await second.fetch()
        second.partition.log.truncate_to(1)  # what a power cut leaves of it
        world.elect(2)
        world.spread()
        second.produce(b"B")
        await world.replicate(4)
        assert rows(first) == rows(second) == [(0, b"a"), (1, b"B")]

    run(story)


def test_kip_279_logs_converge_after_two_fast_fail_overs() -> None:
    """KIP-279, KAFKA-6361: epochs interleave, and neither log has all of them."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one, two = world.nodes[1], world.nodes[2]
        one.produce(b"m1")
        await world.replicate(2)
        one.produce(b"lost in 0")
        world.elect(2)
        world.spread()
        two.produce(b"lost in 1")
        world.elect(1)
        world.spread()
        one.produce(b"in 2")
        world.elect(2)
        world.spread()
        two.produce(b"in 3")
        await world.replicate(6)
        assert one.values() == two.values()
        assert rows(two) == [(0, b"m1"), (1, b"lost in 1"), (3, b"in 3")]

    run(story)


def test_kafka_7415_an_epoch_without_records_is_recorded() -> None:
    """KAFKA-7415: else a follower with records of an epoch that the leader lacks would not know where to truncate."""

    async def story() -> None:
        world = World()
        one, two, three = world.nodes.values()
        one.produce(b"common")
        await world.replicate(2)
        one.produce(b"only on 1")
        world.elect(2)
        two.catch_up()
        assert two.partition.log.epochs.latest == 1
        world.elect(3)
        world.spread()
        three.produce(b"of 3")
        await world.replicate(4)
        assert one.values() == two.values() == three.values()
        assert rows(one) == [(0, b"common"), (2, b"of 3")]

    run(story)


def test_kafka_7128_a_follower_behind_the_epoch_start_does_not_enter_the_isr() -> None:
    """KAFKA-7128: the new leader's high watermark lags behind what was committed before."""

    async def story() -> None:
        world = World(isr=(1, 2))
        one, two, three = world.nodes.values()
        one.produce(b"a")
        await world.replicate(2)
        one.produce(b"b")
        await two.fetch()
        world.elect(2)
        three.catch_up()
        two.catch_up()
        assert (two.partition.high_watermark, two.partition.log.end_offset) == (1, 2)
        known = FetchPartition(fetch_offset=1, current_leader_epoch=1)
        asked = FetchRequest(
            replica_state=ReplicaState(replica_id=3, replica_epoch=three.broker_epoch),
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[known])],
        )
        await two.answer(asked)
        assert two.propose() is None
        await world.replicate(3, 3)
        assert two.alter() is ErrorCode.NONE
        assert sorted(world.state.isr) == [1, 2, 3]

    run(story)


def test_kafka_7164_a_missed_epoch_of_the_same_leader_still_truncates() -> None:
    """KAFKA-7164: leader epochs are compared, not leader ids."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one, two = world.nodes[1], world.nodes[2]
        one.produce(b"a")
        await world.replicate(2)
        world.elect(2)
        two.catch_up()
        two.produce(b"only on 2")
        world.elect(1)
        world.spread()
        one.produce(b"on 1")
        await world.replicate(3)
        assert rows(one) == rows(two) == [(0, b"a"), (2, b"on 1")]

    run(story)


def test_kip_320_fetch_sessions_fence_older_and_newer_leader_epochs() -> None:
    """KIP-320: the session stores the leader epoch of each partition."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one, two = world.nodes[1], world.nodes[2]
        with pytest.raises(UnknownLeaderEpochError):
            one.partition.check_leader(1)
        await two.fetch()
        world.elect(1)
        one.catch_up()
        with pytest.raises(FencedLeaderEpochError):
            one.partition.check_leader(0)
        fetch_state = two.fetch_states[1]
        request = fetch_state.request(world.now_ms, two.broker_epoch)
        assert request.topics == [], "an incremental request: nothing has changed for the follower"
        response = await one.answer(request)
        assert response.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH

    run(story)


def test_kafka_10554_a_diverging_fetch_before_the_log_start_is_out_of_range() -> None:
    """KAFKA-10554, KAFKA-10487, KAFKA-12996."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one = world.nodes[1]
        for value in (b"a", b"b", b"c"):
            one.produce(value)
        await world.replicate(2)
        world.elect(1)
        one.catch_up()
        one.partition.delete_records(2)
        with pytest.raises(OffsetOutOfRangeError):
            one.partition.read(1, max_bytes=1, last_fetched_epoch=1)

    run(story)


def test_kafka_14704_a_diverging_log_is_truncated_before_its_high_watermark_advances() -> None:
    """KAFKA-14704: else the former leader would serve records that were never committed."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one, two = world.nodes[1], world.nodes[2]
        one.produce(b"a")
        await world.replicate(2)
        one.produce(b"uncommitted 1")
        one.produce(b"uncommitted 2")
        world.elect(2, isr=(2,))
        world.spread()
        two.produce(b"committed")
        assert two.partition.high_watermark == 2
        await one.fetch()
        assert (one.partition.log.end_offset, one.partition.high_watermark) == (1, 1)
        assert one.consume() == [(0, b"a")]
        await one.fetch()
        assert one.consume() == [(0, b"a"), (1, b"committed")]

    run(story)


def test_kafka_13141_a_diverging_fetch_does_not_count_as_progress() -> None:
    """KAFKA-13141: its fetch offset belongs to another history."""

    async def story() -> None:
        world = World(replicas=(1, 2))
        one, two = world.nodes[1], world.nodes[2]
        one.produce(b"a")
        await world.replicate(2)
        for value in (b"x", b"y", b"z"):
            one.produce(value)
        world.elect(2)
        world.spread()
        made = two.produce(b"new")
        leader, _, request = one.ask() or (two, None, FetchRequest())
        response = await leader.answer(request)
        assert response.responses[0].partitions[0].diverging_epoch.end_offset == 1
        assert made.look() == ""
        assert two.partition.high_watermark == 1

    run(story)


def test_kafka_9491_the_high_watermark_of_an_emptied_log_is_its_start() -> None:
    """KAFKA-9491, KAFKA-9196, KAFKA-3978: it is never negative nor below the log start offset."""

    async def story() -> None:
        world = World(replicas=(1, 2), isr=(1,))
        one, two = world.nodes[1], world.nodes[2]
        for value in (b"a", b"b", b"c", b"d"):
            one.produce(value)
        one.partition.delete_records(3)
        await two.fetch()
        assert two.partition.log.start_offset == two.partition.high_watermark == 3
        await world.replicate(2)
        assert two.values() == [(3, 0, b"d")]
        two.partition.truncate_to(3, leader_epoch=0)
        assert two.partition.high_watermark == 3

    run(story)


def test_kafka_9835_consumers_read_nothing_above_the_high_watermark() -> None:
    """KAFKA-9835, KAFKA-9807."""

    async def story() -> None:
        world = World()
        leader = world.leader
        leader.produce(b"a", acks=1)
        assert leader.partition.read(0, max_bytes=1 << 20).records == b""
        await world.replicate(1, 2)
        await world.replicate(2, 2)
        assert leader.consume() == []
        await world.replicate(2, 3)
        assert leader.consume() == [(0, b"a")]

    run(story)


def test_kip_207_the_latest_offset_does_not_decrease_after_an_election() -> None:
    """KIP-207, KAFKA-2334."""

    async def story() -> None:
        world = World()
        world.leader.produce(b"a")
        await world.replicate(1)
        world.elect(2)
        world.spread()
        two = world.nodes[2]
        assert (two.partition.log.end_offset, two.partition.high_watermark) == (1, 0)
        with pytest.raises(OffsetNotAvailableError):
            two.partition.check_caught_up()
        await world.replicate(2)
        two.partition.check_caught_up()

    run(story)


def test_kafka_13091_an_accepted_isr_shrink_commits_without_further_requests() -> None:
    """KAFKA-13091, KAFKA-14334: before it is accepted, nothing is committed."""

    async def story() -> None:
        world = World()
        leader = world.leader
        await world.replicate(2)
        made = leader.produce(b"a")
        await world.replicate(2, 2)
        world.now_ms += 10_001
        await world.replicate(1, 2)
        proposal = leader.propose()
        assert proposal is not None
        assert proposal.node_ids == (1, 2)
        assert made.look() == "", "the controller may not have agreed"
        assert world.alter(leader, proposal) is ErrorCode.NONE
        assert made.look() == ""
        leader.catch_up()
        assert made.look() == "acked"

    run(story)


def test_kip_841_fenced_and_stopping_brokers_do_not_enter_the_isr() -> None:
    """KIP-841, KAFKA-13916: neither the leader proposes nor the controller accepts it."""

    async def story() -> None:
        world = World(isr=(1, 2))
        leader, three = world.nodes[1], world.nodes[3]
        world.commit(BrokerChange(3, three.broker_epoch, in_controlled_shutdown=True))
        await three.fetch()
        leader.catch_up()
        assert leader.propose() is None
        world.commit(BrokerChange(3, three.broker_epoch, in_controlled_shutdown=False))
        leader.catch_up()
        await three.fetch()
        proposal = leader.propose()
        assert proposal is not None
        assert proposal.node_ids == (1, 2, 3)
        world.fence(3)
        assert world.alter(leader, proposal) is ErrorCode.INELIGIBLE_REPLICA
        leader.settle(proposal, ErrorCode.INELIGIBLE_REPLICA)
        assert leader.partition.leader_state is not None
        assert leader.partition.leader_state.maximal_isr == (1, 2)

    run(story)


def test_kip_903_a_broker_restarted_since_its_fetch_does_not_enter_the_isr() -> None:
    """KIP-903, KAFKA-14617, KAFKA-14144: it may have lost what it had then."""

    async def story() -> None:
        world = World(isr=(1, 2))
        leader, three = world.nodes[1], world.nodes[3]
        await three.fetch()
        assert leader.partition.leader_state is not None
        before = leader.partition.leader_state.followers[3].broker_epoch
        proposal = leader.propose()
        assert proposal is not None
        assert (3, before) in proposal.isr
        three.kill()
        three.start()
        world.unfence(3)
        assert world.alter(leader, proposal) is ErrorCode.INELIGIBLE_REPLICA
        leader.settle(proposal, ErrorCode.INELIGIBLE_REPLICA)
        leader.catch_up()
        assert leader.propose() is None, "the new incarnation has not fetched yet"
        asked = CachedPartition(bytes(16), "t", 0, 0, 1, current_leader_epoch=0, log_start_offset=0)
        fetcher = Fetcher(3, before or 0, "", leader_only=True)
        with pytest.raises(NotLeaderOrFollowerError):
            leader.partition.read_for_follower(fetcher, asked, 1, at_least_one_batch=True)
        await three.fetch()
        assert leader.alter() is ErrorCode.NONE
        assert sorted(world.state.isr) == [1, 2, 3]

    run(story)


def test_kip_497_a_repeated_proposal_is_accepted_and_an_outdated_one_rejected() -> None:
    """KIP-497: the response to the first one may have been lost."""

    async def story() -> None:
        world = World(isr=(1, 2))
        leader = world.leader
        await world.replicate(1, 3)
        proposal = leader.propose()
        assert proposal is not None
        assert [world.alter(leader, proposal) for _ in range(2)] == [ErrorCode.NONE, ErrorCode.NONE]
        assert world.state.partition_epoch == 1
        world.fence(3)
        assert world.alter(leader, proposal) is ErrorCode.INVALID_UPDATE_VERSION

    run(story)


def test_kip_966_the_last_replica_standing_commits_nothing_alone() -> None:
    """KIP-966: what it loses in a crash was never committed, and the others do not truncate to it."""

    async def story() -> None:
        world = World(min_isr=2)
        leader = world.leader
        await world.replicate(2)
        kept = leader.produce(b"committed")
        await world.replicate(2)
        assert kept.look() == "acked"
        world.fence(2)
        world.fence(3)
        world.spread()
        assert world.state.isr == (1,)
        alone = leader.produce(b"alone", acks=1)
        with pytest.raises(NotEnoughReplicasError):
            leader.produce(b"refused")
        assert leader.partition.high_watermark == 1
        assert alone.look() == ""
        leader.crash()
        world.fence(1)
        for node_id in (2, 3):
            world.unfence(node_id)
        leader.start()
        world.unfence(1)
        world.spread()
        assert world.state.leader in (2, 3)
        await world.settle(lambda: len(world.state.isr) == 3)
        assert all(rows(node)[0] == (0, b"committed") for node in world.nodes.values())

    run(story)


def test_kafka_14616_a_recreated_topic_does_not_get_the_old_records() -> None:
    """KAFKA-14616."""

    async def story() -> None:
        world = World()
        world.leader.produce(b"of the old topic")
        await world.replicate(2)
        three = world.nodes[3]
        three.kill()
        again = b"another-topic-id"
        world.commit(RemoveTopic(TOPIC_ID), TopicRecord(again, KEY.topic))
        world.commit(PartitionRecord(again, 0, (1, 2, 3), (1, 2), 1))
        world.spread()
        three.start()
        assert three.partition.topic_id == again
        assert three.values() == []
        world.nodes[1].produce(b"of the new one")
        await world.replicate(2)
        assert rows(three) == [(0, b"of the new one")]

    run(story)


def test_kip_106_after_an_unclean_election_the_longer_log_is_truncated() -> None:
    """KIP-106, KAFKA-4623: records are lost by the operator's choice; the logs are not mixed."""

    async def story() -> None:
        world = World(replicas=(1, 2), isr=(1,))
        one, two = world.nodes[1], world.nodes[2]
        for value in (b"a", b"b", b"c"):
            one.produce(value)
        one.kill()
        world.commit(PartitionChange(TOPIC_ID, 0, leader=2, isr=(2,)))
        two.catch_up()
        two.produce(b"X")
        one.start()
        await world.replicate(4)
        assert rows(one) == rows(two) == [(1, b"X")]

    run(story)
