"""The consumer lag of a stream, computed from its progress: Spark reports it only for JVM sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from minikafka.spark_connector.options.offsets import from_json


class Lag(NamedTuple):
    """The lag of a source in offsets behind the latest ones: statistics over all its partitions."""

    least: int
    greatest: int
    mean: float
    total: int


def lag(progress: Any, source: int = 0) -> Lag | None:
    """Returns the lag of one source of a query, from `query.lastProgress` or a StreamingQueryListener's event.

    Returns None if there is no progress yet, or if the source is of another kind.
    """
    if progress is None:
        return None
    known = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    one = known["sources"][source]
    ended, latest = _offsets(one.get("endOffset")), _offsets(one.get("latestOffset"))
    behind = [max(0, latest[tp] - offset) for tp, offset in ended.items() if tp in latest]
    if not behind:
        return None
    return Lag(min(behind), max(behind), sum(behind) / len(behind), sum(behind))


def _offsets(found: Any) -> dict[Any, int]:
    if isinstance(found, str):
        found = json.loads(found)
    return from_json(found)[0] if isinstance(found, Mapping) else {}
