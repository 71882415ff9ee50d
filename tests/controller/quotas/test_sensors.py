"""Sensors are bounded in number and size, and forgotten when nobody uses them."""

from __future__ import annotations

from minikafka.controller.quotas.sensors import NAME_LENGTH_MAX, UNUSED_MS_MAX, Sensors


def sharers_of(sensors: Sensors[list[int]]) -> list[tuple[str, str]]:
    return [sharers for sharers, _ in sensors.latest(100)]


def test_a_sensor_is_kept_while_it_is_used() -> None:
    sensors: Sensors[list[int]] = Sensors(list)
    first = sensors.sensor(("alice", ""), 0)
    assert sensors.sensor(("alice", ""), UNUSED_MS_MAX - 1) is first
    sensors.sensor(("bob", ""), UNUSED_MS_MAX)
    assert len(sensors) == 2
    sensors.forget_unused(2 * UNUSED_MS_MAX - 1)
    assert sharers_of(sensors) == [("bob", "")]


def test_the_one_that_was_not_used_for_the_longest_time_makes_room() -> None:
    sensors: Sensors[list[int]] = Sensors(list, count_max=2)
    for now_ms, name in enumerate(("a", "b", "a", "c")):
        sensors.sensor(("", name), now_ms)
    assert sharers_of(sensors) == [("", "c"), ("", "a")]


def test_long_names_are_kept_short_and_apart() -> None:
    sensors: Sensors[list[int]] = Sensors(list)
    long = "x" * 30_000
    assert sensors.sensor(("", long + "1"), 0) is not sensors.sensor(("", long + "2"), 0)
    assert sensors.sensor(("", long + "1"), 0) is sensors.sensor(("", long + "1"), 0)
    assert all(len(client_id) == NAME_LENGTH_MAX + 64 for _, client_id in sharers_of(sensors))


def test_only_the_latest_are_shown() -> None:
    sensors: Sensors[list[int]] = Sensors(list)
    for number in range(10):
        sensors.sensor(("", str(number)), number)
    assert [sharers for sharers, _ in sensors.latest(2)] == [("", "9"), ("", "8")]
