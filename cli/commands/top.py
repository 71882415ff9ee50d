"""`minikafka top`: shows brokers, groups and topics with their rates, redrawn in place."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.arguments.options import Seconds, client_options
from minikafka.cli.commands.top_rows import GroupSample, Sample, details, lines
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.keys import Keys, keys_of_terminal
from minikafka.cli.terminal.output import echo_json, json_option
from minikafka.cli.terminal.redraw import Redrawing

if TYPE_CHECKING:
    from minikafka.client import Admin, TopicPartition
    from minikafka.client.connections.cluster_metadata import Topic

API_TIMEOUT_MS = 5_000
"""The timeout of requests, short so that a dead leader is passed over soon and the screen stays current."""
GROUPS_MAX = 100


@click.command()
@client_options
@click.option(
    "--interval",
    "interval_s",
    type=Seconds(0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples, over which rates are measured.",
)
@click.option("--count", type=Whole(1), help="End after this many samples.  [default: at Ctrl-C or q]")
@click.option(
    "--rows", "rows_max", type=Whole(1), default=10, show_default=True,
    help="Highest number of rows in each table.",
)
@click.option("--internal", is_flag=True, help="Include internal topics, such as __consumer_offsets.")
@json_option
def top(
    bootstrap_server: str, interval_s: float, count: int | None, rows_max: int, internal: bool, as_json: bool
) -> None:
    """Watch a cluster: the load of brokers, the lag and the progress of groups, the busiest topics.

    On a terminal, q or Ctrl-C ends the command.

    Rates are in records per second: how fast the ends of partitions and the committed offsets of groups grow. With
    --json, each sample is a line.

    \b
    Examples:
      minikafka top --interval 5
      minikafka top --count 1 --json
    """

    async def work(admin: Admin, keys: Keys) -> None:
        from minikafka.protocol.errors import KafkaError

        screen, before, looks = Redrawing(sys.stdout), None, 0
        while True:
            try:
                now = await sample(admin, internal=internal)
                frame, before = details(before, now), now
                text = lines(frame, rows_max)
            except KafkaError as error:
                if as_json or not looks:
                    raise
                text = [f"Error: {error}"]
            if as_json:
                echo_json(frame)
            else:
                screen.show([f"{text[0]}{keys.hint}", *text[1:]])
            looks += 1
            if looks == count or await keys.are_quit(interval_s):
                return

    with keys_of_terminal(wanted=not as_json) as keys:
        with_admin(bootstrap_server, lambda admin: work(admin, keys), default_api_timeout_ms=API_TIMEOUT_MS)


async def sample(admin: Admin, *, internal: bool) -> Sample:
    """Look at a cluster once. Raises KafkaError."""
    from minikafka.cli.commands.topics import described
    from minikafka.client import LATEST

    cluster = await admin.describe_cluster()
    found = list((await described(admin, None)).values())
    groups = await sampled_groups(admin)
    ends = await admin.list_offsets(dict.fromkeys(led(found), LATEST))
    return Sample(
        time.monotonic(),
        cluster,
        await controller(admin),
        [one for one in found if internal or not one.is_internal],
        {tp: one.offset for tp, one in ends.items() if internal or tp.topic in listed(found)},
        await sizes(admin),
        groups,
    )


async def controller(admin: Admin) -> int | None:
    """The node id of the active controller, -1 if there is none; None if the user may not know it."""
    from minikafka.protocol.errors import ClusterAuthorizationFailedError

    try:
        return (await admin.describe_quorum()).leader_id
    except ClusterAuthorizationFailedError:
        return None


def led(topics: list[Topic]) -> list[TopicPartition]:
    """The partitions that have a leader."""
    from minikafka.client import TopicPartition

    return [TopicPartition(topic.name, one.index) for topic in topics for one in topic.partitions if one.leader >= 0]


def listed(topics: list[Topic]) -> set[str]:
    """The names of topics that are not internal."""
    return {one.name for one in topics if not one.is_internal}


async def sampled_groups(admin: Admin) -> list[GroupSample]:
    """The groups of consumers with their committed offsets; at most `GROUPS_MAX`, the first by name."""
    from minikafka.cli.commands.groups import consumer_groups
    from minikafka.protocol.errors import GroupIdNotFoundError

    samples = []
    names = sorted(one.group_id for one in await consumer_groups(admin))
    for name in names[:GROUPS_MAX]:
        try:
            one = await admin.describe_group(name)
        except GroupIdNotFoundError:  # deleted since
            continue
        committed = {tp: found.offset for tp, found in (await admin.list_group_offsets(name)).items()}
        samples.append(GroupSample(name, one.state, len(one.members), committed))
    return samples


async def sizes(admin: Admin) -> dict[str, int]:
    """The size of each topic in bytes, with all its replicas; of none if the user may not know them."""
    from minikafka.protocol.errors import ClusterAuthorizationFailedError

    found: dict[str, int] = {}
    try:
        described = await admin.describe_log_dirs()
    except ClusterAuthorizationFailedError:
        return found
    for directories in described.values():
        for directory in directories:
            for tp, replica in directory.replicas.items():
                found[tp.topic] = found.get(tp.topic, 0) + replica.size_bytes
    return found
