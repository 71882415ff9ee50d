"""The smallest and the largest quotas that are accepted: clients are throttled for a time that a response can carry."""

from __future__ import annotations

import math

import pytest

from minikafka.broker.quotas.client_quotas import ClientQuotas
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.controller.quotas.changes import quotas_now
from minikafka.controller.quotas.mutations import MutationQuotas
from minikafka.controller.quotas.rates import THROTTLE_MS_MAX, Samples
from minikafka.controller.security.access import UNRESTRICTED
from minikafka.protocol.errors import ThrottlingQuotaExceededError
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse

SAMPLES = Samples(3, 1000)
EXTREMES = (math.ulp(0.0), 1e-320, 1e-300, 1e-7, 1.0, 2.0**31 - 1, 2.0**63, 1e308, math.inf, math.nan)
"""AlterClientQuotas takes them, as Kafka does: what is nearly zero is no fraction for it."""


@pytest.mark.parametrize("value", EXTREMES)
def test_a_request_is_throttled_for_some_time(value: float) -> None:
    quotas = ClientQuotas(SAMPLES, lambda: 100.0)
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    list(quotas_now({(("user", None),): dict.fromkeys(keys, value)}, quotas.set))
    meter = quotas.meter("alice", "c", 1 << 30, 0.0)
    throttle_ms = meter.throttle(ProduceRequest(acks=1), ProduceResponse(), UNRESTRICTED)
    assert 0 <= throttle_ms <= THROTTLE_MS_MAX
    assert (throttle_ms == 0) == (not value < 2.0**30)
    fetch = quotas.meter("alice", "c", 100, 0.0)
    assert 0 <= fetch.fetch_bytes_max() < 1 << 31
    assert 0 <= fetch.throttle_fetch(1 << 30) <= THROTTLE_MS_MAX


@pytest.mark.parametrize("value", EXTREMES)
def test_a_connection_is_refused_for_a_sample_at_most(value: float) -> None:
    rates = ConnectionRates(SAMPLES, lambda: 100.0)
    list(quotas_now({(("ip", None),): {"connection_creation_rate": value}}, rates.set))
    refused = [rates.refused_for_s("10.0.0.1") for _ in range(3)]
    assert refused == ([1.0] * 3 if value < 0.1 else [0.0, 0.0, refused[2]])
    assert 0 <= refused[2] <= 1


@pytest.mark.parametrize("value", EXTREMES)
@pytest.mark.parametrize("version", [5, 7])
def test_a_change_of_topics_is_refused_or_throttled_for_some_time(value: float, version: int) -> None:
    quotas = MutationQuotas(SAMPLES)
    list(quotas_now({(("user", None),): {"controller_mutation_rate": value}}, quotas.set))
    for _ in range(3):
        quota = quotas.of(CreateTopicsRequest(), version, "alice", "c", 100_000)
        assert quota is not None
        try:
            quota.count(10)
        except ThrottlingQuotaExceededError:
            assert version >= 6
        assert 0 <= quota.left_ms(100_000) <= THROTTLE_MS_MAX
