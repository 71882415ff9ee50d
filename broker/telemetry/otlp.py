"""Reads the metrics of OpenTelemetry's `MetricsData`, as far as clients push them: gauges, sums, histograms. Pure.

Protobuf's wire format is four kinds of fields; the messages have a dozen fields that matter here. So no library
is used. Source: opentelemetry-proto, `metrics/v1/metrics.proto`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

__all__ = ["MalformedMetrics", "Point", "read_metrics"]

POINTS_MAX = 10_000
FIELDS_MAX = 500_000
"""The most fields of a push. The cost of reading depends on fields rather than on bytes: a field takes about 1 µs."""
DELTA = 1
"""The aggregation temporality of values that count since the last push."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DOUBLE, INT64 = Struct("<d"), Struct("<q")
GAUGE, SUM, HISTOGRAM = 5, 7, 9

Value = int | memoryview


class MalformedMetrics(ValueError):
    """Raised if the bytes that a client pushed are no `MetricsData`, or have too many values or fields."""


class Point(NamedTuple):
    """A value of a metric.

    Attributes:
        name: The client's name of the metric, such as `org.apache.kafka.producer.record.send.total`.
        labels: The attributes of the value as (name, text), sorted by name.
        delta: Whether the value is to be added to the value that was pushed before.
        total: Whether the metric only grows.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    delta: bool
    total: bool


def read_metrics(data: memoryview) -> list[Point]:
    """Read all values of a push.

    Raises:
        MalformedMetrics: The bytes are malformed, or have more than `POINTS_MAX` values or `FIELDS_MAX` fields.
    """
    points: list[Point] = []
    try:
        reader = _Reader()
        for metric in reader.path(data, 1, 2, 2):  # resource_metrics, scope_metrics, metrics
            for point in reader.points(metric):
                points.append(point)
                if len(points) > POINTS_MAX:
                    raise MalformedMetrics(f"more than {POINTS_MAX} values")
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMetrics(str(error)) from error
    return points


class _Reader:
    """Reads messages, and counts their fields."""

    def __init__(self) -> None:
        self._fields_left = FIELDS_MAX

    def points(self, metric: memoryview) -> Iterator[Point]:
        fields = dict(self._fields(metric))
        name = _text(fields.get(1, memoryview(b"")))
        for kind in (GAUGE, SUM, HISTOGRAM):
            if kind not in fields:
                continue
            data = _message(fields[kind])
            about = dict(self._fields(data))
            delta, grows = kind != GAUGE and about.get(2) == DELTA, kind == HISTOGRAM or bool(about.get(3))
            for point in self.path(data, 1):
                values, labels = dict(self._fields(point)), self._labels(point, 9 if kind == HISTOGRAM else 7)
                if kind == HISTOGRAM:
                    yield Point(f"{name}.count", labels, float(_fixed(values, 4, INT64)), delta, True)
                    yield Point(f"{name}.sum", labels, _fixed(values, 5, DOUBLE), delta, True)
                else:
                    value = _fixed(values, 4, DOUBLE) if 4 in values else float(_fixed(values, 6, INT64))
                    yield Point(name, labels, value, delta, grows)

    def _labels(self, point: memoryview, number: int) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for pair in self.path(point, number):
            fields = dict(self._fields(pair))
            value = dict(self._fields(_message(fields.get(2, memoryview(b"")))))
            found[_text(fields.get(1, memoryview(b"")))] = _any_text(value)
        return tuple(sorted(found.items()))

    def path(self, data: memoryview, *numbers: int) -> Iterator[memoryview]:
        """Yield the messages at a path of nested fields: the field numbers from the outer to the inner message."""
        for number, value in self._fields(data):
            if number != numbers[0]:
                continue
            if len(numbers) == 1:
                yield _message(value)
            else:
                yield from self.path(_message(value), *numbers[1:])

    def _fields(self, data: memoryview) -> Iterator[tuple[int, Value]]:
        """Yield each field's number, and its varint or its bytes. Raises IndexError, MalformedMetrics."""
        position = 0
        while position < len(data):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise MalformedMetrics(f"more than {FIELDS_MAX} fields")
            key, position = _varint(data, position)
            kind, value = key & 7, 0
            if kind == VARINT:
                value, position = _varint(data, position)
                yield key >> 3, value
                continue
            if kind == BYTES:
                size, position = _varint(data, position)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                raise MalformedMetrics(f"wire type {kind}")
            if size > len(data) - position:
                raise MalformedMetrics("a field ends after its message")
            yield key >> 3, data[position : position + size]
            position += size


def _any_text(value: dict[int, Value]) -> str:
    """Return the text of an `AnyValue`: a string, a boolean, an integer or a double; "" for other values."""
    if 1 in value:
        return _text(value[1])
    if 2 in value:
        return str(bool(value[2])).lower()
    if 3 in value:
        number = value[3]
        return str(number - (1 << 64) if isinstance(number, int) and number >> 63 else number)
    return str(_fixed(value, 4, DOUBLE)) if 4 in value else ""


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > 63:
            raise MalformedMetrics("a varint of more than ten bytes")


def _message(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedMetrics("a number where a message was expected")
    return value


def _text(value: Value) -> str:
    return str(_message(value), "utf-8")


def _fixed(values: dict[int, Value], number: int, kind: Struct) -> float:
    value = values.get(number)
    if value is None:
        return 0.0
    if isinstance(value, int) or len(value) != kind.size:
        raise MalformedMetrics("a number of another size")
    [result] = kind.unpack(value)
    return float(result)
