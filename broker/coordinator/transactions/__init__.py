"""Transactions: producers with a transactional id, their partitions, and how they end; stored in `__transaction_state`.

The transaction coordinator keeps the transactional ids whose partition of `__transaction_state` this node leads, as the
group coordinator keeps groups: a request from an API handler becomes a decision of a shard, whose record is appended,
applied, and answered once it is committed.

One transaction: InitProducerId gives the producer its id and an epoch, which fences every earlier producer of the same
transactional id (`init_producer.py`). Each partition is added before records are appended to it: by the producer
(AddPartitionsToTxn, AddOffsetsToTxn), or, in version 2, by the first Produce or TxnOffsetCommit; the partition's leader
asks the coordinator either way (`transaction_questions.py`, `broker/partitions/verification.py`). EndTxn decides the
outcome (`end_transaction.py`): once that record is committed, the producer has its answer, and the coordinator writes a
marker to each partition (`completion.py`) and then the final state. A coordinator that loads a decided transaction
resumes there. A transaction that is open for too long, or whose producer is replaced, is aborted.

    transaction.py              Transaction: the state of one transactional id, and its changes
    transaction_records.py      keys and values of `__transaction_state`
    transaction_shard.py        TransactionShard: one partition's state machine; timeouts and expiry
    transaction_settings.py     the settings that the coordinator uses
    init_producer.py            InitProducerId
    add_partitions.py           adding and verifying partitions
    end_transaction.py          EndTxn, and the completion
    completion.py               Completions: markers and the final state of decided transactions
    transaction_admin.py        DescribeTransactions, ListTransactions
    transaction_coordinator.py  TransactionCoordinator: the entry point of the API handlers
    transaction_questions.py    asks the coordinator, here or on another node, before an append
    marker_channel.py           sends markers to the leaders until all have written them
    marker_log.py               writes markers to partitions that this node leads
    broker_requests.py          connections to other brokers, and requests in batches
    transaction_parts.py        TransactionParts: creates and connects the parts that serve transactions
    producer_ids.py             ProducerIds: producer ids, from blocks that the controller allocates

Records: transactional id → producer id and epoch, timeout, state, partitions, times. The last one of a key counts.

A transaction times out by the wall clock, as in Kafka, or by the steady clock of its coordinator, whichever is earlier.

Two-phase commit (KIP-939) is supported as far as in Kafka 4.3: with `unstable.api.versions.enable`, InitProducerId
version 6 is served, and with `transaction.two.phase.commit.enable` a producer may ask for transactions without a
timeout.

*Caveats:* a prepared transaction cannot be kept over InitProducerId (UNSUPPORTED_VERSION), as in Kafka 4.3.
Patterns of ListTransactions are those of group subscriptions: `controller/patterns.py` says what differs from
RE2/J.
"""
