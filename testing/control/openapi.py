"""`DESCRIPTION`: the control server in the form of OpenAPI 3, for programs that make clients from it."""

from __future__ import annotations

from typing import Any

from minikafka.testing.control.verbs import ARGUMENTS, BROKERS_MAX

__all__ = ["DESCRIPTION"]

_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
_WHOLE = {"type": "integer", "minimum": 0}
_TYPES: dict[str, dict[str, Any]] = {
    "api": _TEXT, "error": _TEXT, "topic": _TEXT, "client_id": _TEXT, "group": _TEXT, "transactional_id": _TEXT,
    "verb": _TEXT, "partition": _WHOLE, "node": _WHOLE, "times": _WHOLE, "every": _WHOLE, "seed": _WHOLE, "ms": _WHOLE,
    "hits": _WHOLE, "offset": _WHOLE, "brokers": {"type": "integer", "minimum": 1, "maximum": BROKERS_MAX},
    "probability": _NUMBER, "seconds": _NUMBER, "minutes": _NUMBER, "hours": _NUMBER, "speed": _NUMBER,
    "timeout": _NUMBER, "applied": _FLAG, "before": _FLAG, "halfway": _FLAG, "one_way": _FLAG,
    "after": {"oneOf": [_WHOLE, _FLAG]}, "from_": {"oneOf": [_WHOLE, {"type": "string", "enum": ["nodes"]}]},
    "settings": {"type": "object"},
}  # fmt: skip
"""The type of each argument, by its name."""


def _operation(summary: str, *arguments: str, query: bool = False, path: tuple[str, ...] = ()) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "done", "content": {"application/json": {}}},
            "default": {"description": "an object with `error`, in words", "content": {"application/json": {}}},
        },
    }
    parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in path]
    if query:
        parameters += [{"name": name, "in": "query", "required": False, "schema": _TYPES[name]} for name in arguments]
    elif arguments:
        schema = {"type": "object", "properties": {name: _TYPES[name] for name in arguments}}
        described["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if parameters:
        described["parameters"] = parameters
    return described


DESCRIPTION: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "minikafka testing", "version": "1", "description": "A Kafka cluster for tests."},
    "paths": {
        "/cluster": {"get": _operation("The addresses, and the state of each node.")},
        "/reset": {"post": _operation("Replace all nodes by empty ones.", "brokers", "settings")},
        "/requests": {"get": _operation("The requests of clients.", "api", "client_id", query=True)},
        "/faults": {"post": _operation("Put a fault into force.", *ARGUMENTS)},
        "/faults/{id}": {
            "get": _operation("A fault, with its hits.", path=("id",)),
            "delete": _operation("Remove a fault.", path=("id",)),
        },
        "/faults/{id}/wait": {"post": _operation("Wait until it has hit.", "hits", "timeout", path=("id",))},
        "/nodes/{id}/{verb}": {
            "post": _operation("kill, stop, start, restart, pause or resume a node.", path=("id", "verb"))
        },
        "/logs/apply_retention": {"post": _operation("Delete what retention allows to delete.")},
        "/logs/roll_segment": {"post": _operation("Begin new segments.", "topic")},
        "/logs/corrupt": {"post": _operation("Damage a batch.", "topic", "partition", "offset")},
        "/clock/advance": {"post": _operation("Move all nodes forward.", "hours", "minutes", "seconds")},
        "/clock/freeze": {"post": _operation("Stop the time.")},
        "/clock/run": {"post": _operation("Let the time pass faster.", "speed")},
        "/openapi.json": {"get": _operation("This description.")},
    },
}
