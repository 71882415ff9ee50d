"""The first records of a new cluster's metadata log.

Source: `BootstrapMetadata`.
"""

from minikafka.controller.decisions.broker_config_validation import MIN_ISR
from minikafka.controller.metadata.features import (
    FEATURES,
    METADATA_VERSION,
    level_of_release,
    levels_of_new_cluster,
)
from minikafka.controller.metadata.records import ClusterRecord, ConfigRecord, FeatureRecord, Record
from minikafka.controller.settings.effective_settings import ALL_BROKERS, ResourceType
from minikafka.controller.settings.static_settings import StaticSettings

__all__ = ["INITIAL_METADATA_VERSION", "bootstrap"]

INITIAL_METADATA_VERSION = "initial.metadata.version"
"""A setting of minikafka: the metadata.version that `kafka-storage format --release-version` chooses in Kafka."""


def bootstrap(cluster_id: str, static: StaticSettings) -> list[Record]:
    """The cluster id, the feature levels, the cluster-wide dynamic configs, and the first users.

    If the directories were formatted, the feature levels and users are those that they were formatted with.

    Eligible leader replicas require that min.insync.replicas is a cluster-wide dynamic config (KIP-966).
    """
    chosen = level_of_release(static.given.get(INITIAL_METADATA_VERSION, ""))
    if static.formatted.levels:
        defaults = {name: low for name, (low, _, _) in FEATURES.items()} | dict(static.formatted.levels)
    else:
        defaults = levels_of_new_cluster(FEATURES[METADATA_VERSION][2] if chosen is None else chosen)
    levels = [FeatureRecord(name, level) for name, level in sorted(defaults.items()) if level]
    min_isr = static.given.get(MIN_ISR) or static.default_text(MIN_ISR)
    return [
        ClusterRecord(cluster_id),
        *levels,
        ConfigRecord(ResourceType.BROKER, ALL_BROKERS, MIN_ISR, min_isr),
        *static.formatted.users,
    ]
