"""`minikafka health`: whether a cluster is healthy, for people, scripts and probes: the exit code is 1 if it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.options import client_options
from minikafka.cli.output import json_option, output
from minikafka.cli.running import with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin, ClusterDescription, ConfigEntry, KafkaError
    from minikafka.client.connections.cluster_metadata import Partition, Topic

CHECKS = ("brokers", "controller", "offline", "under-min-isr", "under-replicated")
LISTED_MAX = 5
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True)
class Check:
    """A check: its name, what it found wrong, and the sentence for when nothing is."""

    name: str
    problems: list[str]
    well: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """For JSON."""
        return {"check": self.name, "ok": not self.problems, "problems": self.problems}

    @property
    def line(self) -> str:
        """As text, with some of many problems."""
        if not self.problems:
            return f"ok    {self.name}: {self.well}"
        more = f", and {len(self.problems) - LISTED_MAX:,} more" if len(self.problems) > LISTED_MAX else ""
        return f"FAIL  {self.name}: {'; '.join(self.problems[:LISTED_MAX])}{more}"


@click.command()
@client_options
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each broker has to answer.",
)
@click.option("--ignore", multiple=True, type=click.Choice(CHECKS), help="Leave a check out; repeatable.")
@json_option
def health(bootstrap_server: str, timeout_s: float, ignore: tuple[str, ...], as_json: bool) -> None:
    """Check that all brokers answer, that there is a controller, and that partitions have leaders and replicas in sync.

    The exit code is 0 if all is well, and 1 if not.

    \b
    Examples:
      minikafka health
      minikafka health --ignore under-replicated --json
    """
    from minikafka.protocol.errors import KafkaError

    found: list[Check] = []
    limit_ms = round(timeout_s * 1000)

    async def work(admin: Admin) -> None:
        found.extend(await all_checks(admin, timeout_s))

    try:
        with_admin(
            bootstrap_server, work, default_api_timeout_ms=limit_ms, socket_connection_setup_timeout_ms=limit_ms
        )
    except KafkaError as error:
        found = [Check("brokers", [f"no answer by way of {bootstrap_server}: {error}"])]
    checks = [one for one in found if one.name not in ignore]
    healthy = not any(one.problems for one in checks)
    details = {"healthy": healthy, "checks": [one.details for one in checks]}
    output(details, [one.line for one in checks], as_json=as_json)
    if not healthy:
        raise click.exceptions.Exit(1)


async def all_checks(admin: Admin, timeout_s: float) -> list[Check]:
    """All checks of a cluster. Raises KafkaError if no broker answers."""
    from minikafka.cli.topics import described

    cluster = await admin.describe_cluster(include_fenced=True)
    topics = list((await described(admin, None)).values())
    settings = await admin.describe_topic_configs([one.name for one in topics], keys=[_MIN_ISR]) if topics else {}
    return [
        await brokers_check(admin, cluster, timeout_s),
        await controller_check(admin),
        *partition_checks(topics, min_isrs(settings)),
    ]


async def brokers_check(admin: Admin, cluster: ClusterDescription, timeout_s: float) -> Check:
    """Ask every broker at the same time. A fenced one is a problem."""
    import anyio

    problems = {one: f"broker {one} is fenced: it sends no heartbeats" for one in cluster.fenced}
    live = [one.node_id for one in cluster.brokers if one.node_id not in cluster.fenced]

    async def ask(node_id: int) -> None:
        from minikafka.protocol.errors import KafkaError

        problems[node_id] = f"broker {node_id} does not answer within {timeout_s:g} s"
        with anyio.move_on_after(timeout_s):
            try:
                await admin.describe_api_versions(node_id)
                del problems[node_id]
            except KafkaError as error:
                problems[node_id] = f"broker {node_id}: {error}"

    async with anyio.create_task_group() as tasks:
        for node_id in live:
            tasks.start_soon(ask, node_id)
    listed = [text for _, text in sorted(problems.items())]
    return Check("brokers", listed, f"{len(live)} of {len(cluster.brokers)} answer")


async def controller_check(admin: Admin) -> Check:
    """Whether the quorum has a leader."""
    from minikafka.protocol.errors import KafkaError

    try:
        quorum = await admin.describe_quorum()
    except KafkaError as error:
        return Check("controller", [f"the controllers do not answer: {error}"])
    if quorum.leader_id < 0:
        return Check("controller", ["the quorum has no leader"])
    return Check("controller", [], f"node {quorum.leader_id} leads a quorum of {len(quorum.voters)}")


def min_isrs(settings: Mapping[str, Mapping[str, ConfigEntry] | KafkaError]) -> dict[str, int]:
    """`min.insync.replicas` by topic; topics that were deleted meanwhile have none."""
    return {
        name: int(found[_MIN_ISR].value or 1)
        for name, found in settings.items()
        if isinstance(found, Mapping) and _MIN_ISR in found
    }


def partition_checks(topics: Sequence[Topic], needed: Mapping[str, int]) -> list[Check]:
    """Partitions without a leader, with fewer replicas in sync than producers need, and with fewer than all."""
    partitions = [(topic.name, one) for topic in topics for one in topic.partitions]
    offline = [f"{name}-{one.index} has no leader" for name, one in partitions if one.leader < 0]
    under_min = [
        f"{shown(name, one)}, min.insync.replicas={needed[name]}"
        for name, one in partitions
        if len(one.in_sync_replicas) < min(needed.get(name, 1), len(one.replicas))
    ]
    under = [shown(name, one) for name, one in partitions if len(one.in_sync_replicas) < len(one.replicas)]
    return [
        Check("offline", offline, f"{len(partitions):,} partitions have a leader"),
        Check("under-min-isr", under_min, "all have the replicas in sync that acks=all needs"),
        Check("under-replicated", under, "all replicas are in sync"),
    ]


def shown(name: str, one: Partition) -> str:
    """A partition and what is in sync of it."""
    return f"{name}-{one.index} has {len(one.in_sync_replicas)} of {len(one.replicas)} replicas in sync"
