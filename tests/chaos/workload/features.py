"""The level of transaction.version, which an administrator may change while transactions are open (KIP-1022)."""

from __future__ import annotations

from chaos.workload.process import ClientProcess
from minikafka.client import Admin
from minikafka.protocol.errors import error_for
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

FEATURE = "transaction.version"
NEWEST = 2
UPGRADE, SAFE_DOWNGRADE = 1, 2


async def set_first_version(process: ClientProcess, admin: Admin) -> None:
    """Set the level with which the cluster begins, unless that is the default. Raises KafkaError."""
    if process.plan.transaction_versions[0] != NEWEST:
        await set_transaction_version(admin, process.plan.transaction_versions[0])


async def change_version(process: ClientProcess, admin: Admin) -> None:
    """Set one of the levels of the plan. Producers notice it with their next connection. Raises KafkaError."""
    if len(process.plan.transaction_versions) > 1:
        await set_transaction_version(admin, process.random.choice(process.plan.transaction_versions))
        process.count("administrator", "transaction version changed")


async def set_transaction_version(admin: Admin, level: int) -> None:
    """Set the level of the cluster. Raises KafkaError."""
    kind = UPGRADE if level == NEWEST else SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[update])
    response = await admin.cluster.retry(lambda: admin.cluster.request(request), f"setting {FEATURE}")
    if response.error_code:
        raise error_for(response.error_code, response.error_message)
