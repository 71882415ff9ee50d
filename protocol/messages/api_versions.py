"""ApiVersions, API key 18: the APIs, versions and features of a node.

Versions 0-5, flexible from 3 on (KIP-482).

- v3: the client's software name and version (KIP-511); features (KIP-584).
- v4: the minimum version of a feature may be 0 (KIP-584).
- v5: the cluster id and node id that the client expects.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """A request with an unknown version is answered in v0 with UNSUPPORTED_VERSION."""

    client_software_name: string = field(default="", versions="3+", ignorable=True)
    client_software_version: string = field(default="", versions="3+", ignorable=True)
    cluster_id: string | None = field(default=None, versions="5+", ignorable=True)
    node_id: int32 = field(default=-1, versions="5+", ignorable=True)


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """The versions of each API. The response header is v0 in every version, as the client knows no versions yet."""

    error_code: int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field(default=[], versions="3+", tag=0, ignorable=True)
    finalized_features_epoch: int64 = field(default=-1, versions="3+", tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field(default=[], versions="3+", tag=2, ignorable=True)
    zk_migration_ready: bool = field(default=False, versions="3+", tag=3, ignorable=True)


@struct
class ApiVersion:
    api_key: int16 = 0
    min_version: int16 = 0
    max_version: int16 = 0


@struct
class SupportedFeatureKey:
    name: string = field(default="", versions="3+")
    min_version: int16 = field(default=0, versions="3+")
    max_version: int16 = field(default=0, versions="3+")


@struct
class FinalizedFeatureKey:
    name: string = field(default="", versions="3+")
    max_version_level: int16 = field(default=0, versions="3+")
    min_version_level: int16 = field(default=0, versions="3+")
