"""Clients that push metrics: what is kept of them and for how long, large pushes, and many clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import trio

from minikafka.broker.telemetry import clients as clients_module
from minikafka.broker.telemetry import pushed as pushed_module
from minikafka.broker.telemetry.clients import TelemetryClients
from minikafka.broker.telemetry.otlp import Point
from minikafka.broker.telemetry.pushed import PushedMetrics
from minikafka.broker.telemetry.subscriptions import Client, subscription_of
from minikafka.protocol.errors import InvalidRecordError, KafkaError, TelemetryTooLargeError
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.protocol.records.compression import Codec, compress

ASKER = Client("AAAAAAAAAAAAAAAAAAAABQ", "asker", "apache-kafka-java", "4.3.1", "10.0.0.7", "50000")
ID = bytes(15) + b"\x05"


async def run(function: Callable[..., Any], *args: object) -> Any:
    return function(*args)


def clients(now: list[int] | None = None) -> TelemetryClients:
    configs = {"all": {"metrics": "*", "interval.ms": "1000"}}
    times = now or [1_000_000]
    return TelemetryClients(lambda: configs, lambda: times[0], 1000, Random(1), run)


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        ("client_id=ask.*", True),
        ("client_id=ask", False),
        ("client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_software_name=apache-kafka-java,client_software_version=3\\..*", False),
        ("client_source_address=10\\.0\\.0\\.7", True),
        ("client_source_port=50000", True),
        ("client_instance_id=AAAAAAAAAAAAAAAAAAAABQ", True),
    ],
)
def test_all_patterns_have_to_match_whole_values(match: str, matches: bool) -> None:
    subscription = subscription_of(ASKER, [{"metrics": "a.,b.", "interval.ms": "500", "match": match}])
    assert subscription.metrics == (("a.", "b.") if matches else ())
    assert subscription.interval_ms == (500 if matches else 300_000)


@pytest.mark.parametrize(
    ("codec", "size_bytes", "error"),
    [
        (Codec.NONE, 1001, TelemetryTooLargeError),
        (Codec.GZIP, 1 << 20, TelemetryTooLargeError),
        (Codec.GZIP, 1001, InvalidRecordError),
        (Codec.LZ4, 1001, InvalidRecordError),
        (Codec.ZSTD, 1001, InvalidRecordError),
        (Codec.ZSTD, 1 << 20, InvalidRecordError),
    ],
)
def test_pushes_are_bounded_as_sent_and_decompressed(codec: Codec, size_bytes: int, error: type[KafkaError]) -> None:
    """With the errors of Apache Kafka 4.3.1."""
    some = clients()
    wanted = trio.run(some.subscribe, ID, ASKER)
    request = PushTelemetryRequest(
        client_instance_id=ID,
        subscription_id=wanted.id,
        compression_type=codec,
        metrics=compress(codec, bytes(size_bytes)),
    )
    with pytest.raises(error, match=r"at most 1000|more than 1000 bytes decompressed"):
        trio.run(some.push, request, ASKER)


@pytest.mark.parametrize(
    "match",
    [
        "client_id=([a-z]+-?)+[0-9]",  # exponential by backtracking
        "client_id=(",
        "client_id=a{99999999999}",
        "client_id=(?=ask).*",  # not in RE2
        "client_id=(a)\\1",
        "colour=blue",
        "client_id",
        "client_id=" + "(" * 3000,
    ],
)
def test_what_an_older_version_took_for_a_pattern_matches_no_client_and_ends(match: str) -> None:
    asker = replace(ASKER, client_id="a" * 50)
    assert subscription_of(asker, [{"metrics": "a.", "match": match}]).metrics == ()


def test_names_of_clients_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "CLIENTS_SIZE_BYTES_MAX", 1_000_000)
    some = clients()
    for number in range(50):
        asker = replace(ASKER, client_id=f"{number}" * 10_000)
        trio.run(some.subscribe, some.new_id(), asker)
    assert 0 < len(some) < 25


def test_only_so_many_clients_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients_module, "CLIENTS_MAX", 3)
    some = clients()
    for _ in range(5):
        trio.run(some.subscribe, some.new_id(), ASKER)
    assert len(some) == 3


def test_deltas_are_added_up_and_silent_clients_are_forgotten() -> None:
    pushed = PushedMetrics()
    grown = Point("sent", (), 2.0, True, True)
    pushed.add(ID, ASKER, [grown, Point("rate", (), 1.0, False, False)], until_ms=100)
    pushed.add(ID, ASKER, [grown, Point("rate", (), 0.5, False, False)], until_ms=200)
    assert [(name, value) for _, name, _, value, _ in pushed.samples()] == [("sent", 4.0), ("rate", 0.5)]
    pushed.expire(200)
    assert len(list(pushed.samples())) == 2
    pushed.expire(201)
    assert list(pushed.samples()) == []


def test_only_so_many_values_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_module, "SAMPLES_MAX", 3)
    pushed = PushedMetrics()
    points = [Point(f"m{number}", (), 1.0, False, False) for number in range(5)]
    pushed.add(ID, ASKER, points, until_ms=100)
    pushed.add(ID, ASKER, points[:3], until_ms=100)
    assert (len(list(pushed.samples())), pushed.left_out) == (3, 2)
    pushed.forget(ID)
    pushed.add(bytes(16), ASKER, points[3:], until_ms=100)
    assert len(list(pushed.samples())) == 2


def test_values_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is long: names, labels or the client, which is shown with each of them."""
    monkeypatch.setattr(pushed_module, "SIZE_BYTES_MAX", 1_000_000)
    long = "x" * 10_000
    for client, name, labels in (
        (ASKER, long, ()),
        (ASKER, "m", ((long, "v"),)),
        (ASKER, "m", (("l", long),)),
        (replace(ASKER, client_id=long), "m", ()),
        (ASKER, "m", tuple((f"l{number}", "") for number in range(250))),
    ):
        pushed = PushedMetrics()
        points = [Point(f"{name}{number}", labels, 1.0, False, False) for number in range(100)]
        pushed.add(ID, client, points, until_ms=100)
        kept = len(list(pushed.samples()))
        assert 10 < kept < 30
        assert pushed.left_out == 100 - kept
        pushed.forget(ID)
        pushed.add(ID, client, points[:10], until_ms=100)
        assert len(list(pushed.samples())) == 10
