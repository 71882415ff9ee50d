"""The interfaces of interceptors, which users may implement (KIP-42).

    class Counting(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(headers=(*record.headers, ("sent-by", b"web-1")))

    Producer(interceptors=[Counting()])

What an interceptor raises is logged and goes no further: the record, or the result of the interceptor before, is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.client.offsets import OffsetAndMetadata
from minikafka.client.records import ConsumerRecord, ProducerRecord, RecordMetadata
from minikafka.protocol.names import TopicPartition


class ProducerInterceptor:
    """What a producer calls for each record; override what you need. Source: Kafka's `ProducerInterceptor`."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in `send`, before serialization: the record to send, this one or another."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called once for each record that was delivered or has failed, also if `send` raises; before `on_delivery`.

        It runs in the producer's background task and holds it up. With an error the metadata's offset is -1, and its
        partition is if none was chosen.
        """


class ConsumerInterceptor:
    """What a consumer calls for records and commits; override what you need. Source: Kafka's `ConsumerInterceptor`."""

    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """Called with records that are about to be returned: those to return.

        Iteration calls it for each record, `batches` for each batch, `poll` for each list. Records that are left out
        count as consumed. Those of `arrow_batches` are not shown.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called when offsets were committed, by `commit` or automatically."""
