"""`minikafka brokers`: the brokers of a cluster, what each leads and has, and its part in the quorum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.options import client_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import echo, json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, ClusterDescription, QuorumDescription
    from minikafka.client.connections.cluster_metadata import Topic


QUORUM_PATIENCE_S = 3.0


@click.command()
@client_options
@json_option
def brokers(bootstrap_server: str, as_json: bool) -> None:
    """List brokers: address, rack, number of partitions that each leads and has, and its role in the controller quorum.

    A fenced broker is registered, but sends no heartbeats: it leads no partition, and clients do not see it.

    \b
    Examples:
      minikafka brokers
      minikafka brokers --json
    """

    async def work(admin: Admin) -> None:
        from minikafka.cli.commands.topics import described

        cluster = await admin.describe_cluster(include_fenced=True)
        topics = await described(admin, None)
        quorum, why = await quorum_if_it_answers(admin)
        rows = broker_details(cluster, topics.values(), quorum)
        output({"cluster_id": cluster.cluster_id, "brokers": rows}, broker_lines(rows), as_json=as_json)
        if why:
            echo(why, err=True)

    with_admin(bootstrap_server, work)


async def quorum_if_it_answers(admin: Admin) -> tuple[QuorumDescription | None, str]:
    """The controller quorum and ""; or None and the reason why it is not known, as if no controller answers in time.
    Brokers forward this request to the controllers, but answer the others of this command themselves."""
    import anyio

    from minikafka.protocol.errors import KafkaError

    why = f"no controller has answered within {QUORUM_PATIENCE_S:g} s: most of the controllers may be down"
    with anyio.move_on_after(QUORUM_PATIENCE_S):
        try:
            return await admin.describe_quorum(), ""
        except KafkaError as error:
            why = str(error)
    return None, f"The controller quorum is not known: {why.removesuffix('.')}."


def broker_details(
    cluster: ClusterDescription, topics: Iterable[Topic], quorum: QuorumDescription | None
) -> list[dict[str, Any]]:
    """The details of each broker for JSON, sorted by id."""
    partitions = [one for topic in topics for one in topic.partitions]
    return [
        {
            "broker": one.node_id,
            "host": one.host,
            "port": one.port,
            "rack": one.rack,
            "state": "fenced" if one.node_id in cluster.fenced else "live",
            "quorum": part_in(quorum, one.node_id),
            "leads": sum(some.leader == one.node_id for some in partitions),
            "replicas": sum(one.node_id in some.replicas for some in partitions),
            "in_sync": sum(one.node_id in some.in_sync_replicas for some in partitions),
        }
        for one in sorted(cluster.brokers, key=lambda one: one.node_id)
    ]


def part_in(quorum: QuorumDescription | None, node_id: int) -> str | None:
    """The role of a node in the controller quorum: leader, voter or observer; None if the quorum is not known."""
    if quorum is None:
        return None
    if node_id == quorum.leader_id:
        return "leader"
    return "voter" if node_id in {one.node_id for one in quorum.voters} else "observer"


def broker_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The table of brokers."""
    titles = ("broker", "address", "rack", "state", "quorum", "leads", "replicas", "in sync")
    columns = ("state", "quorum", "leads", "replicas", "in_sync")
    cells = [
        [one["broker"], f"{one['host']}:{one['port']}", one["rack"] or "-"]
        + ["-" if one[name] is None else one[name] for name in columns]
        for one in rows
    ]
    return table(titles, cells)
