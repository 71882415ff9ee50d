"""The addresses that clients are given of unfenced and fenced brokers."""

from support.images import applied, broker, cluster

from minikafka.broker.connections.listener_addresses import addresses
from minikafka.controller.metadata.records import BrokerRecord


def test_fenced_and_unfenced_brokers_are_separate() -> None:
    image = cluster(broker(1), broker(2, fenced=True, rack="r"), broker(3))
    assert [address.node_id for address in addresses(image, "PLAINTEXT", "here")] == [1, 3]
    (fenced,) = addresses(image, "PLAINTEXT", "here", fenced=True)
    assert (fenced.node_id, fenced.host, fenced.port, fenced.rack) == (2, "localhost", 9093, "r")


def test_clients_are_given_endpoints_of_their_own_listener() -> None:
    assert addresses(cluster(), "INTERNAL", "here") == []


def test_a_wildcard_address_becomes_the_host_that_the_client_connected_to() -> None:
    wildcard = BrokerRecord(1, 0, bytes(16), (("PLAINTEXT", "0.0.0.0", 1, "PLAINTEXT"),), None, fenced=False)
    (address,) = addresses(applied([wildcard]), "PLAINTEXT", "here")
    assert address.host == "here"
