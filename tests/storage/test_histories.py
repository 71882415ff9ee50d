"""After a restart the batches of producers before their snapshot are read from the last part of the log."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from support.logs import PARTITION, append, make_batch, memory_disk, open_log, parse

from minikafka.protocol.errors import OutOfOrderSequenceNumberError
from minikafka.storage.logs import log_lookup
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.producer_state import BATCHES_KEPT, Duplicate, ProducerStates
from minikafka.storage.steps import at_once

PRODUCERS = 4
Sent = dict[int, list[tuple[int, int, int]]]
"""By producer: first sequence, number of records and base offset of each batch."""


def filled(random: Random, batches: int) -> tuple[Log, Sent]:
    """A log of several segments, restored from a snapshot at its end."""
    disk = memory_disk()
    log, sent, sequences = open_log(disk), defaultdict(list), defaultdict(int)
    for _ in range(batches):
        producer, count = random.randrange(PRODUCERS), random.choice((1, 1, 3))
        values = [bytes(random.randrange(300))] * count
        first = sequences[producer]
        appended = append(log, *values, producer_id=producer, producer_epoch=0, base_sequence=first)
        sent[producer].append((first, count, appended.first_offset))
        sequences[producer] += count
    log.producers.load_snapshot(log.producers.encode_snapshot(), log.end_offset, 0)
    return log, sent


def retried(log: Log, producer: int, first: int, count: int) -> Duplicate | None:
    batch = parse(make_batch([b""] * count, producer_id=producer, producer_epoch=0, base_sequence=first))
    try:
        return log.producers.check(batch)
    except OutOfOrderSequenceNumberError:
        return None


@pytest.mark.parametrize("window", [10_000, 60, 7, 1])
@pytest.mark.parametrize("block", [1, 500, 32 << 10])
@pytest.mark.parametrize("seed", range(4))
def test_the_last_batches_within_the_window_are_known(
    seed: int, block: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lookup, "_HISTORY_BATCHES", window)
    monkeypatch.setattr(log_lookup, "_BLOCK_SIZE", block)
    log, sent = filled(Random(seed), 150)
    assert len(log.segments) > 2
    order = sorted(base for batches in sent.values() for *_, base in batches)
    begin = order[max(0, len(order) - window)]
    for producer, batches in sent.items():
        for number, (first, count, base) in enumerate(reversed(batches)):
            is_known = number == 0 or (number < BATCHES_KEPT and base >= begin)
            found = retried(log, producer, first, count)
            assert (None if found is None else found.first_offset) == (base if is_known else None), (producer, number)


def test_the_log_is_read_once_and_as_it_was_at_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lookup, "_HISTORY_BATCHES", 40)
    log, sent = filled(Random(1), 100)
    reads, histories = list[int](), log.producers.histories
    assert histories is not None
    log.producers.histories = lambda offset: [reads.append(offset), histories(offset)][1]
    end_offset = log.end_offset
    for number in range(200):
        append(log, b"later", producer_id=99, producer_epoch=0, base_sequence=number)
    for producer, batches in sent.items():
        first, count, base = batches[-2]
        found = retried(log, producer, first, count)
        assert found is not None
        assert found.first_offset == base
    assert reads == [end_offset]


@pytest.mark.parametrize("seed", range(6))
def test_only_what_producers_may_still_retry_is_kept_in_memory(seed: int) -> None:
    log, sent = filled(Random(seed), 300)
    states, (asked, grown, *others) = log.producers, list(sent)
    for number in range(2):
        append(log, b"", producer_id=7, producer_epoch=0, base_sequence=number)
    first, count, _ = sent[grown][-1]
    for number in range(BATCHES_KEPT):
        append(log, b"", producer_id=grown, producer_epoch=0, base_sequence=first + count + number)
    append(log, b"", producer_id=others[0], producer_epoch=1, base_sequence=0)
    assert retried(log, asked, *sent[asked][-2][:2]) is not None
    assert states._restored is not None
    assert {key: len(batches) for key, batches in states._restored.items()} == {(others[1], 0): BATCHES_KEPT}
    first, count, _ = sent[others[1]][-1]
    for number in range(BATCHES_KEPT):
        append(log, b"", producer_id=others[1], producer_epoch=0, base_sequence=first + count + number)
    at_once(log.expire_producers())
    assert states._restored == {}


def test_states_without_a_log_know_what_the_snapshot_has() -> None:
    log, sent = filled(Random(2), 20)
    states = ProducerStates(PARTITION)
    states.load_snapshot(log.producers.encode_snapshot(), log.end_offset, 0)
    log.state.producers = states
    for producer, batches in sent.items():
        assert retried(log, producer, *batches[-1][:2]) is not None
        assert retried(log, producer, *batches[-2][:2]) is None
