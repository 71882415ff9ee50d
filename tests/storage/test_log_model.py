"""A log agrees with a list after any sequence of appends, rolls, truncations, deletions and restarts."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.logs import Clock, append, append_bytes, check_indexes, make_batch, memory_disk, open_log, read_all

from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_results import OffsetOutOfRange
from minikafka.storage.steps import at_once


class LogMachine(RuleBasedStateMachine):
    """The model is `rows`: (offset, timestamp, value) of every record, `start` and `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = memory_disk()
        self.clock = Clock()
        self.rows: list[tuple[int, int, bytes]] = []
        self.firsts: list[int] = [0]
        self.start = self.end = self.number = self.epoch = 0
        self.point = 0

    @initialize(interval=st.sampled_from([0, 100, 1000]), index=st.sampled_from([24, 120, 1200]))
    def begin(self, interval: int, index: int) -> None:
        self.config = LogConfig(
            segment_bytes=2048, index_interval_bytes=interval, segment_index_bytes=index, segment_ms=5000
        )
        self.log = self.open(clean=False)

    def open(self, *, clean: bool) -> Log:
        return open_log(
            self.disk,
            config=self.config,
            clean=clean,
            now_ms=self.clock,
            recovery_point=self.point,
            start_offset=self.start,
        )

    @rule(count=st.integers(1, 4), size=st.integers(0, 300), later_ms=st.integers(-3000, 6000))
    def append(self, count: int, size: int, later_ms: int) -> None:
        timestamp = self.clock.ms + later_ms
        values = [b"%d/" % (self.number + index) + bytes(size) for index in range(count)]
        appended = append(self.log, *values, timestamp=timestamp, leader_epoch=self.epoch)
        assert (appended.first_offset, appended.last_offset) == (self.end, self.end + count - 1)
        self.firsts.append(self.end)
        self.number += count
        self.rows += [(self.end + index, timestamp + index, value) for index, value in enumerate(values)]
        self.end += count

    @rule(counts=st.lists(st.integers(1, 3), min_size=2, max_size=4))
    def append_several_batches_as_a_follower(self, counts: list[int]) -> None:
        data = bytearray()
        for count in counts:
            values = [b"r%d" % (self.number + index) * 20 for index in range(count)]
            data += make_batch(values, timestamp=self.clock.ms, base_offset=self.end, leader_epoch=self.epoch)
            self.firsts.append(self.end)
            self.rows += [(self.end + index, self.clock.ms + index, value) for index, value in enumerate(values)]
            self.end += count
            self.number += count
        append_bytes(self.log, data, assign_offsets=False)

    @rule(ms=st.integers(1, 4000))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([one for one in self.firsts if one <= self.end]))
        if offset < self.start:
            return
        self.log.truncate_to(offset)
        self.cut(offset)

    def cut(self, offset: int) -> None:
        self.rows = [row for row in self.rows if row[0] < offset]
        self.firsts = [one for one in self.firsts if one < offset] or [offset]
        self.end = min(self.end, offset)
        self.point = min(self.point, self.log.recovery_point)

    @rule(jump=st.integers(-20, 20))
    def start_anew(self, jump: int) -> None:
        offset = max(0, self.end + jump)
        self.log.truncate_fully_and_start_at(offset)
        self.rows, self.firsts = [], [offset]
        self.start = self.end = offset
        self.point = self.log.recovery_point
        assert self.point <= offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.advance_start_offset(offset)
        self.drop_before(offset)

    @rule(data=st.data(), keep_bytes=st.integers(0, 6000), keep_ms=st.integers(0, 20_000))
    def retention(self, data: st.DataObject, keep_bytes: int, keep_ms: int) -> None:
        watermark = data.draw(st.integers(self.start, self.end))
        self.log.update_config(
            LogConfig(
                segment_bytes=self.config.segment_bytes,
                index_interval_bytes=self.config.index_interval_bytes,
                segment_index_bytes=self.config.segment_index_bytes,
                segment_ms=self.config.segment_ms,
                retention_bytes=keep_bytes,
                retention_ms=keep_ms,
            )
        )
        self.log.delete_old_segments(watermark)
        assert self.log.start_offset <= watermark
        kept = [row for row in self.rows if row[0] >= watermark]
        self.drop_before(self.log.start_offset)
        assert kept == [row for row in self.rows if row[0] >= watermark]
        self.log.update_config(self.config)

    def drop_before(self, offset: int) -> None:
        self.start = offset
        self.rows = [row for row in self.rows if row[0] >= offset]

    @rule(clean=st.booleans(), flushed=st.booleans())
    def restart(self, clean: bool, flushed: bool) -> None:
        if flushed:
            self.log.flush()
        self.log.close(clean=clean)
        self.point = self.log.recovery_point
        self.log = self.open(clean=clean)
        assert self.log.report.clean is clean
        assert not self.log.report.damage

    @invariant()
    def the_log_is_the_list(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
        assert read_all(self.log) == [(offset, value) for offset, _, value in self.rows]
        assert self.log.size_bytes == sum(
            self.log.segments[index].log.size_bytes for index in range(len(self.log.segments))
        )

    @invariant()
    def indexes_and_lookups_agree_with_a_scan(self) -> None:
        check_indexes(self.log)
        for timestamp in {row[1] + step for row in self.rows[:: max(1, len(self.rows) // 4)] for step in (0, 1)}:
            expected = next((row[1::-1] for row in self.rows if row[1] >= timestamp), None)
            found = at_once(self.log.offset_for_timestamp(timestamp))
            assert (found and found[:2]) == expected

    @invariant()
    def outside_is_out_of_range(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange) as caught:
                self.log.read(offset, max_bytes=100)
            assert (caught.value.start_offset, caught.value.end_offset) == (self.start, self.end)
        assert self.log.read(self.end, max_bytes=100) is None

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), max_bytes=st.integers(1, 5000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.sampled_from([one for one in self.firsts if one <= self.end] + [self.end]))
        part = self.log.read(offset, max_bytes=max_bytes, limit_offset=limit, min_one_batch=at_least_one)
        if part is None:
            return
        found = read_all(self.log, offset)
        assert offset < limit
        assert len(part) <= max_bytes or at_least_one
        assert len(part.read()) == len(part)
        assert found[0][0] == offset


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)
