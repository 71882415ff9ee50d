"""`minikafka perf` sends and reads as many records as it reports; rates are not checked."""

import json
import re
import signal

import click
import pytest
from support.clients import Client, eventually
from support.command_line import Minikafka, Start
from support.node import NodeProcess

from minikafka.cli.commands.perf import payloads

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


@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_not_delivered_is_not_counted(as_json: bool, minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.alter_settings(topic, {"max.message.bytes": "200"})
    words = ["--records", "3", "--size", "1000", *(["--json"] if as_json else [])]
    ran = minikafka("perf", "produce", topic, *words)
    assert ran.code == 1
    if as_json:
        assert {name: json.loads(ran.out)[name] for name in ("records", "bytes", "not_delivered")} == {
            "records": 0,
            "bytes": 0,
            "not_delivered": 3,
        }
        assert json.loads(ran.err.splitlines()[-1])["errors"][0]["code"] == "MESSAGE_TOO_LARGE"
    else:
        assert sent(ran.out.removesuffix("3 records not delivered.\n")) == 0
        assert ran.err.splitlines()[-1].startswith("Error: 3 of 3 records not delivered: ")


@pytest.mark.slow
def test_ctrl_c_reports_what_was_delivered(started: Start, node: NodeProcess, judge: Client, topic: str) -> None:
    process = started("perf", "produce", topic, "--rate", "100", "--option", "linger.ms=0")
    assert process.stdout is not None
    assert process.stderr is not None
    eventually(lambda: judge.offsets(topic)[1] > 10)
    node.pause()
    try:
        while not process.stdout.readline().startswith(b"0 records sent, "):  # of the last five seconds
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        while b"Still delivering " not in (said := process.stderr.readline()):
            assert said
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        counted, missing = process.stdout.read().decode().splitlines()[-2:]
    finally:
        node.resume()
    assert sent(f"{counted}\n") >= 10
    assert re.fullmatch(r"[\d,]+ records? not delivered\.", missing)


def test_payloads_are_capital_letters_and_mostly_differ() -> None:
    some = payloads(20, {})
    assert all(len(one) == 20 and one.isalpha() and one.isupper() for one in some)
    assert len(set(some)) == len(some)
    assert payloads(0, {})[0] == b""


@pytest.mark.slow
def test_payloads_that_a_record_cannot_have_are_refused_and_large_ones_are_few() -> None:
    with pytest.raises(click.UsageError, match="--size 1048577 is above 1048576"):
        payloads((1 << 20) + 1, {})
    assert sum(map(len, payloads(8 << 20, {"max_request_size": 8 << 20}))) <= 64 << 20
