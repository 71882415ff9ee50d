"""The producer: from `send` to the response of the partition's leader.

Records are appended to a batch per partition without waiting; a background task sends the batches. Idempotence (KIP-98,
KIP-360) keeps records in order and free of duplicates over retries.

The path of a record: `Producer.send` chooses the partition, appends the record to the open `PendingBatch` of its `Lane`
and returns a `Delivery`. When the batch is full or `linger_ms` has passed, `Sender.pump` collects it (one batch per
partition and request), assigns sequence numbers, encodes it and posts a Produce request. The response completes the
batch and its deliveries, or the batch is queued again for a retry, or it fails.

In a transaction (KIP-98, KIP-447, KIP-890) a batch waits until its partition was added to the transaction, and until
the batch is full or no other batch of the partition is in flight; the commit sends the remaining batches. After a batch
has failed, the transaction must be aborted. An abort drops the batches that have not been sent.

    producer.py              `Producer`: options, serializers, `send`, `flush`
    serialization.py         keys and values to bytes
    refused_records.py       the errors of records that are refused before they are queued
    partitioner.py           murmur2 of keys, and the sticky partition for records without keys
    record_accumulator.py    lanes of batches: order, retries, sequence numbers, deadlines, memory
    producer_batch.py        one batch, `Delivery` and `RecordMetadata`
    interception.py          calls interceptors (KIP-42)
    closing.py               aborts open transactions and drops undelivered records when a block ends
    sender.py                the background task: Produce and InitProducerId requests
    transaction_state.py     the state of a transactional producer, and its errors
    arrow_encoding.py        Arrow columns to record batches, for the Spark sink
    transactions.py          the requests to the coordinators of the transaction and of the group

Caveats:
    * Only one task at a time may begin or end a transaction, or send offsets to it; any number may send records.
    * No two-phase commit (KIP-939).
    * Batches are compressed by the event loop's thread when they are sent.
"""
