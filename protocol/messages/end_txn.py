"""EndTxn, API key 26: commits or aborts a transaction (KIP-98).

Versions 0-5, flexible from 3 on (KIP-482).

- v2: PRODUCER_FENCED may be returned (KIP-588).
- v4: TRANSACTION_ABORTABLE may be returned (KIP-890).
- v5: the producer epoch is raised with every transaction (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import int16, int32, int64, string


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """`committed`: whether to commit or to abort."""

    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """From v5 on, the producer id and epoch of the next transaction."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = field(default=-1, versions="5+", ignorable=True)
    producer_epoch: int16 = field(default=-1, versions="5+", ignorable=True)
