"""Rates of new connections, on a clock that the test sets."""

from __future__ import annotations

import pytest

from minikafka.broker.quotas.connection_rates import ConnectionRates, address_of
from minikafka.controller.quotas.rates import Samples


class World:
    def __init__(self, protected: str = "") -> None:
        self.now_s = 10.0
        self.rates = ConnectionRates(Samples(3, 1000), lambda: self.now_s, protected)

    def limit(self, name: str | None, rate: float | None) -> None:
        self.rates.set((("ip", name),), "connection_creation_rate", rate)

    def pauses(self, count: int, listener: str = "PLAINTEXT") -> list[float]:
        return [self.rates.pause_s(listener) for _ in range(count)]

    def refused(self, count: int, host: str = "10.0.0.1") -> list[float]:
        return [self.rates.refused_for_s(host) for _ in range(count)]


def test_without_limits_nothing_is_counted() -> None:
    world = World()
    assert world.pauses(100) == world.refused(100) == [0.0] * 100
    world.rates.set_limits(1, {})
    assert world.pauses(2) == [0.0, 0.0]


def test_a_listener_pauses_above_the_rate_of_the_node_for_a_sample_at_most() -> None:
    world = World()
    world.rates.set_limits(2, {})
    assert world.pauses(6) == [0.0, 0.0, 0.0, 0.0, 0.5, 1.0]
    assert world.pauses(3, "OTHER") == [1.0, 1.0, 1.0]
    world.now_s += 4
    assert world.pauses(1) == [0.0]


def test_a_listener_has_its_own_rate() -> None:
    world = World()
    world.rates.set_limits(None, {"external": 2})
    assert world.pauses(5, "EXTERNAL")[-1] == 0.5
    assert world.pauses(50) == [0.0] * 50


def test_the_rate_of_the_node_does_not_hold_for_the_brokers() -> None:
    world = World(protected="INTERNAL")
    world.rates.set_limits(2, {})
    assert world.pauses(50, "INTERNAL") == [0.0] * 50
    assert world.pauses(5)[-1] == 0.5


def test_no_rate_at_all_pauses_every_time() -> None:
    world = World()
    world.rates.set_limits(0, {})
    assert world.pauses(2) == [1.0, 1.0]


def test_an_address_is_refused_above_its_rate_and_what_is_refused_does_not_count() -> None:
    world = World()
    world.limit("10.0.0.1", 2)
    assert world.refused(7) == [0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5]
    assert world.refused(50, "10.0.0.2") == [0.0] * 50
    world.now_s += 3
    assert world.refused(1) == [0.0]
    world.limit("10.0.0.1", None)
    assert world.refused(50) == [0.0] * 50


def test_the_default_gives_each_address_its_own_rate() -> None:
    world = World()
    world.limit(None, 1)
    world.limit("10.0.0.2", 50)
    assert world.refused(3) == [0.0, 0.0, 1.0]
    assert world.refused(3, "10.0.0.3") == [0.0, 0.0, 1.0]
    assert world.refused(3, "10.0.0.2") == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("010.0.0.1", "10.0.0.1"),
        ("16909060", "1.2.3.4"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_an_address_may_be_written_as_in_java(name: str, address: str) -> None:
    assert address_of(name) == address
    world = World()
    world.limit(name, 1)
    assert world.refused(3, address)[-1] == 1.0


@pytest.mark.parametrize("quota", ["::1", "0:0:0:0:0:0:0:1"])
def test_an_address_of_ipv6_is_limited_however_it_is_written(quota: str) -> None:
    world = World()
    world.limit(quota, 1)
    assert world.refused(3, "0:0:0:0:0:0:0:1")[-1] == 1.0
    assert world.refused(3, "::1") == [1.0, 1.0, 1.0]
    assert world.refused(3, "0:0:0:0:0:0:0:2") == [0.0, 0.0, 0.0]


def test_an_address_of_ipv4_is_limited_also_where_it_comes_in_one_of_ipv6() -> None:
    world = World()
    world.limit("10.0.0.1", 1)
    assert world.refused(3, "::ffff:10.0.0.1")[-1] == 1.0
