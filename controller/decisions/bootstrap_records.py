"""The first records of a new cluster's metadata log.

Source: `BootstrapMetadata`.
"""

from minikafka.controller.decisions.broker_config_validation import MIN_ISR
from minikafka.controller.decisions.update_features import FEATURES
from minikafka.controller.metadata.records import ClusterRecord, ConfigRecord, FeatureRecord, Record
from minikafka.controller.settings.effective_settings import ALL_BROKERS, ResourceType
from minikafka.controller.settings.static_settings import StaticSettings

__all__ = ["bootstrap"]


def bootstrap(cluster_id: str, static: StaticSettings) -> list[Record]:
    """The cluster id, the feature levels, and the cluster-wide dynamic configs.

    Eligible leader replicas require that min.insync.replicas is a cluster-wide dynamic config (KIP-966).
    """
    levels = [FeatureRecord(name, level) for name, (_, _, level) in sorted(FEATURES.items()) if level]
    min_isr = static.given.get(MIN_ISR) or static.default_text(MIN_ISR)
    return [
        ClusterRecord(cluster_id),
        *levels,
        ConfigRecord(ResourceType.BROKER, ALL_BROKERS, MIN_ISR, min_isr),
    ]
