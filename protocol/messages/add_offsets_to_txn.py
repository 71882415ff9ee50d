"""AddOffsetsToTxn, API key 25: adds a group's offsets to a transaction (KIP-98).

Versions 0-4, flexible from 3 on (KIP-482).

- v2: PRODUCER_FENCED may be returned (KIP-588).
- v4: TRANSACTION_ABORTABLE may be returned (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import int16, int32, int64, string


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """A transaction and a group."""

    transactional_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: string = ""


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """An error code."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
