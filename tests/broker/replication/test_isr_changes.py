"""AlterPartitionManager: what a leader proposes, when it retries, and what ends a proposal."""

from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, cast

import trio
import trio.testing
from support.replica_world import TOPIC_ID, World

from minikafka.broker.partitions.partition_lifecycle import ReplicaEvents
from minikafka.broker.replication.isr_changes import PARTITIONS_AT_ONCE, AlterPartitionManager
from minikafka.protocol.errors import ErrorCode, NotControllerError
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

LAG_MS = 10_000
ASKED_MAX = 20
"""More requests are a circle."""


class Controller:
    """Does what it is told by the test: each answer is an error code, or an exception for the request as a whole."""

    def __init__(self, world: World, *answers: ErrorCode | Exception) -> None:
        self.world = world
        self.answers = list(answers)
        self.asked: list[tuple[float, AlterPartitionRequest]] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def __call__(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        self.asked.append((trio.current_time(), request))
        assert len(self.asked) <= ASKED_MAX, "changes of the ISR follow each other without a pause"
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        if isinstance(answer, Exception):
            raise answer
        response = AlterPartitionResponse()
        if answer in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER):
            response.error_code = answer
            return response
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        if answer is ErrorCode.NONE:
            proposal = self.world.leader.partition.leader_state.pending  # type: ignore[union-attr]
            assert proposal is not None
            answer = self.world.alter(self.world.leader, proposal)
            self.world.leader.catch_up()
        told = ResponsePartitionData(partition_index=0, error_code=answer)
        response.topics = [ResponseTopicData(topic_id=TOPIC_ID, partitions=[told])]
        return response


def play(
    story: Callable[[World, Controller, AlterPartitionManager], Awaitable[None]],
    *answers: ErrorCode | Exception,
    **options: object,
) -> Controller:
    """Run a story beside the task."""

    async def main() -> Controller:
        world = World(**options)  # type: ignore[arg-type]
        controller = Controller(world, *answers)
        task = AlterPartitionManager(1, lambda: 1, [world.leader.partition], controller, LAG_MS)
        world.leader.partition.isr_change_wanted = task.request_change
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task.run)
            await story(world, controller, task)
            nursery.cancel_scope.cancel()
        return controller

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_caught_up_follower_enters_the_isr_at_once() -> None:
    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(world.state.isr) == [1, 2, 3]

    controller = play(story, isr=(1, 2))
    (asked,) = [request for _, request in controller.asked]
    (partition,) = asked.topics[0].partitions
    assert [(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs] == [(1, 1), (2, 2), (3, 3)]
    assert (asked.broker_id, asked.broker_epoch, partition.leader_epoch, partition.partition_epoch) == (1, 1, 0, 0)


def test_a_follower_that_catches_up_during_a_proposal_enters_next() -> None:
    """With no further traffic: its fetch was handle_response while nothing could be asked for."""

    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        async def third() -> None:
            await world.replicate(1, 3)

        controller.meanwhile = third
        await world.replicate(1, 2)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(world.state.isr) == [1, 2, 3]

    play(story, isr=(1,))


def test_out_of_sync_replicas_are_checked_twice_per_lag_time() -> None:
    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1)
        world.leader.produce(b"a", acks=1)
        world.now_ms += LAG_MS + 1
        await world.replicate(2, 2)
        await trio.sleep(LAG_MS / 2 / 1000 + 0.001)
        assert world.state.isr == (1, 2)

    play(story)


def test_a_follower_that_does_not_fetch_stays_out_of_the_isr() -> None:
    """Though both have all that is committed, which below `min.insync.replicas` does not grow. They replaced each other
    for as long as their sessions lasted: seed 8839 of the simulation."""

    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1)
        await trio.testing.wait_all_tasks_blocked()
        world.leader.produce(b"a", acks=1)
        world.now_ms += LAG_MS + 1
        await trio.sleep(LAG_MS / 1000 + 0.001)
        assert world.state.isr == (1,)

    controller = play(story, isr=(1, 2), min_isr=2)
    assert _isrs(controller) == [[1, 2, 3], [1]]


def test_followers_that_fetch_but_lag_do_not_replace_each_other_without_a_pause() -> None:
    """Members leave only by a check, as in Kafka."""

    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1, 2)
        world.leader.produce(b"a", acks=1)
        for _ in range(2):
            world.now_ms += LAG_MS // 2 + 1
            await _ask_in_vain(world, 2, 3)
        await trio.sleep(LAG_MS / 2 / 1000 + 0.001)

    controller = play(story, isr=(1, 2), min_isr=2)
    assert _isrs(controller) == [[1, 2, 3], [1, 3], [1, 3, 2]]


async def _ask_in_vain(world: World, *node_ids: int) -> None:
    """Followers fetch, and the response is lost."""
    for node_id in node_ids:
        asked = world.nodes[node_id].ask()
        assert asked is not None
        leader, fetch_state, request = asked
        await leader.answer(request)
        fetch_state.disconnected()


def _isrs(controller: Controller) -> list[list[int]]:
    """The requested ISRs, in the order of time."""
    asked = [request.topics[0].partitions[0].new_isr_with_epochs for _, request in controller.asked]
    return [[member.broker_id for member in isr] for isr in asked]


def test_a_failed_request_is_sent_again() -> None:
    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1)
        await trio.sleep(1)
        assert sorted(world.state.isr) == [1, 2, 3]

    controller = play(story, NotControllerError(""), ErrorCode.STALE_BROKER_EPOCH, isr=(1, 2))
    times = [time for time, _ in controller.asked]
    assert [round(later - earlier, 3) for earlier, later in pairwise(times)] == [0.1, 0.1]


def test_a_rejection_ends_the_proposal_and_delays_the_next() -> None:
    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(3)
        await trio.testing.wait_all_tasks_blocked()
        leader_state = world.leader.partition.leader_state
        assert leader_state is not None
        assert leader_state.pending is None
        assert len(controller.asked) == 1
        await trio.sleep(0.2)
        assert [round(time, 3) for time, _ in controller.asked] == [0, 0.1]
        assert sorted(world.state.isr) == [1, 2, 3]

    play(story, ErrorCode.INELIGIBLE_REPLICA, isr=(1, 2))


def test_a_follower_fenced_when_it_caught_up_enters_once_unfenced() -> None:
    """With no further traffic: an idle follower says nothing new."""

    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        world.fence(3)
        world.spread()
        await world.replicate(2)
        await trio.testing.wait_all_tasks_blocked()
        assert controller.asked == []
        world.leader.follower._events = ReplicaEvents(isr_change_wanted=task.request_change)
        world.unfence(3)
        world.spread()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(world.state.isr) == [1, 2, 3]

    play(story)


def test_an_outdated_proposal_stays_pending_until_newer_metadata() -> None:
    """The larger set counts until then."""

    async def story(world: World, controller: Controller, task: AlterPartitionManager) -> None:
        await world.replicate(1)
        await trio.sleep(1)
        leader_state = world.leader.partition.leader_state
        assert leader_state is not None
        assert leader_state.pending is not None
        assert len(controller.asked) == 1
        world.fence(2)
        world.leader.catch_up()
        assert leader_state.pending is None
        assert leader_state.isr == (1,)

    play(story, ErrorCode.INVALID_UPDATE_VERSION, isr=(1, 2))


class Looked:
    """A partition that is only asked for a change."""

    def __init__(self, propose_isr_change: Callable[..., None]) -> None:
        self.propose_isr_change = propose_isr_change


def test_all_partitions_are_looked_at_in_steps() -> None:
    """With 100,000 partitions one step took 157 ms, twice per `replica.lag.time.max.ms`."""
    looked_at: Counter[int] = Counter()
    count, turn = 5 * PARTITIONS_AT_ONCE, 0
    clock = trio.testing.MockClock()

    def propose(*, may_shrink: bool) -> None:
        assert may_shrink
        looked_at[turn] += 1

    async def main() -> None:
        nonlocal turn
        partitions = [cast(Any, Looked(propose)) for _ in range(count)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(AlterPartitionManager(1, lambda: 1, partitions, cast(Any, None), LAG_MS).run)
            await trio.testing.wait_all_tasks_blocked()
            clock.jump(LAG_MS / 1000)
            while looked_at.total() < count:
                turn += 1
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main, clock=clock)
    assert max(looked_at.values()) <= 2 * PARTITIONS_AT_ONCE, "trio runs tasks in any order"
