"""Names and variables of one run of a conversation.

`~x` in a file is replaced by a name that is unique to the run, so that every run uses its own topics and groups.
`$field.n` is a variable for the n-th value of a field that differs between runs, bound at its first occurrence in a
response.
"""

from __future__ import annotations

import re
import time
from typing import Any

from minikafka.protocol.error_codes import ErrorCode

NOW = 1_700_000_000_000
"""Stands in a file for the time of the run, the timestamp of records without an explicit one."""

TIME_OF_RUN = time.time_ns() // 1_000_000

_BOUND = frozenset(
    (
        "topic_id", "producer_id", "member_id", "session_id", "directory_id", "replica_directory_id",
        "cluster_id", "member_ids", "client_instance_id", "subscription_id",
        "token_id", "hmac",
    )
)
_CLOCKS = frozenset(
    (
        *("log_append_time_ms", "timestamp", "last_timestamp", "transaction_start_time_ms", "start_timestamp"),
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
        *("issue_timestamp", "expiry_timestamp", "max_timestamp"),
    )
)
_NONE = (-1, 0, "", None, "00000000-0000-0000-0000-000000000000")
_VARIABLE = re.compile(r"\$[a-z_]+\.\d+")


class Names:
    """The names of one run.

    Args:
        run: the replacement of `~`, different in every run.
        several_nodes: whether any node may be the controller, and the coordinator of a group is `$coordinator`.
    """

    def __init__(self, run: str, *, several_nodes: bool = False) -> None:
        self.run = run
        self._several_nodes = several_nodes
        self._coordinator = 0
        self._values: dict[str, Any] = {}
        self._counts: dict[str, int] = {}
        self._said: set[str] = set()

    def outward(self, value: Any) -> Any:
        """A request's JSON with the names and values of the run. Raises ValueError for an unbound variable."""
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
        """The node in the first response to FindCoordinator. Raises ValueError before that response."""
        if not self._coordinator:
            raise ValueError("no FindCoordinator has been answered yet")
        return self._coordinator

    def inward(self, value: Any, field: str = "") -> Any:
        """The comparable form of a response's JSON: with the names of the file, and error codes by name."""
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
        """The variable of the coordinator; other nodes keep their ids."""
        self._coordinator = self._coordinator or max(node_id, 0)
        return {"node_id": "$coordinator"} if node_id == self._coordinator != 0 else {}

    def mark(self) -> tuple[dict[str, Any], dict[str, int]]:
        """The current bindings, for `reset`."""
        return dict(self._values), dict(self._counts)

    def reset(self, mark: tuple[dict[str, Any], dict[str, int]]) -> None:
        """Restores the bindings, dropping those of a response that is retried."""
        self._values, self._counts = dict(mark[0]), dict(mark[1])

    def _differs_from_run_to_run(self, field: str, value: Any) -> bool:
        if value in _NONE or value in self._said:
            return False
        of_an_acl = field == "resource_name" and value in self._values.values()
        return field in _BOUND or (field == "leader" and isinstance(value, str)) or of_an_acl

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
