"""`minikafka reassign`: move partitions to other brokers.

Plans are the JSON of Kafka's `kafka-reassign-partitions`:

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from minikafka.cli.options import client_options
from minikafka.cli.running import with_admin
from minikafka.cli.tables import counted, numbers, table

if TYPE_CHECKING:
    from minikafka.client import Admin, KafkaError, Reassignment, TopicPartition

POLL_S = 0.2

Plan: TypeAlias = "dict[TopicPartition, list[int]]"

plan_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group()
def reassign() -> None:
    """Move partitions to other brokers.

    Example: minikafka reassign execute plan.json
    """


@reassign.command()
@client_options
@click.argument("plan", type=plan_file)
@click.option("--wait", is_flag=True, help="Until all is moved.")
def execute(bootstrap_server: str, plan: Path, wait: bool) -> None:
    """Begin the moves of a PLAN; the first replica of a partition is its preferred leader.

    A PLAN is a file, or - for standard input, with what Kafka's own tool takes:
    {"partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}

    Standard output is a plan that would move everything back.

    \b
    Examples:
      minikafka reassign execute plan.json
      minikafka reassign execute plan.json --wait
    """
    targets = read_plan(plan)

    async def work(admin: Admin) -> None:
        import anyio

        before = await replicas_of(admin, targets)
        click.echo(plan_text({tp: replicas for tp, replicas in before.items() if replicas is not None}))
        refused(await admin.alter_partition_reassignments(targets))
        click.echo(f"Began to move {counted(len(targets), 'partition')}.", err=True)
        while wait and await admin.list_partition_reassignments(targets):
            await anyio.sleep(POLL_S)

    with_admin(bootstrap_server, work)


@reassign.command()
@client_options
@click.argument("plan", type=plan_file)
def verify(bootstrap_server: str, plan: Path) -> None:
    """Show how far the moves of a PLAN are; the exit code is 1 while something is missing.

    Example: minikafka reassign verify plan.json
    """
    targets = read_plan(plan)

    async def work(admin: Admin) -> None:
        under_way = await admin.list_partition_reassignments(targets)
        now = await replicas_of(admin, targets)
        states = {tp: state_of(targets[tp], now[tp], under_way.get(tp)) for tp in targets}
        rows = [[f"{tp.topic}-{tp.partition}", numbers(now[tp] or []), state] for tp, state in states.items()]
        click.echo("\n".join(table(("partition", "replicas", "state"), rows)))
        if set(states.values()) != {"complete"}:
            raise click.exceptions.Exit(1)

    with_admin(bootstrap_server, work)


@reassign.command("list")
@client_options
@click.option("--json", "as_json", is_flag=True, help="For machines: one JSON array.")
def list_reassignments(bootstrap_server: str, as_json: bool) -> None:
    """List all moves under way.

    Example: minikafka reassign list
    """

    async def work(admin: Admin) -> None:
        found = sorted((await admin.list_partition_reassignments()).items())
        if as_json:
            click.echo(json.dumps([details(tp, one) for tp, one in found]))
        elif found:
            rows = [
                [f"{tp.topic}-{tp.partition}", numbers(one.replicas), numbers(one.adding), numbers(one.removing)]
                for tp, one in found
            ]
            click.echo("\n".join(table(("partition", "replicas", "adding", "removing"), rows)))
        else:
            click.echo("No partition is being moved.")

    with_admin(bootstrap_server, work)


@reassign.command()
@client_options
@click.argument("plan", type=plan_file, required=False)
@click.option("--all", "everything", is_flag=True, help="All moves under way.")
def cancel(bootstrap_server: str, plan: Path | None, everything: bool) -> None:
    """Take back the moves of a PLAN that are under way, or --all.

    Example: minikafka reassign cancel plan.json
    """
    if (plan is None) != everything:
        raise click.UsageError("give a PLAN, or --all")
    targets = None if plan is None else read_plan(plan)

    async def work(admin: Admin) -> None:
        under_way = await admin.list_partition_reassignments(targets)
        if under_way:
            refused(await admin.alter_partition_reassignments(dict.fromkeys(under_way)))
        click.echo(f"Took back the moves of {counted(len(under_way), 'partition')}.")

    with_admin(bootstrap_server, work)


def read_plan(path: Path) -> Plan:
    """Targets by partition. Raises click.ClickException that says what is wrong with the file."""
    try:
        with open(0 if str(path) == "-" else path, "rb", closefd=str(path) != "-") as file:
            text = file.read()
        return parse_plan(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        raise click.ClickException(
            f"{path} is no plan: {error!r}; it looks like"
            ' {"partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}'
        ) from None


def parse_plan(found: Any) -> Plan:
    """Raises ValueError, KeyError or TypeError for JSON of another shape."""
    from minikafka.client import TopicPartition

    plan: Plan = {}
    for one in found["partitions"]:
        tp = TopicPartition(str(one["topic"]), int(one["partition"]))
        if tp in plan:
            raise ValueError(f"{tp.topic}-{tp.partition} comes twice")
        plan[tp] = [int(node_id) for node_id in one["replicas"]]
    return plan


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan as JSON."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)} for tp, replicas in plan.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


async def replicas_of(admin: Admin, partitions: Plan) -> dict[TopicPartition, tuple[int, ...] | None]:
    """Who has copies now; None for a partition that is not there."""
    topics = await admin.describe_topics(list(dict.fromkeys(tp.topic for tp in partitions)))
    known = {
        (name, one.index): one.replicas for name, topic in topics.items() for one in getattr(topic, "partitions", ())
    }
    return {tp: known.get(tp) for tp in partitions}


def state_of(target: Sequence[int], now: Sequence[int] | None, under_way: Reassignment | None) -> str:
    """How far a partition is on its way to `target`."""
    if now is None:
        return "there is no such partition"
    if under_way is not None:
        return "under way"
    return "complete" if list(now) == list(target) else "not as planned, and not under way"


def details(tp: TopicPartition, one: Reassignment) -> dict[str, Any]:
    """A move, for machines."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": list(one.replicas),
        "adding_replicas": list(one.adding),
        "removing_replicas": list(one.removing),
    }


def refused(results: Mapping[TopicPartition, KafkaError | None]) -> None:
    """Raise click.ClickException where something was."""
    faults = [str(error) for error in results.values() if error is not None]
    if faults:
        raise click.ClickException("\n".join(faults))
