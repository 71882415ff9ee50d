"""A cluster that nobody reaches: a write ends after one time-out, on the driver, and says which address and why."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from minikafka.protocol.errors import RequestTimedOutError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.options.sink_options import parse_sink
from minikafka.spark_connector.sink.driver_commits import abort_all
from minikafka.spark_connector.sink.sink_tasks import TaskResult
from minikafka.spark_connector.sink.writers import BatchWriter, StreamWriter

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", StringType())])
TASKS = 4


class Clock:
    """The time of the connector, which passes only while it sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(sockets, "now_s", lambda: made.now_s)
    monkeypatch.setattr(sockets, "sleep", made.sleep)
    return made


@pytest.fixture
def dead() -> Iterator[str]:
    """The address of a port that nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once", "atomic"])
@pytest.mark.parametrize("writer", [BatchWriter, StreamWriter])
def test_a_write_is_refused_on_the_driver_before_any_task(
    clock: Clock, dead: str, writer: type[BatchWriter | StreamWriter], delivery: str
) -> None:
    began_s = clock.now_s
    with pytest.raises(RequestTimedOutError, match=f"within 60 s: cannot connect to {dead}: .*refused"):
        writer({"kafka.bootstrap.servers": dead, "topic": "t", "delivery": delivery}, SCHEMA)
    assert clock.now_s - began_s <= 60


def test_an_abort_waits_for_one_time_out_not_for_one_of_each_task(clock: Clock, dead: str) -> None:
    """The cluster may also be gone in the middle of a write."""
    began_s, places = clock.now_s, [TopicPartition("t", 0)]
    results = [TaskResult(transactional_id=f"write-{task}", partitions=places) for task in range(TASKS)]
    with pytest.raises(RequestTimedOutError, match=f"cannot connect to {dead}"):
        abort_all(parse_sink({"kafka.bootstrap.servers": dead, "topic": "t"}), results)
    assert clock.now_s - began_s <= 60
