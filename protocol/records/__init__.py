"""Records: what a producer sends, a segment file holds and a consumer reads, all the same bytes.

The life of a record. A producer collects records and packs them into a batch (`batch.encode_batch`, or for
many at once `columns.encode_columns`), compressed by one of four codecs (`compression`). The broker looks
at the 61 bytes of the header and at the checksum, sets offset and epoch in place (`batch.assign`) and
writes the rest to disk unread. A consumer gets the same bytes back, walks over the batches
(`batch.batches`) and takes them apart (`Batch.records`, or a whole fetch answer at once with `columns`).
Markers of transactions and other words of Kafka's own travel the same way as control batches (`control`).

    record.py       Record, and the plain loops that define encoding and decoding
    batch.py        Batch: a header and a view over bytes; parse, check, encode, patch in place
    compression.py  gzip, snappy, lz4 and zstd within a bound
    control.py      control batches: the ends of transactions
    columns.py      the same as record.py for hundreds of records at once, by numpy (vectors.py) where it is installed
    tables.py       with numpy: the batches of a whole answer as columns, and where each of their records lies
    varints.py      with numpy: many varints at once

Caveats:
    * Only format v2 is understood, as in Kafka 4; magic 0 and 1 raise `UnsupportedMagic`.
    * Nothing a batch claims is believed: whatever does not fit raises `CorruptRecords`, and decompression
      stops at `max_size_bytes`. The checksum, though, is only looked at by `check_crc`.
    * A header's name that is not UTF-8 is read with replacement characters, as Java does.
"""
