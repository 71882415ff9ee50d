"""EndTxn, API key 26: commit or abort a transaction (KIP-98).

Versions 0-5, flexible from 3 on (KIP-482).

- v2: PRODUCER_FENCED may be answered (KIP-588).
- v4: TRANSACTION_ABORTABLE may be answered (KIP-890).
- v5: every transaction ends with a new epoch (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import int16, int32, int64, string


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """committed tells which."""

    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """From v5 on the id and epoch to go on with."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = field(default=-1, versions="5+", ignorable=True)
    producer_epoch: int16 = field(default=-1, versions="5+", ignorable=True)
