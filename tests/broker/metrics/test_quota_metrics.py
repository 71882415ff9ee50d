"""The metrics of quotas: of clients that have one, the latest only."""

from __future__ import annotations

from minikafka.broker.metrics.quota_metrics import SHOWN_MAX, quota_metrics
from minikafka.broker.quotas.client_quotas import ClientQuotas
from minikafka.controller.quotas.rates import Samples
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse


def samples_of(quotas: ClientQuotas) -> dict[str, dict[tuple[str, ...], float]]:
    collect = quota_metrics(quotas.of_requests, lambda: 0.0)
    return {family.name: dict(family.samples) for family in collect() if family is not None}


def produce(quotas: ClientQuotas, client_id: str, size_bytes: int) -> None:
    quotas.meter("ANONYMOUS", client_id, size_bytes, 0.0).throttle(
        ProduceRequest(acks=1), ProduceResponse(), UNRESTRICTED
    )


def test_clients_with_a_quota_are_shown() -> None:
    quotas = ClientQuotas(Samples(3, 1000), lambda: 0.0)
    quotas.set((("client-id", "c1"),), "producer_byte_rate", 100_000)
    produce(quotas, "c1", 900_000)
    produce(quotas, "free", 900_000)
    found = samples_of(quotas)
    assert found["kafka_server_produce_byte_rate"] == {("", "c1"): 450_000}
    assert found["kafka_server_produce_throttle_time"] == {("", "c1"): 7000}
    assert found["kafka_server_fetch_byte_rate"] == found["kafka_server_request_request_time"] == {}


def test_only_the_latest_are_shown() -> None:
    quotas = ClientQuotas(Samples(3, 1000), lambda: 0.0)
    quotas.set((("client-id", None),), "producer_byte_rate", 100_000)
    for number in range(SHOWN_MAX + 50):
        produce(quotas, str(number), 100)
    shown = samples_of(quotas)["kafka_server_produce_byte_rate"]
    assert len(shown) == SHOWN_MAX
    assert ("", str(SHOWN_MAX + 49)) in shown
