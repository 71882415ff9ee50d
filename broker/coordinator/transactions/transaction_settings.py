"""`TransactionSettings`: the node settings of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.settings.dataclass_fields import from_values, setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The node settings that transactions depend on."""

    timeout_max_ms: int = setting_field(NODE_SETTINGS["transaction.max.timeout.ms"])
    abort_interval_ms: int = setting_field(
        NODE_SETTINGS["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
    )
    two_phase_commit_enabled: bool = setting_field(NODE_SETTINGS["transaction.two.phase.commit.enable"])
    expiration_ms: int = setting_field(NODE_SETTINGS["transactional.id.expiration.ms"])
    expiry_interval_ms: int = setting_field(
        NODE_SETTINGS["transaction.remove.expired.transaction.cleanup.interval.ms"]
    )
    load_buffer_size: int = setting_field(NODE_SETTINGS["transaction.state.log.load.buffer.size"])
    request_timeout_ms: int = setting_field(NODE_SETTINGS["request.timeout.ms"])
    retry_ms: int = setting_field(NODE_SETTINGS["add.partitions.to.txn.retry.backoff.ms"])
    retry_max_ms: int = setting_field(NODE_SETTINGS["add.partitions.to.txn.retry.backoff.max.ms"])

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> TransactionSettings:
        """From a node's parsed settings by name."""
        return from_values(cls, settings)
