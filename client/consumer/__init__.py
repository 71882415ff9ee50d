"""The consumer: fetches ahead in the background, and returns records in order of each partition.

A consumer has a `PartitionState` for each assigned partition. Buffered records and fetches in flight are dropped when
its position is changed by a seek or a new assignment.

The path of a record: `FetchLoop` asks `Fetcher.plan` which partitions to fetch from which leader and posts one Fetch
request per broker. `Fetcher.accept` checks the response and buffers it as `Chunk`s. `Consumer` takes records from the
oldest chunk, which decodes them when the first one is requested, and moves the position. Positions are committed by
`Subscriptions`.

    consumer.py            `Consumer`: iteration, `poll`, seeks, offsets, commits
    consumer_metrics.py    the metrics of a consumer
    subscription.py        assigned partitions, by `assign`, subscription or group; commits
    auto_commits.py        commits positions from time to time, and before partitions are lost
    record_owners.py       the membership in which records were returned, which commits use
    lacking_topics.py      topics that the metadata lack: deleted, or only not named by a broker that is behind
    listener.py            `Listener`: callbacks for rebalances, called where the application requests records
    background_fetch.py    the background task: Fetch requests, errors
    missing_offsets.py     start offsets, and the ends to stop at
    failures.py            errors of background tasks, raised by the application's next request unless obsolete
    fetch_state.py         planned fetches and buffered chunks
    fetched_chunks.py      splits the bytes of a response into chunks, without aborted transactions
    fetch_session.py       fetch sessions: requests that contain only changes (KIP-227)
    partition_state.py     the positions of one partition, and the conditions for fetching it
    chunk.py               records of one partition from a fetch response, decoded on first access
    position_validation.py detects truncated logs after elections (KIP-320): `LogTruncationError`
    interception.py        calls interceptors (KIP-42)
    deserialization.py     applies deserializers; `RecordDeserializationError` names the record that fails
    arrow_batches.py       records as Arrow columns, for pandas, polars and Spark (requires pyarrow and numpy)

With `stop_at="end"` each partition has a `stop_offset`, its end offset when it was assigned. Batches from there on are
neither fetched nor returned, and iterations end when all partitions have reached it. A position beyond the
`stop_offset` is fetched once, as only the broker knows whether that position is out of range.

Caveats:
    * `stop_at`: if an unclean election shortens a log below the `stop_offset`, the iteration waits until the log is as
      long again. A group member that has no partitions under the consumer protocol ends after two heartbeats.
    * Records are decoded up to 50,000 at a time, also for `poll(max_records=1)`, and those of a larger batch in slices.
      A compressed batch is decompressed as a whole, once. If it has more than 256 MiB then, it counts as corrupt.
    * Batches of magic 0 or 1, which brokers before Kafka 4 may still have, are not read: CorruptMessageError.
    * A consumer buffers up to two responses for each partition until its block ends. Their total size is not bounded by
      `fetch_max_bytes`.
    * Up to ten partitions of a broker are fetched without a session: the request is short, and it needs none of the
      broker's slots.
    * Offsets that `Producer.send_offsets_to_transaction` commits carry a leader epoch only if they are given as
      `OffsetAndMetadata`. Without a leader epoch, a truncation before the next start is not detected, and the consumer
      may fetch from an isolated leader whose log ends before the offset.
    * With `auto_offset_reset="none"`, a missing committed offset or a truncated log raises an error once for each
      partition, which then has no position until a `seek`; the JVM client raises the error at each poll. An offset out
      of range raises an error at each request, and the position stays, as in the JVM client.
"""
