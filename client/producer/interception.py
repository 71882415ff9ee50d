"""Calls a producer's interceptors (KIP-42), and logs the errors that they raise."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from minikafka.client.escaped_log import escaped
from minikafka.client.interceptors import ProducerInterceptor
from minikafka.client.producer.producer_batch import Delivery, OnDelivery
from minikafka.client.records import ProducerRecord, RecordMetadata
from minikafka.client.user_code import tolerated

_logger = escaped(logging.getLogger("minikafka.client.producer"))


class Interception:
    """The interceptors of one producer, in order. Source: Kafka's `ProducerInterceptors`."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor]) -> None:
        self._interceptors = interceptors

    def begin(
        self, record: ProducerRecord, on_delivery: OnDelivery | None
    ) -> tuple[ProducerRecord, Acknowledgement]:
        """Call `on_send`; return the record to send, and the callback for its delivery or failure."""
        for one in self._interceptors:
            with tolerated(_logger, "interceptor failed: %s.on_send", type(one).__name__):
                changed = one.on_send(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send must return a ProducerRecord, not {type(changed).__name__}")
                record = changed
        return record, Acknowledgement(self._interceptors, record, on_delivery)

    async def send(
        self, send: Callable[..., Awaitable[Delivery]], record: ProducerRecord, on_delivery: OnDelivery | None
    ) -> Delivery:
        """Send a record with `Producer.send`, and acknowledge its result. Raises the errors of `Producer.send`."""
        if isinstance(on_delivery, Acknowledgement):  # `begin` was called on the application's thread
            acknowledgement = on_delivery
        else:
            record, acknowledgement = self.begin(record, on_delivery)
        acknowledgement.is_sending = True
        try:
            delivery = await send(
                record.topic,
                record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
                on_delivery=acknowledgement,
            )
        except Exception as error:
            acknowledgement.acknowledge(None, error)
            raise
        acknowledgement.partition = delivery.partition
        return delivery


class Acknowledgement:
    """The `on_delivery` callback of a record that was intercepted.

    Attributes:
        is_sending: whether the record is being sent, so that `send` does not intercept it again.
        partition: the partition of the record; -1 until it is chosen.
    """

    def __init__(
        self, interceptors: Sequence[ProducerInterceptor], record: ProducerRecord, on_delivery: OnDelivery | None
    ) -> None:
        self.is_sending = False
        self.partition = -1 if record.partition is None else record.partition
        self._interceptors = interceptors
        self._record = record
        self._on_delivery = on_delivery

    def __call__(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.acknowledge(metadata, error)
        if self._on_delivery is not None:
            self._on_delivery(metadata, error)  # type: ignore[arg-type]

    def acknowledge(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Call `on_acknowledgement` of the interceptors."""
        record = self._record
        timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
        known = metadata or RecordMetadata(record.topic, self.partition, -1, timestamp)
        for one in self._interceptors:
            with tolerated(_logger, "interceptor failed: %s.on_acknowledgement", type(one).__name__):
                one.on_acknowledgement(known, error)

    @property
    def tells_application(self) -> bool:
        """Whether the record has an `on_delivery` of its own."""
        return self._on_delivery is not None


def tells_application(callback: OnDelivery) -> bool:
    """Whether a callback tells the application of a record's result, not only its interceptors."""
    return callback.tells_application if isinstance(callback, Acknowledgement) else True
