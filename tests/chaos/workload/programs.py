"""All client programs by name, and the usual mix of them."""

from __future__ import annotations

from chaos.workload.administration import PROGRAM as ADMINISTRATOR
from chaos.workload.administration import administrator
from chaos.workload.assigned_consumers import PROGRAM as ASSIGNED
from chaos.workload.assigned_consumers import assigned_consumer
from chaos.workload.group_consumers import member_of, program_of
from chaos.workload.offset_readers import DELETER, READER, offset_reader, record_deleter
from chaos.workload.plan import Plan
from chaos.workload.process import Program
from chaos.workload.producers import idempotent_producer, short_lived_producer, weak_producer
from chaos.workload.recreation import PROGRAM as RECREATOR
from chaos.workload.recreation import recreator

PRODUCING: dict[str, Program] = {
    "idempotent producer": idempotent_producer,
    "short-lived producer": short_lived_producer,
    "weak producer": weak_producer,
}
READING: dict[str, Program] = {ASSIGNED: assigned_consumer, READER: offset_reader}
CHANGING: dict[str, Program] = {DELETER: record_deleter, ADMINISTRATOR: administrator, RECREATOR: recreator}


def members(plan: Plan) -> dict[str, Program]:
    """The programs of members, by the names under which they count."""
    return {program_of(group): member_of(group) for group in plan.groups}


def programs(plan: Plan) -> dict[str, Program]:
    """All programs by the names under which they count."""
    return {**PRODUCING, **READING, **CHANGING, **members(plan)}
