"""The producer: from `send` to the response of the partition's leader.

Records are appended to a batch per partition without waiting; a background task sends the batches. Idempotence (KIP-98,
KIP-360) keeps records in order and free of duplicates over retries.

The path of a record: `Producer.send` chooses the partition, appends the record to the open `PendingBatch` of its `Lane`
and returns a `Delivery`. When the batch is full or `linger_ms` has passed, `Sender.pump` collects it (one batch per
partition and request), assigns sequence numbers, encodes it and posts a Produce request. The response completes the
batch and its deliveries, or the batch is queued again for a retry, or it fails.

    producer.py              `Producer`: options, serializers, `send`, `flush`
    partitioner.py           murmur2 of keys, and the sticky partition for records without keys
    record_accumulator.py    lanes of batches: order, retries, sequence numbers, deadlines, memory
    producer_batch.py        one batch, `Delivery` and `RecordMetadata`
    sender.py                the background task: Produce and InitProducerId requests

Caveats:
    * No transactions.
    * Batches are compressed by the event loop's thread when they are sent.
"""
