"""A compacted log agrees with a dictionary, whatever is appended, cleaned, truncated, restarted, or lost in a crash."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.compaction import COMPACTED, Cleaned, Row
from support.logs import Clock, append_marker, check_indexes, memory_disk, read_batches

from minikafka.protocol.records.compression import Codec
from minikafka.protocol.records.control import ControlType
from minikafka.storage.compaction.numpy_offset_map import ENTRY_SIZE_BYTES
from minikafka.storage.disks.memory_disk import PowerLoss
from minikafka.storage.steps import at_once

KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"a longer key", b""])
VALUES = st.one_of(st.none(), st.binary(max_size=200))
PLAIN, IDEMPOTENT, TRANSACTIONAL = (-1, 7, (20, 21))


class CompactedLogMachine(RuleBasedStateMachine):
    """The model is `rows`, every data record that was appended and not truncated; `aborted` has offsets of some."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.rows: list[Row] = []
        self.aborted: set[int] = set()
        self.open: dict[int, list[int]] = {}
        self.sequences: dict[int, int] = {}

    @initialize(
        interval=st.sampled_from([0, 200]), segment=st.sampled_from([400, 2048]), keys=st.sampled_from([2, 5, 1000]),
        chunk=st.sampled_from([1, 1 << 17]), retention_ms=st.sampled_from([0, 1000, 1 << 62]),
    )  # fmt: skip
    def begin(self, interval: int, segment: int, keys: int, chunk: int, retention_ms: int) -> None:
        config = replace(
            COMPACTED, index_interval_bytes=interval, segment_bytes=segment, delete_retention_ms=retention_ms
        )
        self.cleaned = Cleaned(memory_disk(), clock=self.clock, config=config)
        self.cleaned.settings = replace(
            self.cleaned.settings, map_size_bytes=ENTRY_SIZE_BYTES * keys, load_factor=1.0, buffer_size_bytes=chunk
        )
        self.retention_ms = retention_ms

    @property
    def end(self) -> int:
        return self.cleaned.log.end_offset

    @rule(
        pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), codec=st.sampled_from(list(Codec)),
        producer_id=st.sampled_from([PLAIN, IDEMPOTENT, *TRANSACTIONAL]),
    )  # fmt: skip
    def put(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer_id: int) -> None:
        sequence = self.sequences.get(producer_id, 0) if producer_id >= 0 else -1
        transactional = producer_id in TRANSACTIONAL
        first = self.cleaned.put(
            *pairs, codec=codec, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(pairs)
        if transactional:
            self.open.setdefault(producer_id, []).extend(range(first, first + len(pairs)))
        for number, (key, value) in enumerate(pairs):
            self.rows.append(Row(first + number, self.clock.ms, key, value, producer_id))

    @precondition(lambda self: bool(self.open))
    @rule(abort=st.booleans(), number=st.integers(0, 1))
    def end_transaction(self, abort: bool, number: int) -> None:
        producer_id = sorted(self.open)[number % len(self.open)]
        kind = ControlType.ABORT if abort else ControlType.COMMIT
        append_marker(self.cleaned.log, kind, producer_id=producer_id)
        self.cleaned.log.high_watermark_advanced(self.end)
        offsets = self.open.pop(producer_id)
        if abort:
            self.aborted.update(offsets)

    @rule(ms=st.integers(1, 2000))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms

    @rule()
    def roll(self) -> None:
        self.cleaned.log.roll()

    @rule()
    def clean(self) -> None:
        self.cleaned.roll_and_clean()

    @rule()
    def delete_old_files(self) -> None:
        self.clock.ms += 60_000
        at_once(self.cleaned.manager.upkeep.run_retention(lambda key: self.end))

    @precondition(lambda self: not self.open)
    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        end = self.end
        self.cleaned.restart(clean=clean)
        self.cleaned.log.high_watermark_advanced(self.end)
        assert self.end == end
        assert self.cleaned.log.report.damage == ""

    @precondition(lambda self: not self.open)
    @rule(operations=st.integers(0, 60))
    def power_failure_during_a_cleaning(self, operations: int) -> None:
        """Everything is flushed before, so that nothing may be lost."""
        cleaned = self.cleaned
        end = self.end
        cleaned.log.roll()
        cleaned.log.flush()
        cleaned.manager.upkeep.write_checkpoints()
        cleaned.disk.lose_power_after(operations)
        with suppress(PowerLoss):
            cleaned.clean()
        cleaned.disk.crash()
        cleaned.open()
        cleaned.log.high_watermark_advanced(self.end)
        assert self.end == end
        assert cleaned.log.report.damage == ""

    @precondition(lambda self: not self.open)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.cleaned.log.start_offset, self.end))
        self.cleaned.log.advance_start_offset(offset)
        self.cleaned.manager.upkeep.write_checkpoints()
        self.rows = [row for row in self.rows if row.offset >= offset]

    @invariant()
    def every_record_is_one_that_was_appended(self) -> None:
        if hasattr(self, "cleaned"):
            found = self.cleaned.rows()
            assert found == sorted(set(found))
            assert set(found) <= set(self.rows)

    @invariant()
    def the_latest_values_are_left(self) -> None:
        if hasattr(self, "cleaned"):
            assert table_of(self.committed(self.cleaned.rows())) == table_of(self.committed(self.rows))

    def committed(self, rows: list[Row]) -> list[Row]:
        pending = {offset for offsets in self.open.values() for offset in offsets}
        return [row for row in rows if row.offset not in self.aborted and row.offset not in pending]

    @invariant()
    def aborted_records_that_are_left_are_in_the_index(self) -> None:
        """As a consumer with read_committed sees it (KIP-98)."""
        if not hasattr(self, "cleaned"):
            return
        log = self.cleaned.log
        expected = sorted(log.aborted_transactions(log.start_offset, self.end), key=lambda one: one[1])
        aborting: set[int] = set()
        for batch in read_batches(log):
            while expected and expected[0][1] <= batch.last_offset:
                aborting.add(expected.pop(0)[0])
            if batch.is_control:
                aborting.discard(batch.producer_id)
                continue
            is_aborted = batch.is_transactional and batch.producer_id in aborting
            for record in batch.records():
                assert is_aborted == (record.offset in self.aborted)

    @invariant()
    def producers_are_known(self) -> None:
        if hasattr(self, "cleaned"):
            for producer_id, sequence in self.sequences.items():
                producer = self.cleaned.log.producers.get(producer_id)
                if producer is not None and producer.last_sequence >= 0:
                    assert producer.last_sequence == sequence - 1

    @invariant()
    def indexes_are_right(self) -> None:
        if hasattr(self, "cleaned"):
            check_indexes(self.cleaned.log)

    @invariant()
    def every_offset_can_be_read(self) -> None:
        if hasattr(self, "cleaned") and self.end > self.cleaned.log.start_offset:
            log = self.cleaned.log
            last = None
            for offset in range(self.end - 1, log.start_offset - 1, -1):
                found = next(iter(read_batches(log, offset, max_bytes=1)), None)
                assert found is not None
                assert found.last_offset >= offset
                assert last is None or found.base_offset <= last.base_offset
                last = found

    def teardown(self) -> None:
        if hasattr(self, "cleaned"):
            self.after_all_retention()

    def after_all_retention(self) -> None:
        """When time has passed, and nothing is open, only the latest values are left below the clean offset."""
        for producer_id in list(self.open):
            append_marker(self.cleaned.log, ControlType.COMMIT, producer_id=producer_id)
            self.open.pop(producer_id)
        self.cleaned.log.high_watermark_advanced(self.end)
        for _ in range(3):
            self.clock.ms += 100_000
            self.cleaned.put((b"last", b""))
            self.rows.append(Row(self.end - 1, self.clock.ms, b"last", b""))
            self.cleaned.roll_and_clean()
        latest = {row.key: row for row in self.committed(self.rows)}
        left = [row for row in latest.values() if row.value is not None]
        found = [row for row in self.cleaned.rows() if row.value is not None or self.retention_ms < 1 << 60]
        assert found == sorted(left)
        self.restart(clean=False)
        assert [row for row in self.cleaned.rows() if row.value is not None] == sorted(left)


def table_of(rows: list[Row]) -> dict[bytes | None, bytes]:
    latest = {row.key: row.value for row in rows}
    return {key: value for key, value in latest.items() if value is not None}


TestCompactedLog = CompactedLogMachine.TestCase
TestCompactedLog.settings = settings(max_examples=30, stateful_step_count=40, deadline=None, derandomize=True)
