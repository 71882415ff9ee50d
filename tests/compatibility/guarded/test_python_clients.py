"""Clients in Python do their usual work by each login over SASL_SSL, and by a certificate, where ACLs allow it only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.clients import Client, Outgoing, closing, connect, eventually, read
from support.guarded_nodes import PAIRS, WAYS, GuardedNode
from support.oracle import KAFKA_ITSELF, needs_oracle
from support.token_server import CLIENT_ID, CLIENT_SECRET, token_server

pytestmark = pytest.mark.timeout(120)
VALUES = [b"%d" % number for number in range(20)]


@pytest.fixture
def client(client_name: str, guarded: GuardedNode, way: str) -> Iterator[Client]:
    with connect(client_name, guarded.address_of(way), **guarded.options_of(client_name, way)) as connected:
        yield connected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("node_kind", "client_name"), PAIRS)
def test_topics_records_groups_and_transactions(client: Client, own_name: str) -> None:
    client.create_topic(own_name, partitions=2)
    assert eventually(lambda: client.topics().get(own_name)) == 2
    records = [Outgoing(value, partition=0) for value in VALUES]
    assert client.produce(own_name, records, idempotent=True) == [(0, offset) for offset in range(len(VALUES))]
    client.transact(own_name, own_name, [([b"one", b"other"], True)])
    with closing(client.member(own_name, [own_name])) as member:
        received = [record.value for record in read(member, len(VALUES) + 2)]
        member.commit()
    assert sorted(value for value in received if value is not None) == sorted([*VALUES, b"one", b"other"])
    assert own_name in client.groups()
    client.delete_topic(own_name)


@pytest.mark.parametrize("node_kind", ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])])
def test_librdkafka_asks_a_provider_of_tokens(guarded: GuardedNode, own_name: str) -> None:
    given = guarded.options_of("confluent-kafka", "OAUTHBEARER")
    del given["oauth_cb"]
    with token_server(guarded.token) as tokens:
        given |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            "sasl.oauthbearer.token.endpoint.url": tokens.url,
        }
        with connect("confluent-kafka", guarded.address_of("OAUTHBEARER"), **given) as client:
            client.create_topic(own_name, partitions=1)
            assert client.produce(own_name, [Outgoing(b"x")]) == [(0, 0)]
    assert tokens.granted > 0
