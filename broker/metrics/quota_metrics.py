"""`quota_metrics`: what the clients with a quota use, and for how long they are throttled."""

from collections.abc import Callable, Iterator

from minikafka.broker.metrics.family import Collector, Family, Sample
from minikafka.broker.quotas.request_meter import RequestQuotas

__all__ = ["SHOWN_MAX", "quota_metrics"]

SHOWN_MAX = 100
"""The most users and client ids that are shown of each quota: those that used it last."""
LABELS = "user", "client_id"
RATES = {
    "produce": ("byte_rate", "Bytes a second of Produce requests of clients with a quota."),
    "fetch": ("byte_rate", "Bytes a second of responses to Fetch of clients with a quota."),
    "request": ("request_time", "Percent of a thread's time that requests of clients with a quota take."),
}


def quota_metrics(quotas: RequestQuotas, now_ms: Callable[[], float]) -> Collector:
    """Make the collector. A label is empty if all users or client ids share the quota."""

    def collect() -> Iterator[Family]:
        by_name = {"produce": quotas.produce, "fetch": quotas.fetch, "request": quotas.request}
        for name, quota in by_name.items():
            now = now_ms()
            rates: list[Sample] = []
            throttles: list[Sample] = []
            for sharers, usage in quota.latest(SHOWN_MAX, now):
                rates.append((sharers, usage.rate.measured(now)))
                throttles.append((sharers, usage.mean_throttle_ms(now)))
            measured, documentation = RATES[name]
            yield Family(f"kafka_server_{name}_{measured}", "gauge", documentation, rates, LABELS)
            described = "Mean of the latest throttle times of clients with a quota, in milliseconds."
            yield Family(f"kafka_server_{name}_throttle_time", "gauge", described, throttles, LABELS)

    return collect
