"""Reading of OpenTelemetry's metrics: gauges, sums, histograms, attributes; and of what is none."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from minikafka.broker.telemetry import otlp
from minikafka.broker.telemetry.otlp import POINTS_MAX, MalformedMetrics, Point, read_metrics


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def nested(number: int, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return varint(number << 3 | 2) + varint(len(data)) + data


def text(number: int, value: str) -> bytes:
    return nested(number, value.encode())


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def integer(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def attribute(field: int, name: str, value: bytes) -> bytes:
    return nested(field, text(1, name), nested(2, value))


def metrics(*of_scope: bytes) -> memoryview:
    return memoryview(nested(1, nested(1, text(9, "a resource")), nested(2, *(nested(2, one) for one in of_scope))))


def test_gauges_and_sums_with_attributes() -> None:
    attributes = (
        attribute(7, "topic", text(1, "t")),
        attribute(7, "partition", number(3, 4)),
        attribute(7, "leader", number(2, 1)),
    )
    gauge = text(1, "a.gauge") + nested(5, nested(1, double(4, 2.5), *attributes), nested(1, integer(6, -3)))
    delta = text(1, "a.total") + nested(7, nested(1, integer(6, 7)), number(2, 1), number(3, 1))
    cumulative = text(1, "another") + nested(7, nested(1, double(4, 0.5)), number(2, 2))
    assert read_metrics(metrics(gauge, delta, cumulative)) == [
        Point("a.gauge", (("leader", "true"), ("partition", "4"), ("topic", "t")), 2.5, False, False),
        Point("a.gauge", (), -3.0, False, False),
        Point("a.total", (), 7.0, True, True),
        Point("another", (), 0.5, False, False),
    ]


def test_a_histogram_is_its_count_and_its_sum() -> None:
    point = nested(1, integer(4, 12), double(5, 30.5), attribute(9, "node.id", text(1, "1")))
    histogram = text(1, "waits") + nested(9, point, number(2, 2))
    labels = (("node.id", "1"),)
    assert read_metrics(metrics(histogram)) == [
        Point("waits.count", labels, 12.0, False, True),
        Point("waits.sum", labels, 30.5, False, True),
    ]


def test_nothing_at_all() -> None:
    assert read_metrics(memoryview(b"")) == []


@pytest.mark.parametrize(
    "data",
    [
        b"abc",
        b"\x0a\x05\x0a",  # a field longer than its message
        b"\x0b",  # a wire type that is not used
        b"\x80" * 11,  # a varint without an end
        b"\x08\x01",  # a number where a message was expected
        nested(1, nested(2, nested(2, text(1, "n"), nested(5, nested(1, nested(4, b"four")))))),
        nested(1, nested(2, nested(2, nested(1, b"\xff\xfe"), nested(5, nested(1, double(4, 1)))))),
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMetrics):
        read_metrics(memoryview(data))


def test_each_cut_message_is_refused_or_read() -> None:
    """No other exception, wherever a push ends."""
    whole = bytes(metrics(text(1, "a") + nested(5, nested(1, double(4, 1), attribute(7, "t", text(1, "v"))))))
    for size in range(len(whole)):
        with pytest.raises(MalformedMetrics) if size else pytest.MonkeyPatch.context():
            read_metrics(memoryview(whole)[:size])


def test_too_many_values_are_refused() -> None:
    many = nested(1, double(4, 1)) * (POINTS_MAX + 1)
    with pytest.raises(MalformedMetrics, match="more than"):
        read_metrics(metrics(text(1, "many") + nested(5, many)))


@pytest.mark.parametrize("empty", [b"\x0a\x00", b"\x10\x00", b"\x3a\x00"])
@pytest.mark.parametrize("depth", range(7))
def test_empty_fields_at_any_depth_are_counted_before_anything_is_made_of_them(
    empty: bytes, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of them compress to a few hundred bytes."""
    monkeypatch.setattr(otlp, "FIELDS_MAX", 2_000)
    monkeypatch.setattr(otlp, "POINTS_MAX", 1_000)
    data = empty * 50_000
    for field in [1, 2, 2, 5, 1, 7, 2][:depth][::-1]:
        data = nested(field, data)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMetrics):
            read_metrics(memoryview(data))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
