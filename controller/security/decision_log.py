"""`DecisionLog`: the log of what was allowed and denied, at a bounded rate (`LineRate`).

A line costs ten times as much as a decision, and one request may name thousands of resources that its client may not
use.
Source: `StandardAuthorizerData.logAuditMessage`, which logs all of them.
"""

from collections.abc import Callable

import structlog

from minikafka.controller.line_rate import LineRate
from minikafka.protocol.acl_codes import AclOperation, AclResourceType

__all__ = ["DecisionLog"]

log = structlog.get_logger("minikafka.authorizer")


class DecisionLog:
    """Logs decisions of an authorizer.

    Args:
        now_ms: the time in milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._denials = LineRate(now_ms)

    def allowed(self, who: str, host: str, operation: int, resource_type: int, name: str, rule: str) -> None:
        """Log an operation that was allowed, because of `rule`, at level DEBUG."""
        doing, kind = AclOperation(operation).name, AclResourceType(resource_type).name
        log.debug("operation allowed", principal=who, host=host, operation=doing, kind=kind, resource=name, rule=rule)

    def denied(self, who: str, host: str, operation: int, resource_type: int, name: str, rule: str) -> None:
        """Log an operation that was denied, because of `rule`, at level INFO, or count it."""
        if more := self._denials.left_out():
            log.info("more operations denied", count=more)
        if self._denials.admits():
            doing, kind = AclOperation(operation).name, AclResourceType(resource_type).name
            log.info(
                "operation denied", principal=who, host=host, operation=doing, kind=kind, resource=name, rule=rule
            )
