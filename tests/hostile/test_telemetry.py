"""PushTelemetry with metrics that are small when compressed: each is answered, and no step is long (`unharmed`)."""

from __future__ import annotations

import pytest
from support.clients_raw import RawConnection
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.protocol.records.compression import Codec, compress

MIB = 1 << 20


def nested(number: int, data: bytes) -> bytes:
    """A protobuf message in a field."""
    size, out = len(data), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + data


def points(count: int) -> bytes:
    """One gauge of so many empty points."""
    return nested(1, nested(2, nested(2, nested(5, bytes([1 << 3 | 2, 0]) * count))))


@pytest.mark.parametrize(
    ("metrics", "error"),
    [
        (points(4_000_000), ErrorCode.INVALID_RECORD),
        (points(500_000), ErrorCode.INVALID_RECORD),
        (bytes(16 * MIB), ErrorCode.INVALID_RECORD),
        (bytes([2 << 3, 0]) * 510_000, ErrorCode.INVALID_RECORD),
    ],
)
@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP])
def test_what_expands_is_refused(node: ServerProcess, metrics: bytes, error: ErrorCode, codec: Codec) -> None:
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka has no receiver of metrics here")
    with RawConnection(node.address) as connection:
        asked = connection.ask(GetTelemetrySubscriptionsRequest(client_instance_id=bytes(16)), 0)
        push = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id,
            subscription_id=asked.subscription_id,
            terminating=False,
            compression_type=codec,
            metrics=compress(codec, metrics),
        )
        assert connection.ask(push, 0).error_code == error
