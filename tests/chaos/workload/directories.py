"""What an administrator does with the data directories of brokers: moves of replicas (KIP-113), cordons (KIP-1066)."""

from __future__ import annotations

from chaos.workload.process import ClientProcess
from minikafka.client import Admin
from minikafka.client.admin.admin_types import LogDirectory
from minikafka.protocol.errors import KafkaError, error_for
from minikafka.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.protocol.names import TopicPartition

PROGRAM = "administrator"
LOOKS_MAX = 6
"""At a move, until it is over."""
CORDONED = "cordoned.log.dirs"
ALL_SHARE = 0.3
"""Of the cordons of a broker with one directory, which can get no replicas then: topics cannot be created."""


async def move_replica(process: ClientProcess, admin: Admin) -> None:
    """Move a replica to another directory of its broker, and look whether it arrives. Raises KafkaError."""
    node_id = await _any_broker(process, admin)
    directories = await _healthy(admin, node_id)
    present = [(one.path, tp) for one in directories for tp, size in one.replicas.items() if not size.is_future]
    if len(directories) < 2 or not present:
        return
    source, tp = process.random.choice(present)
    target = process.random.choice([one.path for one in directories if one.path != source])
    topic = AlterReplicaLogDirTopic(name=tp.topic, partitions=[tp.partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=[topic])])
    response = await admin.cluster.retry(lambda: admin.cluster.request(request, node_id), f"moving {tp}")
    code = response.results[0].partitions[0].error_code
    if code:
        raise error_for(code, f"moving {tp} to {target}")
    process.count(PROGRAM, "move begun")
    for _ in range(LOOKS_MAX):
        await process.rest()
        if await _is_in(admin, node_id, tp, target):
            process.count(PROGRAM, "replica moved")
            return


async def cordon(process: ClientProcess, admin: Admin) -> None:
    """Let a broker take no new replicas in a directory, perhaps its only one; or end that. Raises KafkaError."""
    node_id = await _any_broker(process, admin)
    if process.plan.cordoned and process.chance(0.6):
        await uncordon(process, admin, process.random.choice(list(process.plan.cordoned)))
        return
    paths = [one.path for one in (await admin.describe_log_dirs([node_id]))[node_id]]
    if not paths:
        return
    chosen = process.random.choice(paths) if len(paths) > 1 else "*"
    if chosen == "*" and not process.chance(ALL_SHARE):
        return
    process.plan.cordoned[node_id] = None
    await admin.alter_configs("broker", str(node_id), set={CORDONED: chosen})
    process.count(PROGRAM, "directory cordoned")


async def uncordon(process: ClientProcess, admin: Admin, node_id: int) -> None:
    """Let a broker take new replicas in all directories. Raises KafkaError."""
    await admin.alter_configs("broker", str(node_id), delete=[CORDONED])
    process.plan.cordoned.pop(node_id, None)


async def uncordon_all(process: ClientProcess, admin: Admin) -> bool:
    """Uncordon the brokers that an administrator has cordoned; returns True. Raises KafkaError."""
    for node_id in list(process.plan.cordoned):
        await uncordon(process, admin, node_id)
    return True


async def _any_broker(process: ClientProcess, admin: Admin) -> int:
    brokers = sorted(one.node_id for one in (await admin.describe_cluster()).brokers)
    if not brokers:
        raise KafkaError("the cluster has no brokers")
    return process.random.choice(brokers)


async def _healthy(admin: Admin, node_id: int) -> list[LogDirectory]:
    return [one for one in (await admin.describe_log_dirs([node_id]))[node_id] if one.error is None]


async def _is_in(admin: Admin, node_id: int, tp: TopicPartition, path: str) -> bool:
    found = [one.replicas.get(tp) for one in await _healthy(admin, node_id) if one.path == path]
    return any(one is not None and not one.is_future for one in found)
