"""WriteTxnMarkers, API key 27: a transaction coordinator writes transaction markers to partitions (KIP-98).

Versions 1-2, flexible from 1 on (KIP-482).

- v2: transaction_version (KIP-1228).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, int64, string


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    """A marker per producer, with the partitions to write it to."""

    markers: list[WritableTxnMarker] = []


@struct
class WritableTxnMarker:
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: int32 = 0
    transaction_version: int8 = field(default=0, versions="2+", ignorable=True)


@struct
class WritableTxnMarkerTopic:
    name: string = ""
    partition_indexes: list[int32] = []


@message(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    """An error code per partition."""

    markers: list[WritableTxnMarkerResult] = []


@struct
class WritableTxnMarkerResult:
    producer_id: int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = []


@struct
class WritableTxnMarkerTopicResult:
    name: string = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: int32 = 0
    error_code: int16 = 0
