"""The interfaces of interceptors, which users may implement (KIP-42).

    class Counting(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(headers=(*record.headers, ("sent-by", b"web-1")))

    Producer(interceptors=[Counting()])

An error that an interceptor raises is logged and not propagated: the result of the previous interceptor, or the
original record, is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.records import ConsumerRecord, ProducerRecord, RecordMetadata
from minikafka.protocol.names import TopicPartition


class ProducerInterceptor:
    """Callbacks of a producer for each record; override those you need. Source: Kafka's `ProducerInterceptor`."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in `send`, before serialization. Return the record to send: the given one or another."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called once for each record that was delivered or has failed, even if `send` raises; before `on_delivery`.

        The call runs in the producer's background task and blocks it. With an error, the metadata's offset is -1, and
        its partition is -1 if none was chosen.
        """


class ConsumerInterceptor:
    """Callbacks of a consumer for records and commits; override as needed. Source: Kafka's `ConsumerInterceptor`."""

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Called with records that are about to be returned. Return the records for the application.

        Iteration calls `on_consume` for each record, `batches` for each batch, `poll` for each list. Records that are
        left out count as consumed. It is not called for `arrow_batches`.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called when offsets were committed, by `commit` or automatically."""
