"""Decisions with very many records are made, encoded and logged in steps; nobody else decides in between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any

import pytest
import trio
import trio.testing
from support.images import applied, cluster, three_brokers, topic_id, with_topic
from support.long_decisions import DESCRIBED, DIRECTORY, FEW, MANY_CHANGES, REFUSED, SCANS, heartbeat

from minikafka.controller.active.leadership_term import LeadershipTerm, TermEnded
from minikafka.controller.active.request_queue import QUEUE_MAX, RequestQueue
from minikafka.controller.decisions import broker_fencing, forwarding_rules, leader_balancing
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.request_table import DECISIONS, DESCRIPTIONS, IN_STEPS, elements_decided_about
from minikafka.controller.metadata import metadata_log
from minikafka.controller.metadata.change_log import LINES_IN_A_STEP, MetadataChanges
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    BrokerRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureRecord,
    PartitionChange,
    Record,
    RemoveScram,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
)
from minikafka.controller.metadata.snapshot_encoding import encode_snapshot, snapshot_content, snapshot_records
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, PARTITIONS_IN_A_STEP, RECORDS_IN_A_STEP
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.records.batch import batches, parse_header
from minikafka.protocol.records.record import CorruptRecords

MANY = 9_000


def create_topic() -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name="t", num_partitions=MANY, replication_factor=3)], timeout_ms=1000
    )


def create_topics() -> CreateTopicsRequest:
    topics = [CreatableTopic(name=f"t{number}", num_partitions=2, replication_factor=3) for number in range(MANY // 3)]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000)


def create_partitions() -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name="old", count=MANY, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000)


def with_old_topic() -> Image:
    image = three_brokers()
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name="old", num_partitions=1, replication_factor=3)], timeout_ms=1000
    )
    for record in DECISIONS[CreateTopicsRequest](image, request, context()).records:
        image.apply(record)
    return image


def context() -> Context:
    return Context(StaticSettings(1), Random(1), 7)


@pytest.mark.parametrize("request_", [create_topic(), create_topics(), create_partitions()])
def test_a_large_decision_is_made_in_steps_and_is_the_one_that_is_made_at_once(request_: Any) -> None:
    image = with_old_topic()
    deciding = IN_STEPS[type(request_)](image, request_, context())
    assert isinstance(deciding, Generator)
    steps, decision = taken(deciding)
    assert steps >= MANY // RECORDS_IN_A_STEP
    assert decision == DECISIONS[type(request_)](image, request_, context())
    assert len(decision.records) >= MANY - 1


@pytest.mark.parametrize("what", MANY_CHANGES)
def test_many_changes_are_decided_in_steps(what: str) -> None:
    make, request = MANY_CHANGES[what]
    image = make()
    deciding = IN_STEPS[type(request)](image, request, context())
    assert isinstance(deciding, Generator)
    steps, decision = taken(deciding)
    assert steps >= FEW // ELEMENTS_IN_A_STEP - 1
    assert len(decision.records) >= FEW
    assert decision == DECISIONS[type(request)](image, request, context())


@pytest.mark.parametrize("request_", REFUSED, ids=lambda request: type(request).__name__)
def test_many_refusals_are_decided_in_steps(request_: Any) -> None:
    deciding = IN_STEPS[type(request_)](three_brokers(), request_, context())
    assert isinstance(deciding, Generator)
    steps, decision = taken(deciding)
    assert steps >= FEW // ELEMENTS_IN_A_STEP - 1
    assert decision == DECISIONS[type(request_)](three_brokers(), request_, context())


def test_many_configs_of_a_resource_are_altered_in_steps() -> None:
    changes = [AlterableConfig(name=f"n{index}", config_operation=0, value="x") for index in range(FEW)]
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    deciding = IN_STEPS[type(request)](three_brokers(), request, context())
    assert isinstance(deciding, Generator)
    steps, decision = taken(deciding)
    assert (steps, len(decision.records)) == (5, FEW)
    assert decision == DECISIONS[type(request)](three_brokers(), request, context())


def test_a_node_looks_for_its_own_part_of_a_request_in_steps() -> None:
    changes = [AlterableConfig(name="background.threads", config_operation=0, value="1")]
    loggers = [AlterConfigsResource(resource_type=8, resource_name=f"{index}", configs=[]) for index in range(FEW)]
    refused = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[refused, *loggers])
    image = three_brokers()
    for splitting in (forwarding_rules.splitting, forwarding_rules.splitting_at_controller):
        steps, split = taken(splitting(image, request, context()))
        assert steps >= FEW // ELEMENTS_IN_A_STEP
        assert sum(split.order) == FEW + (splitting is forwarding_rules.splitting)


def test_what_a_node_refuses_by_its_values_is_refused_even_if_they_change_between_the_steps() -> None:
    changes = [AlterableConfig(name="background.threads", config_operation=0, value="1")]
    refused = AlterConfigsResource(resource_type=4, resource_name="", configs=changes)
    loggers = [AlterConfigsResource(resource_type=8, resource_name=f"{index}", configs=[]) for index in range(FEW)]
    image = three_brokers()
    splitting = forwarding_rules.splitting(
        image, IncrementalAlterConfigsRequest(resources=[refused, *loggers]), context()
    )
    next(splitting)
    image.apply(ConfigRecord(4, "", "background.threads", "2"))
    _, split = taken(splitting)
    assert split.request is None
    assert split.own.responses[0].error_code == ErrorCode.INVALID_REQUEST


PARTITIONS = 4 * PARTITIONS_IN_A_STEP


@pytest.fixture(scope="module")
def large() -> Image:
    """A cluster of very many partitions, with which broker 4 has nothing to do."""
    image = three_brokers()
    image.apply(BrokerRecord(4, 0, bytes(16), (), None, fenced=False, log_dirs=(DIRECTORY,)))
    for number in range(10):
        with_topic(image, f"t{number}", *[(1, 2, 3)] * (PARTITIONS // 10))
    return image


@pytest.mark.parametrize("what", SCANS)
def test_all_partitions_of_a_cluster_are_looked_at_in_steps(what: str, large: Image) -> None:
    request = SCANS[what]
    deciding = IN_STEPS[type(request)](large, request, context())
    assert isinstance(deciding, Generator)
    steps, decision = taken(deciding)
    assert steps >= PARTITIONS // PARTITIONS_IN_A_STEP
    assert len(decision.records) == 1
    assert decision == DECISIONS[type(request)](large, request, context())


PERIODIC = [
    leader_balancing.electing_leaderless,
    leader_balancing.electing_preferred,
    lambda image, context: broker_fencing.deciding(image, 4, context),
]


@pytest.mark.parametrize("decide", PERIODIC, ids=["leaderless", "preferred", "fencing"])
def test_timers_look_at_all_partitions_in_steps(decide: Callable[[Image, Context], Any], large: Image) -> None:
    steps, _ = taken(decide(large, context()))
    assert steps >= PARTITIONS // PARTITIONS_IN_A_STEP


def described_cluster() -> Image:
    """Very many reassignments, topics, quotas and users."""
    records: list[Record] = [PartitionChange(topic_id("t"), index, adding_replicas=(3,)) for index in range(FEW)]
    records += [TopicRecord(index.to_bytes(16, "big"), f"t{index}") for index in range(FEW)]
    records += [ClientQuotaRecord((("user", f"u{index}"),), "request_percentage", 1.0) for index in range(FEW)]
    records += [ScramRecord(f"u{index}", 1, b"", b"", b"", 4096) for index in range(FEW)]
    return applied(records, with_topic(three_brokers(), "t", *[(1, 2, 3)] * FEW))


LATER_CHANGES: list[Record] = [
    RemoveTopic(topic_id("t")),
    TopicRecord(topic_id("new"), "new"),
    ClientQuotaRecord((("user", "u1"),), "request_percentage", None),
    ClientQuotaRecord((("user", "new"),), "request_percentage", 1.0),
    RemoveScram("u9", 1),
    ScramRecord("new", 1, b"", b"", b"", 4096),
]


@pytest.mark.parametrize("request_", DESCRIBED, ids=lambda request: type(request).__name__)
def test_very_much_is_described_in_steps_between_which_it_may_change(request_: Any) -> None:
    image = described_cluster()
    describing = DESCRIPTIONS[type(request_)]
    steps, whole = taken(describing(image, request_, 1))
    assert steps >= FEW // ELEMENTS_IN_A_STEP
    begun = describing(image, request_, 1)
    next(begun)
    applied(LATER_CHANGES, image)
    _, mixed = taken(begun)
    if isinstance(mixed, DescribeUserScramCredentialsResponse):
        assert [one.user for one in whole.results if one not in mixed.results] == ["u9"]
    else:
        assert mixed == whole


def test_a_heartbeat_that_changes_nothing_is_decided_at_once() -> None:
    assert isinstance(IN_STEPS[BrokerHeartbeatRequest](three_brokers(), heartbeat(), context()), Decision)


def in_steps_of(number: int) -> Generator[None, None, Decision[int]]:
    yield from ()
    return Decision([], number)


@pytest.mark.parametrize(("elements", "pauses"), [(ELEMENTS_IN_A_STEP, 6), (ELEMENTS_IN_A_STEP // 2, 3), (1, 0)])
def test_others_run_after_decisions_that_may_have_taken_a_step_together(elements: int, pauses: int) -> None:
    async def main() -> None:
        queue = RequestQueue(lambda: TermEnded(certain=True))
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(queue.submit, lambda image, number=number: in_steps_of(number), elements)
            await trio.testing.wait_all_tasks_blocked()
            steps, decided = taken(queue.deciding(await queue.next(), Image(), 0))
            assert (steps, len(decided)) == (pauses, 6)
            for pending in decided:
                pending.done.set()

    trio.run(main)


def test_decisions_are_written_even_if_requests_without_a_record_keep_coming() -> None:
    async def main() -> None:
        queue = RequestQueue(lambda: TermEnded(certain=True))
        async with trio.open_nursery() as nursery:

            async def submit() -> None:
                nursery.start_soon(queue.submit, lambda image: in_steps_of(0))
                await trio.testing.wait_all_tasks_blocked()

            await submit()
            deciding = queue.deciding(await queue.next(), Image(), 0)
            for _ in range(QUEUE_MAX):
                await submit()
                next(deciding)
            steps, decided = taken(deciding)
            assert (steps, len(decided)) == (0, QUEUE_MAX)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_records_are_encoded_in_steps() -> None:
    records: list[Record] = [FeatureRecord("x", number) for number in range(MANY)]
    steps, encoded = taken(metadata_log.encoding_decision(records, 7, None))
    assert steps == MANY // RECORDS_IN_A_STEP
    assert encoded == metadata_log.encode_decision(records, 7)
    assert taken(metadata_log.encoding_decision([], 7, None)) == (0, b"")


def large_records() -> list[Record]:
    return [ConfigRecord(2, "t", f"name-{number}", "x" * (1 << 20)) for number in range(8)]


def test_large_records_are_encoded_in_more_steps() -> None:
    assert taken(metadata_log.encoding_decision(large_records(), 7, None))[0] >= 2


def test_records_are_decoded_in_steps() -> None:
    records: list[Record] = [FeatureRecord("x", number) for number in range(MANY)]
    batch = parse_header(metadata_log.encode_decision(records, 7))
    assert taken(metadata_log.decoded_records(batch)) == (MANY // RECORDS_IN_A_STEP, records)


def test_the_end_of_a_decision_is_not_looked_at_in_the_first_step() -> None:
    records: list[Record] = [FeatureRecord("x", number) for number in range(MANY)]
    decoding = metadata_log.decoded_records(parse_header(metadata_log.encode_decision(records, 7)[:-1] + b"x"))
    next(decoding)
    with pytest.raises(CorruptRecords):
        taken(decoding)


def test_large_records_are_decoded_in_more_steps() -> None:
    batch = parse_header(metadata_log.encode_decision(large_records(), 7))
    steps, decoded = taken(metadata_log.decoded_records(batch))
    assert steps >= 2
    assert decoded == large_records()


def test_large_records_of_a_snapshot_are_encoded_and_decoded_in_more_steps() -> None:
    few = taken(snapshot_content(large_records()[:1]))[0]
    steps, content = taken(snapshot_content(large_records()))
    assert steps >= few + 2
    of_checks, _ = taken(snapshot_records(encode_snapshot(large_records()[:1])))
    steps, decoded = taken(snapshot_records(content))
    assert steps >= of_checks + 2
    assert decoded == large_records()


LINES = range(5 * LINES_IN_A_STEP)
LOGGED: dict[str, list[Record]] = {
    "topics": [TopicRecord(number.to_bytes(16, "big"), f"t{number}") for number in LINES],
    "settings": [ConfigRecord(32, f"g{number}", "consumer.session.timeout.ms", "46000") for number in LINES],
    "quotas": [ClientQuotaRecord((("user", f"u{number}"),), "request_percentage", 1.0) for number in LINES],
    "credentials": [RemoveScram(f"u{number}", 1) for number in LINES],
}


@pytest.mark.parametrize("what", LOGGED)
def test_many_changes_are_logged_in_steps(what: str) -> None:
    steps, _ = taken(MetadataChanges(cluster(), LOGGED[what]).logging())
    assert steps == 5


def test_deleted_topics_are_logged_in_steps() -> None:
    topics = LOGGED["topics"]
    deleted = [RemoveTopic(number.to_bytes(16, "big")) for number in LINES]
    steps, _ = taken(MetadataChanges(applied(topics, cluster()), deleted).logging())
    assert steps == 5


def taken(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """How many pauses a generator made, and its result."""
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as done:
        return count, done.value


class Term:
    """A leadership term with a fake log; what its requests were answered, in that order."""

    def __init__(self) -> None:
        self.replies: list[object] = []
        self.appended: list[int] = []
        self.turns = 0
        self.term = LeadershipTerm(1, Image(), 0, self.append, lambda: 0)

    def append(self, data: bytes) -> int:
        self.appended += [batch.record_count for batch in batches(data)]
        return sum(self.appended)

    async def submit(self, count: int) -> None:
        def decide(image: Image) -> Decision[int]:
            before = image.features.get("x", 0)
            return Decision([FeatureRecord("x", before + 1)] * count, before)

        try:
            self.replies.append((await self.term.submit(decide)).reply)
        except TermEnded as error:
            self.replies.append(error.certain)

    async def count_turns(self) -> None:
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()


def test_others_run_while_a_decision_is_written_but_none_is_decided_before() -> None:
    async def main() -> None:
        made = Term()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.term.run)
            nursery.start_soon(made.submit, MANY)
            await trio.testing.wait_all_tasks_blocked()
            assert made.appended == [MANY]
            nursery.start_soon(made.submit, MANY)
            nursery.start_soon(made.count_turns)
            nursery.start_soon(made.submit, 1)
            while sum(made.appended) < 2 * MANY + 1:
                await trio.lowlevel.checkpoint()
            made.term.applied(2 * MANY + 1)
            await trio.lowlevel.checkpoint()
            while len(made.replies) < 3:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert made.turns > 2 * MANY // RECORDS_IN_A_STEP
        assert sorted(made.replies) == [0, 1, 2]  # type: ignore[type-var]

    trio.run(main)


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("turns", [1, MANY // RECORDS_IN_A_STEP + 3])
def test_a_term_that_ends_while_a_decision_is_made_or_encoded_writes_nothing(turns: int, *, cancelled: bool) -> None:
    async def main() -> None:
        made = Term()
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def run() -> None:
                with scope:
                    await made.term.run()

            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(made.submit, MANY)
            for _ in range(turns + 2):
                await trio.lowlevel.checkpoint()
            assert made.replies == []
            if cancelled:
                scope.cancel()
            made.term.end(0)
            await trio.testing.wait_all_tasks_blocked()
            assert made.replies == [True]
            assert made.appended == []
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_the_elements_of_a_request_are_counted_unless_all_partitions_may_be_looked_at() -> None:
    topics = [CreatableTopic(name=f"topic-{number}", num_partitions=1, replication_factor=1) for number in range(3)]
    assert elements_decided_about(CreateTopicsRequest(topics=topics, timeout_ms=1)) == 3
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1)
    for request in (everything, heartbeat(offline_log_dirs=[DIRECTORY])):
        assert elements_decided_about(request) == ELEMENTS_IN_A_STEP
