"""Which addresses clients are told, of brokers that live and of those that are fenced."""

from support.images import applied, broker, cluster

from minikafka.broker.connections.listener_addresses import addresses
from minikafka.controller.metadata.records import BrokerRecord


def test_fenced_brokers_are_told_apart_from_those_that_live() -> None:
    image = cluster(broker(1), broker(2, fenced=True, rack="r"), broker(3))
    assert [address.node_id for address in addresses(image, "PLAINTEXT", "here")] == [1, 3]
    (fenced,) = addresses(image, "PLAINTEXT", "here", fenced=True)
    assert (fenced.node_id, fenced.host, fenced.port, fenced.rack) == (2, "localhost", 9093, "r")


def test_only_endpoints_of_the_clients_own_listener_are_told() -> None:
    assert addresses(cluster(), "INTERNAL", "here") == []


def test_a_node_that_listens_everywhere_is_where_the_client_found_this_one() -> None:
    everywhere = BrokerRecord(1, 0, bytes(16), (("PLAINTEXT", "0.0.0.0", 1, "PLAINTEXT"),), None, fenced=False)
    (address,) = addresses(applied([everywhere]), "PLAINTEXT", "here")
    assert address.host == "here"
