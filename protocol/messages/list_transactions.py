"""ListTransactions, API key 66: lists the transactions of a coordinator (KIP-664).

Versions 0-2, all flexible (KIP-482).

- v1: duration_filter (KIP-994).
- v2: transactional_id_pattern (KIP-1152).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """Filters; empty selects all."""

    state_filters: list[string] = []
    producer_id_filters: list[int64] = []
    duration_filter: int64 = field(default=-1, versions="1+")
    transactional_id_pattern: string | None = field(default=None, versions="2+")


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """A row per transaction."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string] = []
    transaction_states: list[TransactionState] = []


@struct
class TransactionState:
    transactional_id: string = ""
    producer_id: int64 = 0
    transaction_state: string = ""
