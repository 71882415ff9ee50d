"""The methods of `Admin` for configs: describe, alter, and list what has configs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minikafka.client.admin.admin_requests import ask_about, item_error, result_of
from minikafka.client.admin.admin_types import ConfigEntry, ConfigSynonym
from minikafka.client.admin.item_errors import ask_each
from minikafka.client.argument_kinds import shown
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.endpoints import asks_controllers
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest

RESOURCE_TYPES = {"topic": 2, "broker": 4, "group": 32, "client-metrics": 16, "broker-logger": 8}
"""`ConfigResource.Type` of the Java client."""
_FIRST_VERSION_WITH_RESOURCE_TYPES = 1
_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
_RESOURCES_AT_ONCE = 1000
"""The number of resources in one request. minikafka's brokers close connections whose requests name over 10,000."""


async def describe_configs(
    admin: ClusterClient, kind: str, name: str, *, keys: Iterable[str] | None = None, synonyms: bool = False
) -> dict[str, ConfigEntry]:
    """The configs of a "topic", "broker" (name: its id, "" for the cluster-wide default) or "group".

    With `synonyms`, each config also lists all values set for it, by source.

    Raises KafkaError, and ValueError for an unknown kind.
    """
    request = _configs_request(kind, [name], keys, synonyms=synonyms)
    named = f"{kind} {name!r}"
    return _entries(await result_of(admin.cluster, request, "describing configs", named, _node_of(kind, name)))


async def describe_topic_configs(
    admin: ClusterClient, names: Iterable[str], *, keys: Iterable[str] | None = None
) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
    """The configs of several topics, by requests for a thousand each."""
    found: dict[str, dict[str, ConfigEntry] | KafkaError] = {}
    rest, chosen = list(names), None if keys is None else list(keys)

    async def ask(some: list[str]) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
        response = await admin.cluster.request(_configs_request("topic", some, chosen, synonyms=False))
        return {
            one.resource_name: item_error(one, f"topic {one.resource_name!r}") or _entries(one)
            for one in response.results
        }

    while rest:
        found |= await ask_each(admin.cluster, rest[:_RESOURCES_AT_ONCE], ask, "describing configs")
        del rest[:_RESOURCES_AT_ONCE]
    return found


async def alter_configs(
    admin: ClusterClient,
    kind: str,
    name: str,
    *,
    set: Mapping[str, str] | None = None,  # noqa: A002 (Kafka's word for it)
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Change some configs and keep the others (KIP-339); `delete` resets to the default.

    Raises InvalidConfigError …, and ValueError for an unknown kind.
    """
    changes: dict[str, Mapping[str, str | None]] = {
        "set": set or {},
        "delete": dict.fromkeys(delete),
        "append": append or {},
        "subtract": subtract or {},
    }
    configs = [
        AlterableConfig(name=key, config_operation=_OPERATIONS[operation], value=value)
        for operation, values in changes.items()
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=resource_type(kind), resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    node_id = None if asks_controllers(admin.cluster.options) else _node_of(kind, name)
    await result_of(admin.cluster, request, "altering configs", f"{kind} {name!r}", node_id)


async def list_config_resources(admin: ClusterClient, kind: str) -> list[str]:
    """The names of the "group"s, "client-metrics", "topic"s or "broker"s that can have configs (KIP-1142).

    A group is listed if it has configs. Raises KafkaError; UnsupportedVersionError from brokers before 4.1.
    """
    number, what = resource_type(kind), f"listing the {kind}s with configs"
    connection = await admin.cluster.retry(admin.cluster.any_connection, what)
    request = ListConfigResourcesRequest()
    if connection.version_for(ListConfigResourcesRequest) >= _FIRST_VERSION_WITH_RESOURCE_TYPES:
        request.resource_types = [number]
    response = await ask_about(admin.cluster, request, what)
    return sorted(one.resource_name for one in response.config_resources)


def resource_type(kind: str) -> int:
    """The number of a config resource type by its name. Raises ValueError for an unknown name."""
    if kind not in RESOURCE_TYPES:
        known = ", ".join(map(repr, RESOURCE_TYPES))
        raise ValueError(f"unknown config resource type {shown(kind)}: must be one of {known}")
    return RESOURCE_TYPES[kind]


def _configs_request(
    kind: str, names: Iterable[str], keys: Iterable[str] | None, *, synonyms: bool
) -> DescribeConfigsRequest:
    chosen = None if keys is None else list(keys)
    resources = [
        DescribeConfigsResource(resource_type=resource_type(kind), resource_name=name, configuration_keys=chosen)
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)


def _entries(result: Any) -> dict[str, ConfigEntry]:
    return {
        one.name: ConfigEntry(
            one.name,
            one.value,
            one.config_source,
            one.read_only,
            one.is_sensitive,
            tuple(ConfigSynonym(some.name, some.value, some.source) for some in one.synonyms),
        )
        for one in result.configs
    }


def _node_of(kind: str, name: str) -> int | None:
    """The broker to which a configs request is sent: the named broker for its own configs; else None, any broker."""
    is_number = name.isascii() and name.isdigit() and len(name) <= 10
    return int(name) if kind in ("broker", "broker-logger") and is_number else None
