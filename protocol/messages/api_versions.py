"""ApiVersions, API key 18: what a node speaks.

Versions 0-5, flexible from 3 on (KIP-482).

- v3: the client's software and version (KIP-511); features (KIP-584).
- v4: a feature may have 0 as its lowest version (KIP-584).
- v5: the cluster and node that the client means to talk to.
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """Always understood: a version unknown to the node is answered in v0 with UNSUPPORTED_VERSION."""

    client_software_name: string = field(default="", versions="3+", ignorable=True)
    client_software_version: string = field(default="", versions="3+", ignorable=True)
    cluster_id: string | None = field(default=None, versions="5+", ignorable=True)
    node_id: int32 = field(default=-1, versions="5+", ignorable=True)


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """Versions per API; its header is v0 at every version, for whoever asks knows nothing yet."""

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
