"""DescribeLogDirs, API key 35: the contents of a broker's log directories (KIP-113).

Versions 1-5, flexible from 2 on (KIP-482).

- v3: error_code of the whole response.
- v4: total_bytes and usable_bytes (KIP-827).
- v5: is_cordoned (KIP-1066).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """Partitions; null selects all."""

    topics: list[DescribableLogDirTopic] | None


@struct
class DescribableLogDirTopic:
    topic: string = ""
    partitions: list[int32] = []


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """Replica sizes per directory and partition."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field(default=0, versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult] = []


@struct
class DescribeLogDirsResult:
    error_code: int16 = 0
    log_dir: string = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: int64 = field(default=-1, versions="4+", ignorable=True)
    usable_bytes: int64 = field(default=-1, versions="4+", ignorable=True)
    is_cordoned: bool = field(default=False, versions="5+", ignorable=True)


@struct
class DescribeLogDirsTopic:
    name: string = ""
    partitions: list[DescribeLogDirsPartition] = []


@struct
class DescribeLogDirsPartition:
    partition_index: int32 = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool = False
