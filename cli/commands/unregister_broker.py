"""`minikafka unregister-broker`: removes the registration of a broker that has left the cluster for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import client_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin


@click.command("unregister-broker")
@client_options
@click.argument("node_id", type=Whole(0, bits=32))
@json_option
def unregister_broker(bootstrap_server: str, node_id: int, as_json: bool) -> None:
    """Remove a broker that has left the cluster for good, so that `health` and `brokers` do not miss it.

    Stop the broker first, and reassign its replicas. One that is started again registers itself.

    Example: minikafka unregister-broker 3
    """

    async def work(admin: Admin) -> None:
        await refuse_one_in_use(admin, node_id)
        await admin.unregister_broker(node_id)
        output({"broker": node_id, "unregistered": True}, [f"Unregistered broker {node_id}."], as_json=as_json)

    with_admin(bootstrap_server, work)


async def refuse_one_in_use(admin: Admin, node_id: int) -> None:
    """Raise click.ClickException for a broker that is live, or has replicas."""
    from minikafka.cli.commands.topics import described

    cluster = await admin.describe_cluster(include_fenced=True)
    if node_id in {one.node_id for one in cluster.brokers} - set(cluster.fenced):
        raise click.ClickException(f"broker {node_id} is live: stop it first")
    topics = (await described(admin, None)).values()
    count = sum(node_id in one.replicas for topic in topics for one in topic.partitions)
    if count:
        shown = counted(count, "replica")
        raise click.ClickException(f"broker {node_id} has {shown}: reassign them to other brokers first")
