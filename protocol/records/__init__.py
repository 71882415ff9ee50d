"""Record batches (format v2): the same bytes from the producer to the segment file to the consumer.

A producer packs records into a batch (`batch.encode_batch`, or `column_codec.encode_columns` for many at once),
compressed by one of four codecs (`compression`). The broker reads the 61-byte header, verifies the checksum, sets
base offset and leader epoch in place (`batch.assign`) and writes the rest to disk unread. A consumer receives the same
bytes, iterates over the batches (`batch.batches`) and decodes their records (`Batch.records`, or
`column_codec.decode_columns` for a whole fetch response). Transaction markers and Kafka's other internal records are
control batches (`control`).

    record.py          `Record`; the reference encoder and decoder, plain loops
    batch.py           `Batch`: a header and a view over bytes; parse, verify, encode, patch in place
    large_batch.py     `LargeBatch`: cuts a batch of too many records into slices
    compression.py     gzip, snappy, lz4 and zstd, with bounded output
    control.py         control batches: transaction markers
    columns.py         `Columns`: the records of some batches as one list per field
    column_codec.py    encodes and decodes many records at once, with numpy if it is installed
    numpy_codec.py     the numpy implementation of column_codec.py
    batch_table.py     numpy: the headers of many batches as columns, and the position of each of their records
    numpy_scan.py      numpy: the checks of a produced batch
    numpy_varints.py   numpy: many varints at once

Caveats:
    * Only format v2 is supported, as in Kafka 4; magic 0 and 1 raise `UnsupportedMagic`.
    * No field of a batch is trusted: inconsistencies raise `CorruptRecords`, and decompression stops at
      `max_size_bytes`. The checksum is verified by `check_crc` only.
    * A header key that is not valid UTF-8 is decoded with replacement characters, as Java does.
"""
