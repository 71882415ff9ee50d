"""Connections of the connector log in again before their session ends, at minikafka as at Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from support.oracle import needs_oracle
from support.secured_nodes import SecuredNode, jaas_of_oauth, secured_kafka, secured_minikafka

from minikafka.protocol.messages.metadata import MetadataRequest
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import parse

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(params=["minikafka", pytest.param("kafka", marks=[pytest.mark.oracle, needs_oracle])])
def secured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredNode]:
    start = secured_minikafka if request.param == "minikafka" else secured_kafka
    with start(tmp_path / "secured") as node:
        yield node


def test_a_session_is_renewed_between_requests(secured: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsecured token sets the end of its session, even without connections.max.reauth.ms."""
    given = {
        "kafka.bootstrap.servers": secured.address("LOGIN"),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.jaas.config": jaas_of_oauth(),
        "subscribe": "x",
    }
    reader = OffsetReader(parse(given).kafka)
    reader.refresh(())
    (connection,) = reader._connections.values()
    assert connection._renew_at < sockets.now_s() + 3_600
    sent: list[str] = []
    send = connection.send
    monkeypatch.setattr(
        connection, "send", lambda message, **more: (sent.append(type(message).__name__), send(message, **more))
    )
    now_s = sockets.now_s()
    monkeypatch.setattr(sockets, "now_s", lambda: now_s + 3_599)
    connection.request(MetadataRequest(topics=[]))
    assert sent == ["MetadataRequest", "SaslHandshakeRequest", "SaslAuthenticateRequest"]
    sent.clear()
    connection.request(MetadataRequest(topics=[]))
    assert sent == ["MetadataRequest"]
    reader.close()
