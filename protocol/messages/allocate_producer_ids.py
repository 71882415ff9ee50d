"""AllocateProducerIds, API key 67: a broker gets the next block of producer ids (KIP-730).

Version 0, flexible (KIP-482). Spoken among nodes alone: no client is offered it."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import int16, int32, int64


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """The broker that asks."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """The first id of the block, and how many there are."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0
