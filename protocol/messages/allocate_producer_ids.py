"""AllocateProducerIds, API key 67: allocates a block of producer ids to a broker (KIP-730).

Version 0, flexible (KIP-482). Used between nodes only; not advertised to clients."""

from __future__ import annotations

from minikafka.protocol.message import message
from minikafka.protocol.types import int16, int32, int64


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """The requesting broker."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """The first id and the size of the block."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0
