"""Addresses of clients are those of Apache Kafka, which `kafka-consumer-groups --members` and ACLs show."""

from __future__ import annotations

import pytest

from minikafka.protocol.addresses import host_of, javas_address

KAFKAS = {
    ("127.0.0.1", 5): "127.0.0.1",
    ("::1", 5, 0, 0): "0:0:0:0:0:0:0:1",
    ("fd00::2", 5, 0, 0): "fd00:0:0:0:0:0:0:2",
    ("fe80::fc:ff:fe00:1", 5, 0, 4): "fe80:0:0:0:fc:ff:fe00:1%4",
    ("::ffff:10.0.0.1", 5, 0, 0): "10.0.0.1",
}
"""By what the socket says, how Apache Kafka 4.3.1 named a client at this address."""


@pytest.mark.parametrize("address", KAFKAS, ids=str)
def test_a_client_has_the_address_that_kafka_gives_it(address: tuple[object, ...]) -> None:
    assert host_of(address) == KAFKAS[address]


@pytest.mark.parametrize("text", ["::1", "0:0:0:0:0:0:0:1", "0000::0001", "0:0:0:0:0:0:0.0.0.1"])
def test_each_text_of_an_address_becomes_the_same_text(text: str) -> None:
    assert javas_address(text) == "0:0:0:0:0:0:0:1"


@pytest.mark.parametrize("text", ["", "*", "localhost", "10.0.0.1", "010.0.0.1", ":", "a:b", "[::1", "1:2:3"])
def test_what_is_no_address_of_ipv6_is_left_as_it_is(text: str) -> None:
    assert javas_address(text) == text
