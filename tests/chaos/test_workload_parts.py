"""Parts of the workload without processes: values, outcomes, logs of replicas, and demands that are not met."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from support.logins import Logins
from support.logs import append, memory_disk, open_log
from trio.testing import MockClock

from chaos.checker import check
from chaos.checks.anomaly import Kind
from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    DeleteRecords,
    FetchOffsets,
    LogStart,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    ReadAll,
    Recorder,
    ReplicaLog,
    operations,
    partitions_named,
)
from chaos.workload import threads
from chaos.workload.final_reading import NoProgress, final_reading
from chaos.workload.plan import Plan
from chaos.workload.process import ClientProcess
from chaos.workload.producers import RecordingProducer
from chaos.workload.replica_logs import replica_log
from chaos.workload.threads import Program, ThreadedRun
from chaos.workload.values import name_of, read_of, value_bytes
from minikafka.client import ConsumerRecord
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.logs.log import Log

STEADY = TopicPartition("steady", 0)


def record(value: bytes) -> ConsumerRecord:
    return ConsumerRecord("steady", 0, 7, 0, b"key", value)


@pytest.mark.parametrize("size_bytes", [0, 5, 300, 20_000])
def test_a_value_is_known_by_its_name(size_bytes: int) -> None:
    name = name_of("producer-1/3.2", 17, size_bytes)
    value = value_bytes(name)
    assert abs(len(value) - max(size_bytes, len(name))) <= len(name) + 1
    assert read_of(record(value)) == (STEADY, 7, "key", name)


@pytest.mark.parametrize("change", [lambda it: it[:-30], lambda it: it[40:], lambda it: b"x" + it[1:], lambda _: b"+"])
def test_a_value_that_was_changed_has_another_name(change: Callable[[bytes], bytes]) -> None:
    name = name_of("producer-1/3.2", 17, 300)
    assert read_of(record(change(value_bytes(name)))).value != name


def _filled(*batches: bytes) -> Log:
    log = open_log(memory_disk())
    for value in batches:
        append(log, value, value)
    return log


@pytest.mark.parametrize(("other", "kinds"), [(b"2", []), (b"x", [Kind.REPLICAS_DIFFER])])
def test_replicas_are_compared_below_their_high_watermarks(other: bytes, kinds: list[Kind]) -> None:
    mine, theirs = _filled(b"1", b"2", b"3"), _filled(b"1", other, b"more")
    theirs.advance_start_offset(1)
    recorder = Recorder()
    for node, log in enumerate((mine, theirs)):
        action = replica_log(log, 4, STEADY, node)
        assert [one.offset for one in action.records] == [0, 2, 4]
        recorder.complete(recorder.invoke("logs", action), Outcome.OK)
    assert [one.kind for one in check(recorder.events)] == kinds


def process_in(network: FakeNetwork) -> ClientProcess:
    plan, logins = Plan.of(brokers=1), Logins.open("a:1")
    return ClientProcess(
        "p/1", Recorder(), Random(1), network.seams(), logins, plan, pace_s=1.0, patience_ms=1000
    )


def produce(error: ErrorCode | None, **options: Any) -> Outcome:
    """The outcome of a record to whose request a broker gives this answer, or none."""

    def answer(request: ProduceRequest, version: int) -> ProduceResponse | None:
        if error is None:
            return None
        topic = request.topic_data[0]
        partition = PartitionProduceResponse(
            index=topic.partition_data[0].index, error_code=error, base_offset=5 if error is ErrorCode.NONE else -1
        )
        responses = [TopicProduceResponse(topic_id=topic.topic_id, partition_responses=[partition])]
        return ProduceResponse(responses=responses)

    def init(request: InitProducerIdRequest, version: int) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=1, producer_epoch=0)

    network = FakeNetwork({"steady": [1]})
    network.broker("a", 1, {ProduceRequest: answer, InitProducerIdRequest: init})
    process = process_in(network)

    async def main() -> None:
        sending = RecordingProducer(process, "test", **options)
        async with sending.producer:
            await sending.send("steady", key="k")
        sending.check()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    (operation,) = operations(process.recorder.events)
    assert operation.action.partition == STEADY  # type: ignore[union-attr]
    return operation.outcome


@pytest.mark.parametrize(
    ("error", "options", "outcome"),
    [
        (ErrorCode.NONE, {}, Outcome.OK),
        (None, {}, Outcome.UNKNOWN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, {}, Outcome.UNKNOWN),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, {"retries": 0, "enable_idempotence": False}, Outcome.UNKNOWN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, {}, Outcome.UNKNOWN),
        (ErrorCode.NOT_ENOUGH_REPLICAS, {"retries": 0, "enable_idempotence": False}, Outcome.FAIL),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, {"retries": 0, "enable_idempotence": False}, Outcome.UNKNOWN),
        (ErrorCode.MESSAGE_TOO_LARGE, {}, Outcome.FAIL),
    ],
)
def test_the_outcome_of_a_record(error: ErrorCode | None, options: dict[str, Any], outcome: Outcome) -> None:
    assert produce(error, **options) is outcome


def _demand(network: FakeNetwork, process: ClientProcess | None = None) -> str:
    """What the final reading says of a cluster that does not do enough."""

    async def main() -> None:
        await final_reading(process or process_in(network), limit_s=5)

    with pytest.raises(NoProgress) as caught:
        trio.run(main, clock=MockClock(autojump_threshold=0))
    return str(caught.value)


def test_no_broker_is_no_progress() -> None:
    assert "no broker can be reached within 5 s: NetworkError" in _demand(FakeNetwork())


def test_a_partition_without_a_leader_is_no_progress() -> None:
    network = FakeNetwork({"steady": [1, -1], "growing": [1], "shrinking": [1], "compacted": [1]})
    network.broker("a", 1)
    assert _demand(network) == "partitions have no leader within 5 s: steady-1 has no leader"


NAMED = TopicPartition("growing", 2)
NAMING: list[Action] = [
    Produce(NAMED, "k", "a"),
    Poll((Read(NAMED, 0, "k", "a"),)),
    Position(((NAMED, None),)),
    CommitOffsets("group", ((NAMED, 1),)),
    FetchOffsets("group", ((NAMED, None),)),
    ReadAll(NAMED),
    ReplicaLog(NAMED, 1),
    DeleteRecords(NAMED, 0),
    LogStart(NAMED),
]


@pytest.mark.parametrize("action", NAMING, ids=lambda action: type(action).__name__)
def test_the_final_reading_demands_all_partitions_that_clients_have_known(action: Action) -> None:
    network = FakeNetwork({"steady": [1], "growing": [1], "shrinking": [1], "compacted": [1]})
    network.broker("a", 1)
    process = process_in(network)
    process.invoke("c", action)
    assert _demand(network, process) == "partitions have no leader within 5 s: growing-2 is unknown"


def test_the_final_reading_demands_all_partitions_that_an_administrator_has_made() -> None:
    network = FakeNetwork({"steady": [1], "growing": [1, 1], "shrinking": [1], "compacted": [1]})
    network.broker("a", 1)
    process = process_in(network)
    process.plan.grown["growing"] = 4
    missing = "growing-2 is unknown, growing-3 is unknown"
    assert _demand(network, process) == f"partitions have no leader within 5 s: {missing}"


def test_other_topics_and_transactions_name_no_partition_of_the_plan() -> None:
    network = FakeNetwork({"steady": [1, -1], "growing": [1], "shrinking": [1], "compacted": [1]})
    network.broker("a", 1)
    process = process_in(network)
    for action in (BeginTransaction(), CommitTransaction(), AbortTransaction()):
        process.note("c", action)
    assert partitions_named(process.recorder.events) == frozenset()
    process.note("c", Produce(TopicPartition("again@1", 0), "k", "a"))
    assert _demand(network, process) == "partitions have no leader within 5 s: steady-1 has no leader"


def all_ends(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
    """Every partition is empty."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=0)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _without_writes() -> FakeNetwork:
    """A broker that answers no Produce request."""
    network = FakeNetwork({"steady": [1], "growing": [1], "shrinking": [1], "compacted": [1]})
    network.broker(
        "a",
        1,
        {
            ListOffsetsRequest: all_ends,
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=1, producer_epoch=0),
            ProduceRequest: lambda request, version: None,
        },
    )
    return network


def test_a_partition_that_takes_no_write_is_no_progress() -> None:
    assert _demand(_without_writes()).endswith("steady-0, growing-0, shrinking-0, compacted-0")


def test_the_final_reading_waits_for_a_broker_that_lags() -> None:
    """It was cut off when partitions were added, and learns them later."""
    network = _without_writes()
    asked: list[int] = []

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        asked.append(version)
        if len(asked) == 5:
            network.topics["growing"] = [1, 1, 1]
        return network.metadata(request, version)

    network.brokers[0].handlers[MetadataRequest] = metadata
    process = process_in(network)
    process.note("c", Produce(NAMED, "k", "a"))
    assert _demand(network, process).endswith("growing-0, growing-1, growing-2, shrinking-0, compacted-0")


class OneProgram(ThreadedRun):
    """A program that waits for `let_go`, whatever happens."""

    CLIENT = "one"

    def __init__(self) -> None:
        super().__init__("", Recorder(), "seed", "t", 1)
        self.let_go = threading.Event()

    def programs(self) -> list[Program]:
        return [self.wait]

    def wait(self, name: str, process: str, chance: Random) -> None:
        self.let_go.wait()


def test_a_program_that_never_returns_does_not_hold_up_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "END_MAX_S", 0.01)
    one, other = OneProgram(), OneProgram()
    other.MAY_HANG = True
    with pytest.raises(RuntimeError, match=r"one-wait-0 has not ended within 0.01 s:\n[^$]*let_go.wait"), one.running():
        pass
    with pytest.warns(UserWarning, match="one-wait-0 has not ended"), other.running():
        pass
    one.let_go.set()
    other.let_go.set()
