"""The producer: from `send` to the response of the partition's leader.

Records are appended to a batch per partition without waiting; a background task sends the batches. Idempotence (KIP-98,
KIP-360) keeps records in order and free of duplicates over retries.

The path of a record: `Producer.send` chooses the partition, appends the record to the open `PendingBatch` of its `Lane`
and returns a `Delivery`. When the batch is full or `linger_ms` has passed, `Sender.pump` collects it (one batch per
partition and request), assigns sequence numbers, encodes it and posts a Produce request. The response completes the
batch and its deliveries, or the batch is queued again for a retry, or it fails.

In a transaction (KIP-98, KIP-447, KIP-890) batches wait until their partition is a part of it, and until they are full
or no other one of the partition is in flight; the commit sends what is left. A batch that fails makes the transaction
one that must be aborted, and an abort drops what has not been sent.

    producer.py              `Producer`: options, serializers, `send`, `flush`
    serialization.py         keys and values to bytes
    partitioner.py           murmur2 of keys, and the sticky partition for records without keys
    record_accumulator.py    lanes of batches: order, retries, sequence numbers, deadlines, memory
    producer_batch.py        one batch, `Delivery` and `RecordMetadata`
    interception.py          calls interceptors (KIP-42)
    closing.py               what is left when a block ends: an open transaction, undelivered records
    sender.py                the background task: Produce and InitProducerId requests
    transaction_state.py     the state of a transactional producer, and its errors
    arrow_encoding.py        Arrow columns to record batches, for the Spark sink
    transactions.py          the requests to the coordinators of the transaction and of the group

Caveats:
    * A transaction is begun, ended, and gets its offsets, by one task at a time; any number of tasks may send.
    * No two-phase commit (KIP-939).
    * Batches are compressed by the event loop's thread when they are sent.
"""
