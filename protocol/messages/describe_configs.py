"""DescribeConfigs, API key 32: the settings of topics, brokers and groups (KIP-133).

Versions 1-4, flexible from 4 on (KIP-482).

- v1: synonyms and config_source (KIP-226).
- v3: types and documentation (KIP-569).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Resources and the names of settings; null selects all."""

    resources: list[DescribeConfigsResource] = []
    include_synonyms: bool = False
    include_documentation: bool = field(default=False, versions="3+")


@struct
class DescribeConfigsResource:
    resource_type: int8 = 0
    resource_name: string = ""
    configuration_keys: list[string] | None


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """Values with their sources and synonyms."""

    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = []


@struct
class DescribeConfigsResult:
    error_code: int16 = 0
    error_message: string | None
    resource_type: int8 = 0
    resource_name: string = ""
    configs: list[DescribeConfigsResourceResult] = []


@struct
class DescribeConfigsResourceResult:
    name: string = ""
    value: string | None
    read_only: bool = False
    config_source: int8 = field(default=-1, ignorable=True)
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default=[], ignorable=True)
    config_type: int8 = field(default=0, versions="3+", ignorable=True)
    documentation: string | None = field(default="", versions="3+", ignorable=True)


@struct
class DescribeConfigsSynonym:
    name: string = ""
    value: string | None
    source: int8 = 0
