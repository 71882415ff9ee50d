"""The rate at which clients change the cluster, on a clock that the test passes in."""

from __future__ import annotations

import pytest

from minikafka.controller.quotas.mutations import MutationQuota, MutationQuotas
from minikafka.controller.quotas.rates import Samples
from minikafka.protocol.errors import ThrottlingQuotaExceededError
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest


def quotas(**rates: float) -> MutationQuotas:
    """Of these client ids, with three samples of a second."""
    made = MutationQuotas(Samples(3, 1000))
    for name, rate in rates.items():
        made.set((("client-id", name),), "controller_mutation_rate", rate)
    return made


def of(made: MutationQuotas, now_ms: float, version: int = 6, client_id: str = "c1") -> MutationQuota:
    found = made.of(CreateTopicsRequest(), version, "ANONYMOUS", client_id, now_ms)
    assert found is not None
    return found


def test_the_first_passes_whatever_its_size_and_the_next_is_refused() -> None:
    made = quotas(c1=1)
    first = of(made, 0)
    first.count(10)
    assert first.throttle_ms == 0
    second = of(made, 100)
    for _ in range(2):
        with pytest.raises(ThrottlingQuotaExceededError):
            second.count(1)
    assert second.throttle_ms == 6900
    of(made, 7000).count(1)


def test_a_request_is_refused_once_its_tokens_are_gone() -> None:
    quota = of(quotas(c1=1), 0)
    quota.count(2)
    quota.count(2)
    with pytest.raises(ThrottlingQuotaExceededError):
        quota.count(2)
    assert quota.throttle_ms == 1000


@pytest.mark.parametrize(
    ("request_type", "strict_since"),
    [(CreateTopicsRequest, 6), (DeleteTopicsRequest, 5), (CreatePartitionsRequest, 3)],
)
def test_a_version_that_does_not_know_the_error_is_throttled_afterwards(request_type: type, strict_since: int) -> None:
    made = quotas(c1=1)
    for number, throttle_ms in enumerate((2000, 7000)):
        quota = made.of(request_type(), strict_since - 1, "ANONYMOUS", "c1", 0)
        assert quota is not None
        quota.count(5)
        assert quota.throttle_ms == throttle_ms, number
    quota = made.of(request_type(), strict_since, "ANONYMOUS", "c1", 0)
    assert quota is not None
    with pytest.raises(ThrottlingQuotaExceededError):
        quota.count(5)


def test_a_client_without_quota_is_not_limited() -> None:
    made = quotas(c1=1)
    free = of(made, 0, client_id="free")
    free.count(100_000)
    free.count(100_000)
    assert free.throttle_ms == 0


def test_a_quota_of_a_user_holds_for_this_user_whatever_its_client_id() -> None:
    made = quotas()
    made.set((("user", "alice"),), "controller_mutation_rate", 1)
    for number, (user, client_id) in enumerate([("alice", "c1"), ("bob", "c1"), ("alice", "c2"), ("bob", "c2")]):
        quota = made.of(CreateTopicsRequest(), 5, user, client_id, 0)
        assert quota is not None
        quota.count(5)
        assert bool(quota.throttle_ms) is (user == "alice"), number


def test_only_requests_that_create_or_delete_partitions_are_counted() -> None:
    assert quotas(c1=1).of(AlterConfigsRequest(), 2, "ANONYMOUS", "c1", 0) is None
    assert quotas().of(CreateTopicsRequest(), 6, "ANONYMOUS", "c1", 0) is None
