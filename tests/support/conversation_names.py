"""What one run of a conversation calls things.

`~x` in a file is a name of this run alone: every run works with topics and groups of its own. `$field.n` stands for the
n-th value of a field that differs from run to run: bound where it first appears in an answer, the same from then on.
"""

from __future__ import annotations

import re
import time
from typing import Any

from minikafka.protocol.error_codes import ErrorCode

NOW = 1_700_000_000_000
"""Stands in a file for the time of the run: that of records without one of their own."""

TIME_OF_RUN = time.time_ns() // 1_000_000

_BOUND = frozenset(
    (
        "topic_id", "producer_id", "member_id", "session_id", "directory_id", "replica_directory_id",
        "cluster_id", "member_ids", "client_instance_id",
    )
)
_CLOCKS = frozenset(
    ("log_append_time_ms", "timestamp", "last_timestamp", "transaction_start_time_ms", "start_timestamp")
)
_NONE = (-1, 0, "", None, "00000000-0000-0000-0000-000000000000")
_VARIABLE = re.compile(r"\$[a-z_]+\.\d+")


class Names:
    """The names of one run.

    Args:
        run: what `~` stands for, different in every run.
        several_nodes: any of them may be the controller, and the coordinator of a group is `$coordinator`.
    """

    def __init__(self, run: str, *, several_nodes: bool = False) -> None:
        self.run = run
        self._several_nodes = several_nodes
        self._coordinator = 0
        self._values: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._said: set[str] = set()

    def outward(self, value: Any) -> Any:
        """A request's JSON with this run's own names and values; raises ValueError for a variable never bound."""
        if isinstance(value, dict):
            return {self.outward(k): self.outward(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.outward(v) for v in value]
        if not isinstance(value, str):
            return TIME_OF_RUN if value == NOW else value
        if value in self._values:
            return self._values[value]
        if _VARIABLE.fullmatch(value):
            raise ValueError(f"{value} was never bound; known: {', '.join(self._values) or 'nothing'}")
        said = value.replace("~", self.run)
        self._said.add(said)
        return said

    @property
    def coordinator(self) -> int:
        """The node that the first answer to FindCoordinator named. Raises ValueError before that."""
        if not self._coordinator:
            raise ValueError("no FindCoordinator has been answered yet")
        return self._coordinator

    def inward(self, value: Any, field: str = "") -> Any:
        """The comparable form of an answer's JSON: the file's names, error codes as words."""
        if isinstance(value, dict):
            return {k: self.inward(v, k) for k, v in value.items()}
        if self._several_nodes and field == "coordinators":
            return [self.inward(v) | self._named(v.get("node_id", 0)) for v in value]
        if isinstance(value, list):
            return [self.inward(v, field) for v in value]
        if field.endswith("error_code") and isinstance(value, int):
            return _error_name(value)
        if self._several_nodes and field == "controller_id" and value >= 0:
            return "*"
        if field in _CLOCKS and isinstance(value, int) and value > NOW:
            return NOW if value == TIME_OF_RUN else "*"
        if self._differs_from_run_to_run(field, value):
            return self._bind(field, value)
        return value.replace(self.run, "~") if isinstance(value, str) else value

    def _named(self, node_id: int) -> dict[str, str]:
        """The coordinator's name for itself; the node of another stays as it is."""
        self._coordinator = self._coordinator or max(node_id, 0)
        return {"node_id": "$coordinator"} if node_id == self._coordinator != 0 else {}

    def mark(self) -> tuple[dict[str, Any], dict[str, int]]:
        """What is bound now, for `reset`."""
        return dict(self._values), dict(self._counts)

    def reset(self, mark: tuple[dict[str, Any], dict[str, int]]) -> None:
        """Forgets what an answer bound that did not count."""
        self._values, self._counts = dict(mark[0]), dict(mark[1])

    def _differs_from_run_to_run(self, field: str, value: Any) -> bool:
        if value in _NONE or value in self._said:
            return False
        return field in _BOUND or (field == "leader" and isinstance(value, str))

    def _bind(self, field: str, value: Any) -> str:
        field = {"member_ids": "member_id", "leader": "member_id"}.get(field, field)
        for name, known in self._values.items():
            if known == value:
                return name
        self._counts[field] = self._counts.get(field, 0) + 1
        name = f"${field}.{self._counts[field]}"
        self._values[name] = value
        return name


def _error_name(code: int) -> str | int:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else code
