"""Planted bugs in the steps in which large metadata records are encoded, decoded, applied and put into snapshots."""

from mutations import Mutation

_RECORDS = "tests/controller/active/test_many_records.py"

MUTATIONS = (
    Mutation(
        "the bytes of large records do not count where they are encoded",
        "controller/metadata/metadata_log.py",
        "        if pauses.is_due(items=record_weight(len(value))):\n            yield\n    return encode_batch",
        "        if pauses.is_due():\n            yield\n    return encode_batch",
        (f"{_RECORDS}::test_large_records_are_encoded_in_more_steps",),
    ),
    Mutation(
        "the records of a large decision are encoded in one step",
        "controller/metadata/metadata_log.py",
        "        if pauses.is_due(items=record_weight(len(value))):\n            yield\n    return encode_batch",
        "    return encode_batch",
        (f"{_RECORDS}::test_records_are_encoded_in_steps",),
    ),
    Mutation(
        "the bytes of large records do not count where they are decoded",
        "controller/metadata/metadata_log.py",
        "                if pauses.is_due(items=record_weight(len(value))):\n                    yield\n",
        "                if pauses.is_due():\n                    yield\n",
        (f"{_RECORDS}::test_large_records_are_decoded_in_more_steps",),
    ),
    Mutation(
        "the log records of a large decision are decoded in one step",
        "controller/metadata/metadata_log.py",
        "record_slices(batch, RECORDS_IN_A_STEP)",
        "[batch.records()]",
        (f"{_RECORDS}::test_the_end_of_a_decision_is_not_looked_at_in_the_first_step",),
    ),
    Mutation(
        "the bytes of large records do not count in a snapshot that is written",
        "controller/metadata/snapshot_encoding.py",
        "record_weight(len(encoded))",
        "1",
        (f"{_RECORDS}::test_large_records_of_a_snapshot_are_encoded_and_decoded_in_more_steps",),
    ),
    Mutation(
        "the bytes of large records do not count in a snapshot that is read",
        "controller/metadata/snapshot_encoding.py",
        "record_weight(length)",
        "1",
        (f"{_RECORDS}::test_large_records_of_a_snapshot_are_encoded_and_decoded_in_more_steps",),
    ),
    Mutation(
        "the bytes of a decision do not count before it is applied",
        "controller/quorum/metadata_applier.py",
        "record_weight(len(batch.data), len(records))",
        "len(records)",
        ("tests/controller/quorum/test_metadata_applier.py",),
    ),
)
