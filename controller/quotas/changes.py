"""Hands the quotas of the metadata, and their changes, to those who enforce them; in steps, as there may be many."""

import math
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeAlias

from minikafka.controller.metadata.image import Entity
from minikafka.controller.metadata.records import ClientQuotaRecord, Record
from minikafka.storage.steps import Pauses

__all__ = ["TakeQuota", "quota_changes", "quotas_now"]

TakeQuota: TypeAlias = Callable[[Entity, str, float | None], None]
"""Takes a quota: its entity, its key and its value; None if it is removed. Not a number is infinite: no limit."""
QUOTAS_IN_A_STEP = 500


def quota_changes(records: Iterable[Record], *takers: TakeQuota) -> Generator[None, None, None]:
    """Hand over the quotas that committed records change."""
    pauses = Pauses(QUOTAS_IN_A_STEP)
    for record in records:
        if isinstance(record, ClientQuotaRecord):
            for take in takers:
                take(record.entity, record.key, _limit(record.value))
            if pauses.is_due():
                yield


def quotas_now(quotas: Mapping[Entity, Mapping[str, float]], *takers: TakeQuota) -> Generator[None, None, None]:
    """Hand over all quotas, by entity, each with its value at the time of its step."""
    pauses = Pauses(QUOTAS_IN_A_STEP)
    for entity in list(quotas):
        for key, value in list(quotas.get(entity, {}).items()):
            for take in takers:
                take(entity, key, _limit(value))
        if pauses.is_due():
            yield


def _limit(value: float | None) -> float | None:
    return math.inf if value is not None and math.isnan(value) else value
