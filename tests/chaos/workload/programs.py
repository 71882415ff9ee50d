"""All client programs by name, and the usual mix of them."""

from __future__ import annotations

from random import Random

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
from chaos.workload.transactional_producers import PROGRAM as TRANSACTIONAL
from chaos.workload.transactional_producers import transactional_producer
from chaos.workload.transformers import PROGRAM as TRANSFORMER
from chaos.workload.transformers import transformer

PRODUCING: dict[str, Program] = {
    "idempotent producer": idempotent_producer,
    "short-lived producer": short_lived_producer,
    "weak producer": weak_producer,
    TRANSACTIONAL: transactional_producer,
    TRANSFORMER: transformer,
}
READING: dict[str, Program] = {ASSIGNED: assigned_consumer, READER: offset_reader}
CHANGING: dict[str, Program] = {DELETER: record_deleter, ADMINISTRATOR: administrator, RECREATOR: recreator}


def members(plan: Plan) -> dict[str, Program]:
    """The programs of members, by the names under which they count."""
    return {program_of(group): member_of(group) for group in plan.groups}


def programs(plan: Plan) -> dict[str, Program]:
    """All programs by the names under which they count."""
    return {**PRODUCING, **READING, **CHANGING, **members(plan)}


def mix(plan: Plan, random: Random, *, more: int = 2) -> tuple[list[tuple[str, Program]], list[str]]:
    """A small mix: a producer, an assigned consumer, two members of one group, and `more` others.

    Returns:
        The programs, each with a name for its process, and the groups that have members.
    """
    group = random.choice(list(plan.groups))
    others = {name: one for name, one in programs(plan).items() if name not in members(plan)}
    names = [random.choice(list(PRODUCING)), ASSIGNED, *random.sample(list(others), more)]
    chosen = [(f"{name.replace(' ', '-')}-{number}", others[name]) for number, name in enumerate(names, 1)]
    return [*chosen, *((f"{group}-{number}", member_of(group)) for number in (1, 2))], [group]
