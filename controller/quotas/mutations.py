"""`MutationQuotas`: how many partitions clients may create and delete a second (`controller_mutation_rate`, KIP-599).

The active controller counts each topic that it would create, extend or delete, also in a dry run. A request of a
version that knows THROTTLING_QUOTA_EXCEEDED is refused, topic by topic, while its client's tokens are below zero: so
the first topic passes whatever its size. An older request is carried out, and its client throttled afterwards.

Source: `ControllerMutationQuotaManager`, `StrictControllerMutationQuota`, `PermissiveControllerMutationQuota`.
"""

from minikafka.controller.metadata.image import Entity
from minikafka.controller.quotas.limits import ClientLimits
from minikafka.controller.quotas.rates import Samples, TokenBucket
from minikafka.controller.quotas.sensors import Sensors
from minikafka.protocol.errors import ThrottlingQuotaExceededError
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest

__all__ = ["MutationQuota", "MutationQuotas"]

STRICT_SINCE: dict[type, int] = {CreateTopicsRequest: 6, DeleteTopicsRequest: 5, CreatePartitionsRequest: 3}
"""The first version of each request that is refused."""
UNLIMITED = float((1 << 63) - 1)
"""The rate of a client without a quota, as in Kafka: its tokens are refilled at once."""


class MutationQuota:
    """What one request may create and delete.

    Args:
        is_strict: Whether the request is refused, and not only throttled afterwards.
        now_ms: When the request is decided.
    """

    __slots__ = ("_bucket", "_is_strict", "_limit", "_now_ms", "throttle_ms")

    def __init__(self, bucket: TokenBucket, limit: float, *, is_strict: bool, now_ms: float) -> None:
        self.throttle_ms = 0
        self._bucket = bucket
        self._limit = limit
        self._is_strict = is_strict
        self._now_ms = now_ms

    def left_ms(self, now_ms: float) -> int:
        """Return for how many milliseconds from now the client is to be throttled."""
        return max(0, round(self.throttle_ms - (now_ms - self._now_ms)))

    def count(self, partitions: int) -> None:
        """Count partitions that are created or deleted.

        Raises:
            ThrottlingQuotaExceededError: The client has created or deleted too many; these are not counted.
        """
        if self._is_strict and (exceeded_ms := self._bucket.below_for_ms(self._limit, self._now_ms)):
            self.throttle_ms = exceeded_ms
            raise ThrottlingQuotaExceededError
        self._bucket.take(partitions, self._limit, self._now_ms)
        if not self._is_strict:
            self.throttle_ms = self._bucket.below_for_ms(self._limit, self._now_ms)


class MutationQuotas:
    """The quotas of all clients, and what they have used. They are the active controller's, and end with its term.

    Args:
        samples: `controller.quota.window.num` and `controller.quota.window.size.seconds`.
    """

    def __init__(self, samples: Samples) -> None:
        self._limits = ClientLimits("controller_mutation_rate")
        self._buckets: Sensors[TokenBucket] = Sensors(lambda: TokenBucket(samples))

    def set(self, entity: Entity, key: str, value: float | None) -> None:
        """Take a quota of the metadata; None removes it."""
        self._limits.set(entity, key, value)

    def of(self, request: object, version: int, user: str, client_id: str, now_ms: float) -> MutationQuota | None:
        """Return what a request may create and delete; None if nothing limits it."""
        strict_since = STRICT_SINCE.get(type(request))
        if strict_since is None or not self._limits.exist:
            return None
        sharers = self._limits.sharers(user, client_id)
        limit = self._limits.limit(sharers)
        bucket = self._buckets.sensor(sharers, now_ms)
        is_strict = version >= strict_since
        return MutationQuota(bucket, UNLIMITED if limit is None else limit, is_strict=is_strict, now_ms=now_ms)
