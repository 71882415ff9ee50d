"""`answer`: which request to the control server of a cluster for tests is which verb.

    GET    /cluster                     addresses, and the state of each node
    POST   /reset                       {"brokers": 3, "settings": {"log.retention.ms": "1000"}}, each optional
    GET    /requests?api=Produce        what clients have sent; &client_id=…
    POST   /faults                      {"verb": "fail", "api": "Produce", "error": "CORRUPT_MESSAGE", "times": 2}
    GET    /faults/1                    the fault, with its hits
    DELETE /faults/1
    POST   /faults/1/wait               {"hits": 2, "timeout": 5}
    POST   /nodes/1/kill                or stop, start, restart, pause, resume
    POST   /logs/apply_retention        or roll_segment, corrupt {"topic": "t", "partition": 0, "offset": 5}
    POST   /clock/advance               {"hours": 25}; /clock/freeze; /clock/run {"speed": 100}
    GET    /openapi.json                this list, for programs
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minikafka.testing.control.openapi import DESCRIPTION
from minikafka.testing.control.verbs import BadRequest, Verbs

__all__ = ["answer", "whole_number"]


def answer(verbs: Verbs, method: str, path: str, given: Mapping[str, Any]) -> Any:
    """Do what a request asks for. Raises BadRequest, ConfigError, LookupError, NodeFailed, OSError."""
    match method, *path.strip("/").split("/"):
        case "GET", "openapi.json":
            return DESCRIPTION
        case "GET", "cluster":
            return verbs.cluster(given)
        case "GET", "requests":
            return verbs.requests(given)
        case "POST", "reset":
            return verbs.reset(given)
        case "POST", "faults":
            return verbs.add_fault(given)
        case "GET", "faults", number:
            return verbs.fault(whole_number(number))
        case "DELETE", "faults", number:
            return verbs.remove_fault(whole_number(number))
        case "POST", "faults", number, "wait":
            return verbs.wait_for_fault(whole_number(number), given)
        case "POST", "nodes", number, verb:
            return verbs.node(whole_number(number), verb)
        case "POST", "logs", verb:
            return verbs.logs(verb, given)
        case "POST", "clock", verb:
            return verbs.clock(verb, given)
    raise LookupError(f"there is no {method} {path}: the documentation of minikafka.testing has a list")


def whole_number(text: str) -> int:
    """Read a number of at most nine digits. Raises BadRequest."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadRequest(f"{text[:40]!r} must be a whole number")
    return int(text)
