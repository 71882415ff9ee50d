"""When a metadata snapshot is due: after enough bytes, and after as many again when an attempt failed."""

from minikafka.controller.metadata.snapshot_schedule import SnapshotSchedule


def test_a_snapshot_is_due_after_the_configured_number_of_bytes() -> None:
    schedule = SnapshotSchedule(100)
    assert [schedule.is_due(size) for size in (0, 99, 100, 1000)] == [False, False, True, True]


def test_after_a_failure_the_next_attempt_waits_for_as_many_bytes_again() -> None:
    schedule = SnapshotSchedule(100)
    schedule.failed(120)
    assert [schedule.is_due(size) for size in (120, 219, 220)] == [False, False, True]


def test_a_written_snapshot_ends_the_delay() -> None:
    schedule = SnapshotSchedule(100)
    schedule.failed(120)
    schedule.written()
    assert [schedule.is_due(size) for size in (99, 100)] == [False, True]
