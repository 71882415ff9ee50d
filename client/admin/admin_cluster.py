"""The methods of `Admin` for the cluster as a whole: brokers, log directories, versions, features, client quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minikafka.client.admin.admin_requests import ask_about, item_error
from minikafka.client.admin.admin_types import (
    ApiVersionRange,
    ClientQuota,
    ClusterDescription,
    Feature,
    FeaturesDescription,
    LogDirectory,
    ReplicaSize,
)
from minikafka.client.argument_kinds import Int16, Int32, shown
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import Broker
from minikafka.client.connections.connection import api_versions_request
from minikafka.client.connections.endpoints import BROKERS, CONTROLLERS, asks_controllers
from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from minikafka.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.protocol.names import TopicPartition

UPGRADE_TYPES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
"""`FeatureUpdate.UpgradeType` of the Java client, by its name in lower case."""
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_FIRST_VERSION_WITH_FENCED_BROKERS = 2


async def describe_cluster(admin: ClusterClient, *, include_fenced: bool = False) -> ClusterDescription:
    """Describe the cluster: its id, controller and brokers; `include_fenced` adds fenced ones (Kafka 4.0)."""
    connection = await admin.cluster.retry(admin.cluster.any_connection, "describing the cluster")
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS if asks_controllers(admin.cluster.options) else BROKERS)
    if connection.version_for(DescribeClusterRequest) >= _FIRST_VERSION_WITH_FENCED_BROKERS:
        request.include_fenced_brokers = include_fenced
    response = await ask_about(admin.cluster, request, "describing the cluster")
    brokers = [Broker(one.broker_id, one.host, one.port, one.rack) for one in response.brokers]
    fenced = frozenset(one.broker_id for one in response.brokers if one.is_fenced)
    return ClusterDescription(response.cluster_id, response.controller_id, brokers, fenced)


async def describe_log_dirs(
    admin: ClusterClient, node_ids: Iterable[Int32] | None = None
) -> dict[int, list[LogDirectory]]:
    """The log directories of brokers (None: all), with the size of each replica."""
    await admin.cluster.retry(admin.cluster.refresh, "finding brokers")
    chosen = sorted(admin.cluster.metadata.brokers) if node_ids is None else list(node_ids)
    directories: dict[int, list[LogDirectory]] = {}
    for node_id in chosen:
        response = await ask_about(
            admin.cluster, DescribeLogDirsRequest(topics=None), "describing log directories", node_id
        )
        directories[node_id] = [
            LogDirectory(
                one.log_dir,
                item_error(one, one.log_dir),
                one.total_bytes,
                one.usable_bytes,
                {
                    TopicPartition(topic.name, part.partition_index): ReplicaSize(
                        part.partition_size, part.offset_lag, part.is_future_key
                    )
                    for topic in one.topics
                    for part in topic.partitions
                },
            )
            for one in response.results
        ]
    return directories


async def describe_api_versions(admin: ClusterClient, node_id: Int32 | None = None) -> list[ApiVersionRange]:
    """The APIs that a broker (None: any) offers, with the versions of each; sorted by key. Raises KafkaError."""
    response = await _api_versions(admin.cluster, node_id)
    return [
        ApiVersionRange(one.api_key, _name_of(one.api_key), one.min_version, one.max_version)
        for one in sorted(response.api_keys, key=lambda one: one.api_key)
    ]


async def describe_features(admin: ClusterClient, node_id: Int32 | None = None) -> FeaturesDescription:
    """The feature levels that a broker (None: any) supports, and the finalized levels of the cluster (KIP-584).

    Raises KafkaError.
    """
    response = await _api_versions(admin.cluster, node_id)
    levels = {one.name: one.max_version_level for one in response.finalized_features}
    supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    return FeaturesDescription(
        response.finalized_features_epoch,
        [Feature(name, *supported.get(name, (None, None)), levels.get(name, 0)) for name in sorted(supported | levels)],
    )


async def update_features(
    admin: ClusterClient, levels: Mapping[str, Int16], *, upgrade_type: str = "upgrade", validate_only: bool = False
) -> None:
    """Change the finalized levels of features, all or none of them (KIP-1022); level 0 disables a feature.

    Args:
        upgrade_type: "upgrade", "safe_downgrade" or "unsafe_downgrade".

    Raises InvalidUpdateVersionError, FeatureUpdateFailedError …, and ValueError for an unknown type.
    """
    if upgrade_type not in UPGRADE_TYPES:
        known = ", ".join(map(repr, UPGRADE_TYPES))
        raise ValueError(f"unknown upgrade type {shown(upgrade_type)}: must be one of {known}")
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE_TYPES[upgrade_type])
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(
        timeout_ms=admin.cluster.request_timeout_ms, feature_updates=updates, validate_only=validate_only
    )
    response = await ask_about(admin.cluster, request, "updating features")
    for one in response.results:
        if one.error_code:
            message = one.error_message or error_for(one.error_code)
            raise error_for(one.error_code, f"feature {one.feature!r}: {message}")


async def describe_client_quotas(
    admin: ClusterClient,
    entity: Mapping[str, str | None] | None = None,
    *,
    kinds: Iterable[str] = (),
    strict: bool = False,
) -> list[ClientQuota]:
    """The quotas of clients, sorted (KIP-546).

    Args:
        entity: only entities with these parts. Keys are types: "user", "client-id", "ip"; values are names, or
            None for the default entity of the type.
        kinds: only entities that have a part of each of these types, with any name.
        strict: only entities that have no parts other than those in `entity` and `kinds`.

    Raises KafkaError.
    """
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in (entity or {}).items()
    ]
    components += [ComponentData(entity_type=kind, match_type=_ANY, match=None) for kind in kinds]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = await ask_about(admin.cluster, request, "describing client quotas")
    quotas = [
        ClientQuota(
            {part.entity_type: part.entity_name for part in one.entity},
            {value.key: value.value for value in one.values},
        )
        for one in response.entries or ()
    ]
    return sorted(quotas, key=lambda one: sorted((kind, name or "") for kind, name in one.entity.items()))


async def alter_client_quotas(
    admin: ClusterClient,
    entity: Mapping[str, str | None],
    *,
    set: Mapping[str, float] | None = None,  # noqa: A002 (as in `alter_configs`)
    delete: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """Change some quotas of one entity, and keep its other quotas. A part's name None means the type's default.

    Raises InvalidRequestError …
    """
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    operations = [OpData(key=key, value=value) for key, value in (set or {}).items()]
    operations += [OpData(key=key, remove=True) for key in delete]
    entry = RequestEntryData(entity=parts, ops=operations)
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)

    async def attempt() -> None:
        one = (await admin.cluster.request(request)).entries[0]
        if one.error_code:
            named = ", ".join(f"{kind} {name!r}" if name else f"default {kind}" for kind, name in entity.items())
            raise error_for(one.error_code, f"{named}: {one.error_message or error_for(one.error_code)}")

    await admin.cluster.retry(attempt, "altering client quotas")


async def _api_versions(cluster: Cluster, node_id: int | None) -> Any:
    async def attempt() -> Any:
        response = await cluster.request(api_versions_request(), node_id)
        if response.error_code:
            error: KafkaError = error_for(response.error_code)
            raise error
        return response

    return await cluster.retry(attempt, "asking for API versions")


def _name_of(key: int) -> str:
    return APIS[key].name if key in APIS else f"API {key}"
