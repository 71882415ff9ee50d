"""InitProducerId, API key 22: allocates an id and epoch to an idempotent or transactional producer (KIP-98).

Versions 0-6, flexible from 2 on (KIP-482).

- v3: producer_id and producer_epoch, to request a new epoch (KIP-360).
- v4: PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH (KIP-588).
- v5: TRANSACTION_ABORTABLE may be returned (KIP-890).
- v6: two-phase commit (KIP-939); unstable in 4.3, advertised only with `unstable.api.versions.enable`.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import int16, int32, int64, string


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """A transactional id, or null for idempotence only."""

    transactional_id: string | None
    transaction_timeout_ms: int32 = 0
    producer_id: int64 = field(default=-1, versions="3+")
    producer_epoch: int16 = field(default=-1, versions="3+")
    enable2_pc: bool = field(default=False, versions="6+")
    keep_prepared_txn: bool = field(default=False, versions="6+")


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer id and epoch of all following batches."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: int64 = field(default=-1, versions="6+")
    ongoing_txn_producer_epoch: int16 = field(default=-1, versions="6+")
