"""A program that changes topics, settings, replicas, and the level of a feature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from chaos.workload.directories import cordon, move_replica
from chaos.workload.features import change_version, set_first_version
from chaos.workload.offset_readers import partitions_of
from chaos.workload.plan import TopicPlan
from chaos.workload.process import ClientProcess, live_on
from minikafka.client import Admin
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

PROGRAM = "administrator"
STEPS = 30
BRIEF_MAX = 2
Act = Callable[[ClientProcess, Admin], Awaitable[None]]


async def create_topics(process: ClientProcess) -> None:
    """Set transaction.version, and create the topics of the plan. To be called once, at first. Raises KafkaError."""
    async with process.admin() as admin:
        await set_first_version(process, admin)
        for topic in process.plan.topics.values():
            await admin.create_topic(
                topic.name,
                partitions=topic.partitions,
                replication_factor=process.plan.replicas,
                configs={**_safe(process), **topic.configs},
            )


def _safe(process: ClientProcess) -> dict[str, str]:
    """The settings with which acknowledged records must survive."""
    return {
        "min.insync.replicas": str(process.plan.min_insync[0]),
        "unclean.leader.election.enable": "false",
    }


async def administrator(process: ClientProcess) -> None:
    """Does what an administrator may do while clients are at work, one thing after the other."""
    await live_on(process, PROGRAM, partial(_live, acts=ACTS))


async def _live(process: ClientProcess, *, acts: dict[str, Act]) -> None:
    async with process.admin() as admin:
        for _ in range(STEPS):
            name = process.random.choice(list(acts))
            try:
                await acts[name](process, admin)
                process.count(PROGRAM, name)
            except KafkaError as error:
                process.count(PROGRAM, name, error)
            await process.rest()


def _topic(process: ClientProcess) -> TopicPlan:
    return process.random.choice(list(process.plan.topics.values()))


def _raise_first(results: dict[TopicPartition, KafkaError | None]) -> None:
    for error in results.values():
        if error is not None:
            raise error


async def _create_brief(process: ClientProcess, admin: Admin) -> None:
    """Create a topic with a name that was never used, or delete one if there are some."""
    brief = process.plan.brief
    if len(brief) >= BRIEF_MAX:
        name = process.random.choice(list(brief))
        del brief[name]
        await admin.delete_topic(name)
        process.count(PROGRAM, "delete a topic")
        return
    name = f"brief-{process.client_name().replace('/', '-')}"
    await admin.create_topic(
        name, partitions=process.random.randint(1, 3), replication_factor=process.plan.replicas, configs=_safe(process)
    )
    brief[name] = None


async def _grow(process: ClientProcess, admin: Admin) -> None:
    growing = [one for one in process.plan.topics.values() if one.partitions_max > one.partitions]
    topic = process.random.choice(growing)
    count = len(await partitions_of(admin, topic.name))
    if count < topic.partitions_max:
        await admin.create_partitions(topic.name, count + 1)
        process.plan.grown[topic.name] = count + 1


async def _set_retention(process: ClientProcess, admin: Admin) -> None:
    """Change what may delete or roll segments of a shrinking topic."""
    shrinking = [one for one in process.plan.topics.values() if one.shrinking]
    name, value = process.random.choice((
        ("retention.ms", ("5000", "20000", "600000")),
        ("retention.bytes", ("50000", "500000", "-1")),
        ("segment.bytes", ("1048576", "2097152")),
        ("segment.ms", ("2000", "60000")),
    ))
    chosen = process.random.choice(shrinking).name
    if process.chance(0.2):
        await admin.alter_configs("topic", chosen, delete=[name])
    else:
        await admin.alter_configs("topic", chosen, set={name: process.random.choice(value)})


async def _set_topic_config(process: ClientProcess, admin: Admin) -> None:
    value = str(process.random.choice(process.plan.min_insync))
    changes = {"min.insync.replicas": value, "segment.ms": str(process.random.choice((3000, 60_000, 604_800_000)))}
    await admin.alter_configs("topic", _topic(process).name, set=changes)


async def _describe_configs(process: ClientProcess, admin: Admin) -> None:
    found = await admin.describe_configs("topic", _topic(process).name)
    assert found["unclean.leader.election.enable"].value == "false", found["unclean.leader.election.enable"]


async def _elect(_: ClientProcess, admin: Admin) -> None:
    """Elect the preferred leaders of all partitions."""
    _raise_first(await admin.elect_leaders())


async def _reassign(process: ClientProcess, admin: Admin) -> None:
    """Move a partition to other brokers, or cancel the reassignments in progress."""
    random = process.random
    if random.random() < 0.2:
        moving = await admin.list_partition_reassignments()
        if moving:
            _raise_first(await admin.alter_partition_reassignments(dict.fromkeys(moving)))
        return
    brokers = sorted(one.node_id for one in (await admin.describe_cluster()).brokers)
    tp = random.choice(await partitions_of(admin, _topic(process).name))
    if len(brokers) >= process.plan.replicas:
        target = random.sample(brokers, process.plan.replicas)
        _raise_first(await admin.alter_partition_reassignments({tp: target}))


async def _list(_: ClientProcess, admin: Admin) -> None:
    """List topics and reassignments."""
    await admin.list_topics(include_internal=True)
    await admin.list_partition_reassignments()


async def _describe(_: ClientProcess, admin: Admin) -> None:
    """Describe what brokers say about themselves, partitions and the quorum."""
    await admin.describe_topics()
    await admin.describe_quorum()
    await admin.describe_log_dirs()


async def _describe_groups(process: ClientProcess, admin: Admin) -> None:
    await admin.list_groups()
    await admin.describe_group(process.random.choice(list(process.plan.groups)))


ACTS: dict[str, Act] = {
    "create or delete a topic": _create_brief,
    "create partitions": _grow,
    "change retention": _set_retention,
    "change a topic's settings": _set_topic_config,
    "describe settings": _describe_configs,
    "elect leaders": _elect,
    "reassign": _reassign,
    "list": _list,
    "describe": _describe,
    "describe groups": _describe_groups,
    "move a replica": move_replica,
    "cordon": cordon,
    "change the transaction version": change_version,
}
