"""`minikafka reassign`: starts, verifies, lists and cancels partition reassignments.

Plans are the JSON of Kafka's `kafka-reassign-partitions`:

    {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from minikafka.cli.arguments.json_files import read_json
from minikafka.cli.arguments.options import client_options
from minikafka.cli.commands.offsets import led_partitions
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.failures import fail_if
from minikafka.cli.terminal.output import echo, echo_json, json_option, output
from minikafka.cli.terminal.tables import numbers, table
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin, Reassignment, TopicPartition

POLL_S = 0.2

Plan: TypeAlias = "dict[TopicPartition, list[int]]"

plan_file = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group()
def reassign() -> None:
    """Reassign partitions to other brokers.

    Example: minikafka reassign execute plan.json
    """


@reassign.command()
@client_options
@click.argument("plan", type=plan_file)
@click.option("--wait", is_flag=True, help="Wait until all reassignments are complete.")
@json_option
def execute(bootstrap_server: str, plan: Path, wait: bool, as_json: bool) -> None:
    """Start the reassignments of a PLAN. The first replica of a partition is its preferred leader.

    PLAN is a file, or - for standard input, in the JSON format of kafka-reassign-partitions:
    {"partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}

    Prints a plan that restores the current assignment, in JSON.

    \b
    Examples:
      minikafka reassign execute plan.json
      minikafka reassign execute plan.json --wait
    """
    targets = read_plan(plan)

    async def work(admin: Admin) -> None:
        import anyio

        before = await replicas_of(admin, targets, bootstrap_server, all_exist=True)
        await check_registered(admin, {node_id for replicas in targets.values() for node_id in replicas})
        echo(plan_text({tp: replicas for tp, replicas in before.items() if replicas is not None}))
        fail_if(error for error in (await admin.alter_partition_reassignments(targets)).values() if error is not None)
        if not as_json:
            echo(f"Started the reassignment of {counted(len(targets), 'partition')}.", err=True)
        while wait and await admin.list_partition_reassignments(targets):
            await anyio.sleep(POLL_S)

    with_admin(bootstrap_server, work)


@reassign.command()
@client_options
@click.argument("plan", type=plan_file)
@json_option
def verify(bootstrap_server: str, plan: Path, as_json: bool) -> None:
    """Show the state of the reassignments of a PLAN. The exit code is 1 until all are complete.

    Example: minikafka reassign verify plan.json
    """
    targets = read_plan(plan)

    async def work(admin: Admin) -> None:
        in_progress = await admin.list_partition_reassignments(targets)
        now = await replicas_of(admin, targets, bootstrap_server)
        states = {tp: state_of(targets[tp], now[tp], in_progress.get(tp)) for tp in targets}
        rows = [[f"{tp.topic}-{tp.partition}", numbers(now[tp] or []), state] for tp, state in states.items()]
        found = [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(now[tp] or ()), "state": state}
            for tp, state in states.items()
        ]
        output(found, table(("partition", "replicas", "state"), rows), as_json=as_json)
        if set(states.values()) != {"complete"}:
            raise click.exceptions.Exit(1)

    with_admin(bootstrap_server, work)


@reassign.command("list")
@client_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def list_reassignments(bootstrap_server: str, as_json: bool) -> None:
    """List all reassignments in progress.

    Example: minikafka reassign list
    """

    async def work(admin: Admin) -> None:
        found = sorted((await admin.list_partition_reassignments()).items())
        if as_json:
            echo_json([details(tp, one) for tp, one in found])
        elif found:
            rows = [
                [f"{tp.topic}-{tp.partition}", numbers(one.replicas), numbers(one.adding), numbers(one.removing)]
                for tp, one in found
            ]
            echo("\n".join(table(("partition", "replicas", "adding", "removing"), rows)))
        else:
            echo("No reassignments in progress.")

    with_admin(bootstrap_server, work)


@reassign.command()
@client_options
@click.argument("plan", type=plan_file, required=False)
@click.option("--all", "everything", is_flag=True, help="Cancel all reassignments in progress.")
@json_option
def cancel(bootstrap_server: str, plan: Path | None, everything: bool, as_json: bool) -> None:
    """Cancel reassignments that are in progress.

    Cancels those of a PLAN, or --all.

    Example: minikafka reassign cancel plan.json
    """
    if (plan is None) != everything:
        raise click.UsageError("give either a PLAN or --all")
    targets = None if plan is None else read_plan(plan)

    async def work(admin: Admin) -> None:
        if targets is not None:
            await replicas_of(admin, targets, bootstrap_server)
        in_progress = await admin.list_partition_reassignments(targets)
        if in_progress:
            results = await admin.alter_partition_reassignments(dict.fromkeys(in_progress))
            fail_if(error for error in results.values() if error is not None)
        cancelled = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(in_progress)]
        said = f"Cancelled the reassignment of {counted(len(in_progress), 'partition')}."
        output({"cancelled": cancelled}, [said], as_json=as_json)

    with_admin(bootstrap_server, work)


def read_plan(path: Path) -> Plan:
    """Read the target replicas by partition from a file. Raises click.ClickException for a malformed file."""
    expected = '; expected {"partitions": [{"topic": "flights", "partition": 0, "replicas": [3, 2]}]}'
    return read_json(path, parse_plan, "a reassignment plan", expected)


def parse_plan(found: Any) -> Plan:
    """Convert parsed JSON to a plan. For another structure it raises one of the errors that `read_json` handles."""
    from minikafka.client import TopicPartition

    plan: Plan = {}
    for one in found["partitions"]:
        tp = TopicPartition(str(one["topic"]), int(one["partition"]))
        if tp in plan:
            raise ValueError(f"{tp.topic}-{tp.partition} is listed twice")
        plan[tp] = [int(node_id) for node_id in one["replicas"]]
    return plan


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """A plan as JSON text."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)} for tp, replicas in plan.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


async def replicas_of(
    admin: Admin, partitions: Plan, bootstrap_server: str, *, all_exist: bool = False
) -> dict[TopicPartition, tuple[int, ...] | None]:
    """The current replicas by partition; None for a partition that does not exist.

    Raises click.ClickException if no partition exists, or with `all_exist` if a partition does not exist.
    """
    topics = await admin.describe_topics(list(dict.fromkeys(tp.topic for tp in partitions)))
    known = {
        (name, one.index): one.replicas for name, topic in topics.items() for one in getattr(topic, "partitions", ())
    }
    missing = [tp for tp in partitions if tp not in known]
    if missing and (all_exist or len(missing) == len(partitions)):
        await led_partitions(admin, missing, bootstrap_server)
    return {tp: known.get(tp) for tp in partitions}


async def check_registered(admin: Admin, node_ids: set[int]) -> None:
    """Raise click.ClickException for ids that are not of a broker of the cluster."""
    known = {one.node_id for one in (await admin.describe_cluster(include_fenced=True)).brokers}
    fail_if(f"broker {one} does not exist: `minikafka brokers` lists all" for one in sorted(node_ids - known))


def state_of(target: Sequence[int], now: Sequence[int] | None, in_progress: Reassignment | None) -> str:
    """The state of a partition's reassignment to `target`."""
    if now is None:
        return "partition does not exist"
    if in_progress is not None:
        return "in progress"
    return "complete" if list(now) == list(target) else "not as planned, not in progress"


def details(tp: TopicPartition, one: Reassignment) -> dict[str, Any]:
    """A reassignment for JSON."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "replicas": list(one.replicas),
        "adding_replicas": list(one.adding),
        "removing_replicas": list(one.removing),
    }

