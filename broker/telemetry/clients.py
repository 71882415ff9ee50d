"""`TelemetryClients`: the clients that push metrics, their subscriptions, and the checks of their requests. Pure.

Source: Kafka's `ClientMetricsManager`, `ClientMetricsInstance`.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from minikafka.broker.telemetry.otlp import MalformedMetrics, Point, read_metrics
from minikafka.broker.telemetry.pushed import PushedMetrics
from minikafka.broker.telemetry.subscriptions import Client, Subscription, subscription_of
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from minikafka.protocol.messages.push_telemetry import PushTelemetryRequest
from minikafka.protocol.records.compression import Codec, TooMuchContent, decompress
from minikafka.protocol.records.record import CorruptRecords

__all__ = ["TelemetryClients"]

CLIENTS_MAX = 16_384
Run = Callable[..., Awaitable[Any]]
NIL, ONE = bytes(16), bytes(15) + b"\x01"
"""Instance ids that are reserved: no client has them."""
CLIENTS_SIZE_BYTES_MAX = 16 << 20
"""The bound on the memory that the names of the clients take."""
ASKED_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""After these errors a client may ask for its subscription at once."""


@dataclass(slots=True)
class _Instance:
    client: Client
    subscription: Subscription
    version: int
    asked_ms: int = 0
    pushed_ms: int = 0
    terminating: bool = False
    last_error: int = ErrorCode.NONE


class TelemetryClients:
    """The clients that push metrics to this broker: returns their subscriptions, and takes their metrics.

    There are at most `CLIENTS_MAX` clients, whose names take at most `CLIENTS_SIZE_BYTES_MAX`. Beyond these bounds the
    clients whose last request is oldest are forgotten.

    Args:
        configs: Returns the subscriptions, by name.
        now_ms: The wall clock.
        size_bytes_max: `telemetry.max.bytes`.
        run: Calls a function in a worker thread, one at a time: matching patterns and reading metrics may take long.
        random: The source of new ids.

    Attributes:
        pushed: The metrics that the clients pushed.
    """

    def __init__(
        self,
        configs: Callable[[], Mapping[str, Mapping[str, str]]],
        now_ms: Callable[[], int],
        size_bytes_max: int,
        random: Random,
        run: Run,
    ) -> None:
        self.pushed = PushedMetrics()
        self._configs = configs
        self._now_ms = now_ms
        self._size_bytes_max = size_bytes_max
        self._random = random
        self._run = run
        self._names_size_bytes = 0
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()
        self._seen: dict[str, dict[str, str]] = {}
        self._version = 0

    @property
    def size_bytes_max(self) -> int:
        """The most bytes of a push, as sent (compressed)."""
        return self._size_bytes_max

    def new_id(self) -> bytes:
        """Make an id for a client that has none."""
        while True:
            made = bytearray(self._random.randbytes(16))
            made[6], made[8] = made[6] & 0x0F | 0x40, made[8] & 0x3F | 0x80  # a random uuid, as in RFC 9562
            if bytes(made) not in self._instances:
                return bytes(made)

    async def subscribe(self, instance_id: bytes, client: Client) -> Subscription:
        """Return the subscription of a client: which metrics to push, and how often.

        Raises:
            ThrottlingQuotaExceededError: The client asks again before its interval has passed.
        """
        instance, now_ms = await self._instance(instance_id, client), self._now_ms()
        if now_ms - max(instance.asked_ms, instance.pushed_ms) >= instance.subscription.interval_ms:
            instance.asked_ms = now_ms
        elif instance.last_error not in ASKED_AGAIN:
            raise ThrottlingQuotaExceededError("the client asks before its push interval has passed")
        instance.last_error = ErrorCode.NONE
        return instance.subscription

    async def push(self, request: PushTelemetryRequest, client: Client) -> None:
        """Take the metrics that a client pushes.

        Raises:
            KafkaError: The push is refused: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
                UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD.
        """
        if request.client_instance_id in (NIL, ONE):
            raise InvalidRequestError("metrics without a client instance id")
        instance, now_ms = await self._instance(request.client_instance_id, client), self._now_ms()
        try:
            self._check(request, instance, now_ms)
            await self._take(request, instance, now_ms)
        except KafkaError as error:
            instance.last_error = error.code
            raise
        finally:
            instance.terminating = request.terminating
        instance.last_error = ErrorCode.NONE

    async def _instance(self, instance_id: bytes, client: Client) -> _Instance:
        """Return the instance of a client, with its current subscription; a new instance if subscriptions changed."""
        configs = self._configs()
        if configs != self._seen:
            self._seen = {name: dict(config) for name, config in configs.items()}
            self._version += 1
        instance = self._instances.get(instance_id)
        if instance is None or instance.version < self._version:
            version, known = self._version, client if instance is None else instance.client
            subscription = await self._run(subscription_of, known, [*configs.values()])
            instance = _Instance(known, subscription, version)
            self._keep(instance_id, instance)
        self._instances.move_to_end(instance_id)
        return instance

    def _keep(self, instance_id: bytes, instance: _Instance) -> None:
        before = self._instances.get(instance_id)
        self._names_size_bytes += instance.client.size_bytes - (before.client.size_bytes if before else 0)
        self._instances[instance_id] = instance
        while len(self._instances) > CLIENTS_MAX or self._names_size_bytes > CLIENTS_SIZE_BYTES_MAX:
            forgotten, gone = self._instances.popitem(last=False)
            self._names_size_bytes -= gone.client.size_bytes
            self.pushed.forget(forgotten)

    def _check(self, request: PushTelemetryRequest, instance: _Instance, now_ms: int) -> None:
        """Check a push, in Kafka's order. The first push after a request for the subscription may come at once."""
        if instance.terminating:
            raise InvalidRequestError("the client said that it ends")
        in_time = instance.asked_ms > instance.pushed_ms
        if in_time or now_ms - instance.pushed_ms >= instance.subscription.interval_ms:
            instance.pushed_ms = now_ms
        elif not request.terminating:
            raise ThrottlingQuotaExceededError("the client pushes before its push interval has passed")
        if request.subscription_id != instance.subscription.id:
            raise UnknownSubscriptionIdError("the client has another subscription")
        if request.compression_type not in list(Codec):
            raise UnsupportedCompressionTypeError(f"unknown compression type {request.compression_type}")
        if len(request.metrics) > self._size_bytes_max:
            raise TelemetryTooLargeError(f"{len(request.metrics)} bytes, at most {self._size_bytes_max}")

    async def _take(self, request: PushTelemetryRequest, instance: _Instance, now_ms: int) -> None:
        if not request.metrics:
            return
        points = await self._run(_read, Codec(request.compression_type), request.metrics, self._size_bytes_max)
        until_ms = now_ms + max(300_000, 3 * instance.subscription.interval_ms)
        self.pushed.add(request.client_instance_id, instance.client, points, until_ms)

    def __len__(self) -> int:
        return len(self._instances)


def _read(codec: Codec, metrics: bytes, size_bytes_max: int) -> list[Point]:
    """Decompress and read pushed metrics. Raises KafkaError."""
    try:
        return read_metrics(memoryview(decompress(codec, metrics, size_bytes_max)))
    except TooMuchContent as error:
        raise InvalidRecordError(f"the client's metrics have more than {size_bytes_max} bytes decompressed") from error
    except (CorruptRecords, MalformedMetrics) as error:
        raise InvalidRecordError(f"the client's metrics cannot be read: {error}") from error
