"""Stories about transactions: coordinators and leaders that die at each step, zombies, late records, lost answers.

In all of them a read_committed consumer gets each committed value once, no aborted one, and is not held up for ever.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest
from chaos.workload.features import set_transaction_version

from minikafka.broker.coordinator.transactions.transaction import TransactionState
from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.protocol.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from minikafka.protocol.names import TopicPartition
from simulation.story import Program, Running, Story, Tell

TOPIC, ID = "flights", "airline"
STATE = "__transaction_state"
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
}


def begin_story(tell: Tell, *, brokers: int = 3) -> Story:
    """A topic with a partition led by each of brokers 1 and 2."""
    story = tell(SETTINGS, brokers=brokers)
    story.start()

    async def create(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(TOPIC, assignments={0: [1, 2, 3], 1: [2, 3, 1]})

    story.do(create)
    return story


def transactions(story: Story, *values: str, abort: tuple[str, ...] = (), **options: object) -> Program[None]:
    """A transaction for each value, with a record in both partitions."""

    async def program(seams: Seams) -> None:
        async with Producer(
            bootstrap_servers=story.cluster.bootstrap_servers, seams=seams, transactional_id=ID, **options
        ) as producer:
            for value in values:
                await producer.begin()
                for partition in (0, 1):
                    await producer.send(TOPIC, value.encode(), partition=partition)
                await producer.flush()
                await (producer.abort if value in abort else producer.commit)()

    return program


def committed(story: Story) -> list[list[str]]:
    """The values that a read_committed consumer gets from each partition, up to the end of the log."""
    partitions = [TopicPartition(TOPIC, index) for index in (0, 1)]
    servers = story.cluster.bootstrap_servers

    async def program(seams: Seams) -> list[list[str]]:
        found: list[list[str]] = [[], []]
        async with Consumer(bootstrap_servers=servers, seams=seams) as plain:
            ends = await plain.end_offsets(partitions)
        async with Consumer(
            bootstrap_servers=servers, seams=seams, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            consumer.assign(partitions)
            while True:
                reached = [await consumer.position(one) >= ends[one] for one in partitions]
                if all(reached):
                    return found
                for record in await consumer.poll(1000):
                    found[record.partition].append((record.value or b"").decode())

    return story.do(program)


def coordinator(story: Story) -> int:
    return story.state(STATE).leader


def state_of(story: Story) -> str:
    """The state of the transaction, as its coordinator knows it; "" while there is none."""
    leader = coordinator(story) if STATE in story.image.topics else -1
    if leader < 0 or not story.hosts[leader].is_running:
        return ""
    for shard in story.node(leader).parts.coordinators.transactions.coordinator.runtime.states():
        if ID in shard.transactions:
            return shard.transactions[ID].state.title
    return ""


def is_in(*states: TransactionState) -> Callable[[Story], bool]:
    return lambda story: state_of(story) in [one.title for one in states]


PREPARED = is_in(TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
COMPLETE = is_in(TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@pytest.mark.slow
def test_what_is_committed_is_read_and_what_is_aborted_is_not(tell: Tell) -> None:
    story = begin_story(tell)
    story.do(transactions(story, "one", "two", "three", "four", abort=("two", "four")))
    story.until(lambda: COMPLETE(story))
    assert committed(story) == [["one", "three"]] * 2


def until_decided(story: Story, node_id: int) -> None:
    """Until the outcome is committed in the log of the coordinator; some marker is missing."""
    story.until(lambda: PREPARED(story))
    replica = story.replica(node_id, STATE)
    story.until(lambda: replica.high_watermark == replica.log.end_offset)
    assert PREPARED(story), "no marker should be missing"


def begin_without_markers(story: Story, outcome: str) -> tuple[Running[None], int, int]:
    """A second transaction, whose coordinator does not reach a leader; returns both nodes."""
    story.do(transactions(story, "first"))
    first = coordinator(story)
    victim = next(node_id for node_id in (1, 2) if node_id != first)
    aborted = ("second",) if outcome == "abort" else ()
    running = story.begin(transactions(story, "second", abort=aborted))
    leader = story.replica(victim, TOPIC, victim - 1)
    story.until(lambda: leader.log.end_offset >= 3)
    story.cluster.network.cut(f"node-{first}", f"node-{victim}")
    until_decided(story, first)
    assert leader.log.end_offset == 3
    return running, first, victim


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_coordinator_dies_after_the_outcome_is_decided(tell: Tell, outcome: str) -> None:
    """The next coordinator writes the markers that are missing."""
    story = begin_story(tell)
    running, first, victim = begin_without_markers(story, outcome)
    story.crash(first)
    story.cluster.network.heal(f"node-{first}", f"node-{victim}")
    story.until(lambda: coordinator(story) not in (-1, first) and COMPLETE(story))
    story.until(lambda: running.done)
    story.start()
    story.until_in_sync(TOPIC, 1, 2, 3)
    expected = ["first", "second"] if outcome == "commit" else ["first"]
    assert committed(story) == [expected] * 2


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_leader_dies_before_it_has_the_marker(tell: Tell, outcome: str) -> None:
    """The marker goes to the next leader."""
    story = begin_story(tell)
    running, _, victim = begin_without_markers(story, outcome)
    story.crash(victim)
    story.until(lambda: COMPLETE(story))
    story.until(lambda: running.done)
    expected = ["first", "second"] if outcome == "commit" else ["first"]
    assert committed(story) == [expected] * 2


def test_the_whole_cluster_dies_with_an_open_transaction(tell: Tell) -> None:
    """After the start it times out, and is aborted with an epoch of its own."""
    story = begin_story(tell)
    story.do(transactions(story, "first"))

    async def never_ends(seams: Seams) -> None:
        async with Producer(
            bootstrap_servers=story.cluster.bootstrap_servers,
            seams=seams,
            transactional_id=ID,
            transaction_timeout_ms=20_000,
        ) as producer:
            await producer.begin()
            for partition in (0, 1):
                await producer.send_and_wait(TOPIC, b"open", partition=partition)
            await anyio.sleep_forever()

    story.begin(never_ends, host="zombie")
    story.until(lambda: all(story.replica(i, TOPIC, i - 1).high_watermark >= 3 for i in (1, 2)))
    for node_id in (1, 2, 3):
        story.cluster.kill(story.hosts[node_id])
    story.start()
    story.until(lambda: state_of(story) == TransactionState.COMPLETE_ABORT.title, within_s=90)
    assert committed(story) == [["first"]] * 2


def test_a_zombie_is_fenced(tell: Tell) -> None:
    """Its records were acknowledged; the next producer aborts them, and the zombie can neither commit nor send."""
    story = begin_story(tell)
    errors: list[KafkaError] = []
    resume = False

    async def zombie(seams: Seams) -> None:
        async with Producer(
            bootstrap_servers=story.cluster.bootstrap_servers, seams=seams, transactional_id=ID
        ) as producer:
            await producer.begin()
            await producer.send_and_wait(TOPIC, b"stale", partition=0)
            while not resume:
                await anyio.sleep(0.05)
            try:
                await producer.send_and_wait(TOPIC, b"staler", partition=0)
                await producer.commit()
            except KafkaError as error:
                errors.append(error)
                raise

    running = story.begin(zombie, host="zombie")
    story.until(lambda: story.replica(1, TOPIC).high_watermark >= 1)
    story.do(transactions(story, "fresh"))
    resume = True
    story.until(lambda: running.done)
    assert isinstance(errors[0], ProducerFencedError | InvalidProducerEpochError)
    assert committed(story) == [["fresh"]] * 2


def test_the_answer_to_a_commit_is_lost_with_the_coordinator(tell: Tell) -> None:
    """The producer asks the next coordinator, which knows that it has committed."""
    story = begin_story(tell)
    story.do(transactions(story, "first"))
    first = coordinator(story)
    running = story.begin(transactions(story, "second", "third"))
    story.until(lambda: state_of(story) == TransactionState.ONGOING.title)
    story.until(lambda: PREPARED(story))
    story.cluster.network.cut("client", f"node-{first}")
    story.crash(first)
    story.until(lambda: coordinator(story) not in (-1, first))
    story.until(lambda: running.done, within_s=120)
    assert running.error is None
    story.until(lambda: COMPLETE(story))
    story.start()
    story.cluster.network.heal("client", f"node-{first}")
    assert committed(story) == [["first", "second", "third"]] * 2


@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_transaction_version_changes_while_a_transaction_is_open(tell: Tell, first: int, then: int) -> None:
    """The open transaction ends; later ones, and those of a producer that begins anew, have the other version."""
    story = begin_story(tell)
    servers = story.cluster.bootstrap_servers

    async def change(seams: Seams, level: int) -> None:
        async with Admin(servers, seams=seams) as admin:
            await set_transaction_version(admin, level)

    async def program(seams: Seams) -> None:
        await change(seams, first)
        async with Producer(bootstrap_servers=servers, seams=seams, transactional_id=ID) as producer:
            for value in ("open", "later", "aborted", "last"):
                await producer.begin()
                await producer.send(TOPIC, value.encode(), partition=0)
                await producer.flush()
                if value == "open":
                    await change(seams, then)
                await producer.send(TOPIC, value.encode(), partition=1)
                await (producer.abort if value == "aborted" else producer.commit)()

    story.do(program)
    story.do(transactions(story, "anew", "aborted again", abort=("aborted again",)))
    assert committed(story) == [["open", "later", "last", "anew"]] * 2
