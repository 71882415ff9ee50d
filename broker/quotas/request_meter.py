"""`RequestMeter`: counts one request for the quotas, and computes how long its client is throttled.

Source: `KafkaApis.handleProduceRequest`, `handleFetchRequest`, `RequestHandlerHelper`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minikafka.broker.quotas.rate_quota import RateQuota
from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

__all__ = ["RequestMeter", "RequestQuotas"]

PERCENT_OF_A_SECOND = 100.0
INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RequestQuotas:
    """The quotas of requests.

    Attributes:
        produce: `producer_byte_rate`: the bytes of Produce requests.
        fetch: `consumer_byte_rate`: the bytes of the responses to Fetch.
        request: `request_percentage`: the time that requests take, in percent of one thread.
        clock: Seconds that only grow.
    """

    produce: RateQuota
    fetch: RateQuota
    request: RateQuota
    clock: Callable[[], float]


class RequestMeter:
    """Counts one request. The dispatcher calls `throttle` once, after the handler.

    The time in which the request waits is not counted: from each `waits` until `resumes`.
    """

    __slots__ = ("_client_id", "_is_counted", "_quotas", "_size_bytes", "_step_began_s", "_steps_s", "_user")

    def __init__(self, quotas: RequestQuotas, user: str, client_id: str, size_bytes: int, began_s: float) -> None:
        self._quotas = quotas
        self._user = user
        self._client_id = client_id
        self._size_bytes = size_bytes
        self._steps_s = 0.0
        self._step_began_s: float | None = began_s
        self._is_counted = False

    def waits(self) -> None:
        """The request has to wait: the time from now on is not counted."""
        self._steps_s = self._counted_s(self._quotas.clock())
        self._step_began_s = None

    def resumes(self) -> None:
        """The request goes on: the time counts again."""
        self._step_began_s = self._quotas.clock()

    def fetch_bytes_max(self) -> int:
        """The most bytes of records that the response to a consumer's Fetch may have."""
        return int(min(self._quotas.fetch.value_max(self._user, self._client_id), INT_MAX))

    def throttle_fetch(self, size_bytes: int) -> int:
        """Count a consumer's Fetch; returns the throttle time in milliseconds. Above 0 the response has to be empty.

        Args:
            size_bytes: The size of the response, without its header.
        """
        self._is_counted = True
        now_s = self._quotas.clock()
        request_ms = self._request_ms(now_s)
        bytes_ms = 0
        if self._quotas.fetch.limits.exist:
            bytes_ms = self._quotas.fetch.record(self._user, self._client_id, size_bytes, now_s * 1000)
            if bytes_ms or request_ms:
                self._quotas.fetch.correct(self._user, self._client_id, -size_bytes, now_s * 1000)
        return self._longer(request_ms, bytes_ms, self._quotas.fetch, now_s)

    def throttle(self, request: Any, response: Any, access: Access) -> int:
        """Count the request, unless it is counted already; returns the throttle time in milliseconds.

        Args:
            access: What the client may do: only nodes are not throttled for what nodes send.
            response: The response; None for a request without a response, which is throttled because of its bytes only.
        """
        if self._is_counted or _is_exempt(request, access):
            return 0
        now_s = self._quotas.clock()
        request_ms = 0 if response is None else self._request_ms(now_s)
        bytes_ms = 0
        if isinstance(request, ProduceRequest) and self._quotas.produce.limits.exist:
            bytes_ms = self._quotas.produce.record(self._user, self._client_id, self._size_bytes, now_s * 1000)
        return self._longer(request_ms, bytes_ms, self._quotas.produce, now_s)

    def _request_ms(self, now_s: float) -> int:
        if not self._quotas.request.limits.exist:
            return 0
        percent = self._counted_s(now_s) * PERCENT_OF_A_SECOND
        return self._quotas.request.record(self._user, self._client_id, percent, now_s * 1000)

    def _counted_s(self, now_s: float) -> float:
        return self._steps_s if self._step_began_s is None else self._steps_s + now_s - self._step_began_s

    def _longer(self, request_ms: int, bytes_ms: int, of_bytes: RateQuota, now_s: float) -> int:
        throttle_ms = max(request_ms, bytes_ms)
        if throttle_ms:
            quota = of_bytes if bytes_ms > request_ms else self._quotas.request
            quota.throttled(self._user, self._client_id, throttle_ms, now_s * 1000)
        return throttle_ms


def _is_exempt(request: Any, access: Access) -> bool:
    """Whether a node sends one of the requests that are not throttled between nodes.

    As in Kafka, a refused WriteTxnMarkers is throttled; unlike in Kafka, so is a refused Fetch that claims a replica.
    """
    if isinstance(request, FetchRequest):
        return max(request.replica_id, request.replica_state.replica_id) >= 0 and access.acts_as_node
    if not isinstance(request, WriteTxnMarkersRequest):
        return False
    alters = access.allows(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False)
    return alters or access.acts_as_node
