"""`minikafka perf` sends and reads as many records as it reports; rates are not checked."""

import re

import click
import pytest
from support.clients import Client
from support.command_line import Minikafka

from minikafka.cli.perf import payloads

TOTAL = re.compile(
    r"(\d+) records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
    r"[\d.]+ ms 50th, [\d.]+ ms 95th, [\d.]+ ms 99th, [\d.]+ ms 99.9th\.\n"
)


def sent(text: str) -> int:
    found = TOTAL.fullmatch(text)
    assert found, text
    return int(found[1])


def test_produce_sends_records_of_the_given_number_and_size(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("perf", "produce", topic, "--records", "3000", "--size", "50", "--compression-type", "lz4")
    assert (ran.code, ran.err, sent(ran.out)) == (0, "", 3000)
    found = judge.consume(topic, 3000)
    assert judge.offsets(topic) == (0, 3000)
    assert {len(one.value or b"") for one in found} == {50}
    assert len({one.value for one in found}) > 500


def test_the_rate_is_limited(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("perf", "produce", topic, "--records", "300", "--rate", "1000", "--acks", "1")
    assert sent(ran.out) == 300
    rate = re.search(r"([\d.]+) records/sec", ran.out)
    assert rate is not None
    assert float(rate[1]) <= 1050


def test_consume_reads_all_existing_records(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.add_partitions(topic, total=2)
    minikafka("perf", "produce", topic, "--records", "2000", "--option", "batch.size=2000")
    ran = minikafka("perf", "consume", topic)
    assert (ran.code, ran.out.startswith("2,000 records read in ")) == (0, True)
    assert minikafka("perf", "consume", topic, "--records", "10").code == 0


def test_consume_of_an_empty_topic(minikafka: Minikafka, topic: str) -> None:
    assert minikafka("perf", "consume", topic).out.startswith("0 records read")
    ran = minikafka("perf", "consume", topic, "--records", "5", "--timeout-ms", "200")
    assert (ran.code, ran.out.startswith("0 records read")) == (0, True)


def test_latency_sends_one_at_a_time(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("perf", "latency", topic, "--records", "20", "--size", "10")
    assert (ran.code, sent(ran.out)) == (0, 20)
    assert judge.offsets(topic) == (0, 21), "one more is sent first, to open the connections"


@pytest.mark.usefixtures("impatient")
def test_a_missing_topic(minikafka: Minikafka) -> None:
    for command in ("produce", "consume", "latency"):
        ran = minikafka("perf", command, "nowhere")
        assert (ran.code, "topic 'nowhere' does not exist" in ran.err) == (1, True)


def test_an_error_of_the_broker_is_reported(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.alter_settings(topic, {"max.message.bytes": "200"})
    for command in ("produce", "latency"):
        ran = minikafka("perf", command, topic, "--records", "1", "--size", "1000")
        assert ran.code == 1
        assert ran.err.splitlines()[-1].startswith("Error: ")


def test_payloads_are_capital_letters_and_mostly_differ() -> None:
    some = payloads(20, {})
    assert all(len(one) == 20 and one.isalpha() and one.isupper() for one in some)
    assert len(set(some)) == len(some)
    assert payloads(0, {})[0] == b""


def test_payloads_that_a_record_cannot_have_are_refused_and_large_ones_are_few() -> None:
    with pytest.raises(click.UsageError, match="--size 1048577 is above 1048576"):
        payloads((1 << 20) + 1, {})
    assert sum(map(len, payloads(8 << 20, {"max_request_size": 8 << 20}))) <= 64 << 20
