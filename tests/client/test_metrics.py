"""`metrics()` of each client: names are those of the JVM client, and the values are true."""

from __future__ import annotations

import math
import re

import anyio
import pytest
from support.group_members import fill
from support.oracle import needs_oracle, tool

from minikafka.client import Consumer, Producer, TopicPartition, blocking
from minikafka.client.metrics import WINDOW_S, Distribution, MetricName, Readings, Window

pytestmark = pytest.mark.anyio
OURS = (("client-id", "minikafka"),)


def name(text: str, group: str, **tags: object) -> MetricName:
    pairs = [*OURS, *((key, str(value)) for key, value in tags.items())]
    return MetricName(text, group, tuple(sorted(pairs)))


async def test_a_producer_counts_what_it_sends(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 0)
    async with Producer(bootstrap_servers=bootstrap, linger_ms=1000) as producer:
        await producer.send_many(topic, [b"x" * 100] * 500)
        await producer.flush()
        found = producer.metrics()
        group, topics = "producer-metrics", "producer-topic-metrics"
        assert found[name("record-send-total", group)] == 500
        assert found[name("record-send-total", topics, topic=topic)] == 500
        assert found[name("record-error-total", group)] == found[name("record-retry-total", group)] == 0
        size_bytes = found[name("byte-total", topics, topic=topic)]
        assert 500 * 100 < size_bytes < 500 * 120
        assert found[name("batch-size-avg", group)] == size_bytes
        assert found[name("batch-size-max", group)] == size_bytes
        assert 0 < found[name("request-latency-avg", group)] == found[name("request-latency-max", group)]
        assert found[name("record-queue-time-max", group)] < 1000  # flush() ends the linger
        assert found[name("records-per-request-avg", group)] == 500
        assert found[name("requests-in-flight", group)] == 0
        assert found[name("buffer-available-bytes", group)] == found[name("buffer-total-bytes", group)] == 33_554_432
        assert found[name("outgoing-byte-total", group)] > size_bytes
        assert found[name("response-total", group)] == found[name("request-total", group)] >= 4
        assert found[name("connection-count", group)] >= 1
        assert 0 < found[name("record-send-rate", group)] < 1e6
    with pytest.raises(RuntimeError, match="not open"):
        Producer(bootstrap_servers=bootstrap).metrics()


async def test_a_consumer_counts_what_it_returns(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 100)
    group = "consumer-fetch-manager-metrics"
    arguments = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "group_id": topic}
    async with Consumer(topic, **arguments) as consumer:  # type: ignore[arg-type]
        tp = TopicPartition(topic, 0)
        with anyio.fail_after(60):
            assert len(await consumer.poll(60_000, max_records=30)) == 30
        found = consumer.metrics()
        assert found[name("records-consumed-total", group)] == 30
        assert found[name("records-lag", group, topic=topic, partition=0)] == 70
        assert found[name("records-lag-max", group)] == 70
        assert found[name("fetch-total", group)] >= 1
        assert found[name("fetch-latency-avg", group)] > 0
        consumer.seek(tp, 0)
        async for batch in consumer.batches():
            assert len(batch) == 100
            break
        await consumer.commit()
        found = consumer.metrics()
        assert found[name("records-consumed-total", group)] == 130
        assert found[name("records-consumed-total", group, topic=topic)] == 130
        assert found[name("bytes-consumed-total", group, topic=topic)] > 100
        assert found[name("assigned-partitions", "consumer-coordinator-metrics")] == 1
        members = "consumer-coordinator-metrics"
        assert found[name("commit-total", members)] >= 1
        assert 0 < found[name("commit-latency-avg", members)] <= found[name("commit-latency-max", members)]
        assert found[name("rebalance-total", members)] == 1
        assert 0 < found[name("rebalance-latency-avg", members)] == found[name("rebalance-latency-max", members)]
        assert found[name("last-rebalance-seconds-ago", members)] > 0
        assert found[name("fetch-latency-max", group)] >= found[name("fetch-latency-avg", group)]
        assert found[name("last-poll-seconds-ago", "consumer-metrics")] > 0
        assert found[name("time-between-poll-max", "consumer-metrics")] > 0


def test_blocking_clients_and_the_admin_client_have_them_too(minikafka_bootstrap: str) -> None:
    with blocking.Admin(minikafka_bootstrap) as admin:
        admin.list_topics()
        before = admin.metrics()[name("request-total", "admin-client-metrics")]
        admin.list_topics()
        assert admin.metrics()[name("request-total", "admin-client-metrics")] == before + 1


def test_rates_and_averages_are_those_of_the_window() -> None:
    window = Window(100.0)

    def read(now: float, total: int, amount: int, count: int) -> tuple[float, float, float]:
        readings = Readings("producer", "minikafka")
        readings.total("byte", total)
        readings.average("size", amount, count)
        found = window.finish(readings, now)
        names = (name(text, "producer-metrics") for text in ("byte-total", "byte-rate", "size-avg"))
        first, second, third = (found[one] for one in names)
        return first, second, third

    assert read(100.0, 5, 0, 0)[:2] == (5, 0.0)
    assert math.isnan(read(101.0, 10, 0, 0)[2])
    assert read(110.0, 100, 8, 2) == (100, 10.0, 4.0)
    assert read(110.5, 105, 8, 2) == (105, 10.0, 4.0)
    assert read(110.0 + WINDOW_S, 400, 20, 4) == (400, 10.0, 6.0)
    assert read(1000.0, 400, 20, 4)[1] == 0.0


async def test_heartbeats_are_counted_by_both_protocols(bootstrap: str, topic: str) -> None:
    await fill(bootstrap, topic, 1, 1)
    for protocol, intervals in (("classic", {"heartbeat_interval_ms": 20}), ("consumer", {})):
        options = {"group_id": f"{topic}-{protocol}", "group_protocol": protocol, "auto_offset_reset": "earliest"}
        async with Consumer(topic, bootstrap_servers=bootstrap, **options, **intervals) as consumer:  # type: ignore
            with anyio.fail_after(60):
                assert len(await consumer.poll(60_000)) == 1
                members = "consumer-coordinator-metrics"
                while consumer.metrics()[name("heartbeat-total", members)] < (2 if protocol == "classic" else 1):
                    await consumer.poll(10)
            found = consumer.metrics()
            assert found[name("heartbeat-response-time-max", members)] > 0
            assert found[name("last-heartbeat-seconds-ago", members)] >= 0
            assert found[name("rebalance-total", members)] == 1
            await consumer.unsubscribe()
            assert consumer.metrics()[name("heartbeat-total", members)] >= found[name("heartbeat-total", members)]


async def test_the_greatest_value_is_that_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(anyio, "current_time", lambda: clock[0])
    values = Distribution()
    assert math.isnan(values.greatest())
    assert values.seconds_ago() == -1
    for clock[0], value in [(1000.0, 3.0), (1000.5, 9.0), (1000.9, 4.0), (1010.0, 5.0), (1029.0, 1.0)]:
        values.add(value)
    assert (values.total, values.count, values.greatest(), values.seconds_ago()) == (22.0, 5, 9.0, 0)
    clock[0] = 1000.1 + WINDOW_S
    assert values.greatest() == 5.0
    clock[0] = 1030.0 + WINDOW_S
    assert math.isnan(values.greatest())
    assert values.seconds_ago() == 31.0


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_the_jvm_client_has_all_of_these_names(kafka_bootstrap: str, topic: str) -> None:
    anyio.run(fill, kafka_bootstrap, topic, 1, 10)
    at = ("--bootstrap-server", kafka_bootstrap)
    said = tool("producer-perf-test", *at, *f"--topic {topic} --num-records 10 --record-size 10".split(),
                *["--throughput", "-1", "--print-metrics"])  # fmt: skip
    said += tool("consumer-perf-test", *at, *f"--topic {topic} --num-records 10 --print-metrics".split())
    theirs = {(group, text) for group, text in re.findall(r"^([a-z-]+-metrics):([a-z-]+):", said, re.MULTILINE)}
    with blocking.Producer(kafka_bootstrap) as producer:
        producer.send_and_wait(topic, b"x")
        ours = {(one.group, one.name) for one in producer.metrics()}
    options = {"group_id": topic, "auto_offset_reset": "earliest"}
    with blocking.Consumer(topic, bootstrap_servers=kafka_bootstrap, **options) as consumer:  # type: ignore[arg-type]
        next(iter(consumer))
        ours |= {(one.group, one.name) for one in consumer.metrics()}
    assert ours - theirs == set()
