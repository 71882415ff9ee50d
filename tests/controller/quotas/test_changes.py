"""What those who enforce quotas are told: each quota, its removal, and no limit for what is not a number."""

import math

from minikafka.controller.metadata.image import Entity
from minikafka.controller.metadata.records import ClientQuotaRecord
from minikafka.controller.quotas.changes import quota_changes, quotas_now

USER: Entity = (("user", "u"),)
KEY = "request_percentage"


def test_quotas_and_their_changes_are_handed_over_and_not_a_number_is_no_limit() -> None:
    taken: list[float | None] = []
    records = [ClientQuotaRecord(USER, KEY, value) for value in (5.0, math.nan, None)]
    list(quota_changes(records, lambda entity, key, value: taken.append(value)))
    list(quotas_now({USER: {KEY: math.nan}}, lambda entity, key, value: taken.append(value)))
    assert taken == [5.0, math.inf, None, math.inf]
