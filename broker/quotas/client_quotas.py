"""`ClientQuotas`: the quotas of the requests of a node. Source: `QuotaFactory`, `ClientRequestQuotaManager`."""

from collections.abc import Callable

from minikafka.broker.quotas.rate_quota import RateQuota
from minikafka.broker.quotas.request_meter import RequestMeter, RequestQuotas
from minikafka.controller.metadata.image import Entity
from minikafka.controller.quotas.rates import Samples
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.apis import APIS

__all__ = ["ClientQuotas", "quota_samples"]

PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
EVERY_API = frozenset(key.to_bytes(2, "big") for key in APIS)


class ClientQuotas:
    """The quotas of the requests of a node.

    Args:
        samples: Over what time usage is measured.
        clock: Seconds that only grow.

    Attributes:
        of_requests: The quotas.
        counted: The keys, as in frames, of the APIs whose requests are counted.
    """

    def __init__(self, samples: Samples, clock: Callable[[], float]) -> None:
        self.of_requests = RequestQuotas(
            RateQuota("producer_byte_rate", samples),
            RateQuota("consumer_byte_rate", samples),
            RateQuota("request_percentage", samples, throttle_ms_max=samples.size_ms),
            clock,
        )
        self.counted: frozenset[bytes] = frozenset()

    def set(self, entity: Entity, key: str, value: float | None) -> None:
        """Take a quota of the metadata; None removes it. What was measured before stays measured."""
        of_requests = self.of_requests
        for quota in (of_requests.produce, of_requests.fetch, of_requests.request):
            quota.limits.set(entity, key, value)
        by_api = {PRODUCE: of_requests.produce, FETCH: of_requests.fetch}
        counted = frozenset(api for api, quota in by_api.items() if quota.limits.exist)
        self.counted = EVERY_API if of_requests.request.limits.exist else counted

    def meter(self, user: str, client_id: str, size_bytes: int, began_s: float) -> RequestMeter:
        """Return the meter of a request that is counted.

        Args:
            size_bytes: The size of the request.
            began_s: When the node began to answer it, on the clock.
        """
        return RequestMeter(self.of_requests, user, client_id, size_bytes, began_s)


def quota_samples(static: StaticSettings) -> Samples:
    """Return over what time a node measures its clients: `quota.window.num` and `quota.window.size.seconds`."""
    return Samples(static.number("quota.window.num"), static.number("quota.window.size.seconds") * 1000)
