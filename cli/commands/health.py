"""`minikafka health`: checks a cluster, for people, scripts and probes; the exit code is 1 if it is not healthy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.options import Seconds, client_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client import Admin, ClusterDescription, ConfigEntry, KafkaError, LogDirectory, QuorumDescription
    from minikafka.client.connections.cluster_metadata import Partition, Topic

CHECKS = ("brokers", "controller", "disks", "offline", "under-min-isr", "under-replicated")
LISTED_MAX = 5
VOTER_PATIENCE_MS = 10_000
"""For how long a voter may be silent: a restart takes less."""
_MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True)
class Check:
    """The result of a check: its name, the problems found, and the text to print if there are none."""

    name: str
    problems: list[str]
    well: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """The details for JSON."""
        return {"check": self.name, "ok": not self.problems, "problems": self.problems}

    @property
    def line(self) -> str:
        """The line of text, with at most `LISTED_MAX` problems."""
        if not self.problems:
            return f"ok    {self.name}: {self.well}"
        more = f", and {len(self.problems) - LISTED_MAX:,} more" if len(self.problems) > LISTED_MAX else ""
        return f"FAIL  {self.name}: {'; '.join(self.problems[:LISTED_MAX])}{more}"


@click.command()
@client_options
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(0.1),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that each broker has to answer.",
)
@click.option("--ignore", multiple=True, type=click.Choice(CHECKS), help="Leave out this check; repeatable.")
@json_option
def health(bootstrap_server: str, timeout_s: float, ignore: tuple[str, ...], as_json: bool) -> None:
    """Check that all brokers answer, that there is a controller, that no disk is full or failed, and that partitions
    have leaders and replicas in sync. A replica counts only if its broker answers.

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
    from minikafka.cli.commands.topics import described

    cluster = await admin.describe_cluster(include_fenced=True)
    topics = list((await described(admin, None)).values())
    settings = await admin.describe_topic_configs([one.name for one in topics], keys=[_MIN_ISR]) if topics else {}
    answers = await ask_brokers(admin, cluster, timeout_s)
    live = {node_id for node_id, one in answers.items() if not isinstance(one, str)}
    offline, under_min, under = partition_checks(topics, min_isrs(settings), live)
    return [
        brokers_check(cluster, answers),
        await controller_check(admin),
        disks_check(answers),
        offline,
        Check(under_min.name, [*under_min.problems, *unknown_min_isrs(settings)], under_min.well),
        under,
    ]


Answers = dict[int, "list[LogDirectory] | KafkaError | str"]
"""By broker that is not fenced: its data directories, the error with which it refuses to tell them, or the reason why
it does not answer."""


async def ask_brokers(admin: Admin, cluster: ClusterDescription, timeout_s: float) -> Answers:
    """Ask every broker at the same time for its data directories."""
    import anyio

    answers: Answers = {}

    async def ask(node_id: int) -> None:
        from minikafka.protocol.errors import ClusterAuthorizationFailedError, KafkaError

        answers[node_id] = f"broker {node_id} does not answer within {timeout_s:g} s"
        with anyio.move_on_after(timeout_s):
            try:
                answers.update(await admin.describe_log_dirs([node_id]))
            except ClusterAuthorizationFailedError as error:
                answers[node_id] = error
            except KafkaError as error:
                answers[node_id] = f"broker {node_id}: {error}"

    async with anyio.create_task_group() as tasks:
        for one in cluster.brokers:
            if one.node_id not in cluster.fenced:
                tasks.start_soon(ask, one.node_id)
    return answers


def brokers_check(cluster: ClusterDescription, answers: Answers) -> Check:
    """Check that all brokers answer. A fenced broker is a problem."""
    problems = {one: f"broker {one} is fenced: it sends no heartbeats" for one in cluster.fenced}
    problems |= {node_id: one for node_id, one in answers.items() if isinstance(one, str)}
    listed = [text for _, text in sorted(problems.items())]
    return Check("brokers", listed, f"{len(answers)} of {len(cluster.brokers)} answer")


def disks_check(answers: Answers) -> Check:
    """Check that all data directories work, and have room. One that is not known is a problem."""
    from minikafka.cli.commands.log_dirs import is_full, size_text

    found = [(node_id, one) for node_id, some in sorted(answers.items()) if isinstance(some, list) for one in some]
    problems = [
        f"those of broker {node_id} are not known: {some} (it needs DESCRIBE on the cluster)"
        for node_id, some in sorted(answers.items())
        if isinstance(some, Exception)
    ]
    for node_id, one in found:
        where = f"{one.path} of broker {node_id}"
        if one.error is not None:
            problems.append(f"{where}: {one.error}")
        elif is_full(one):
            left = f"{size_text(one.usable_bytes)} of {size_text(one.total_bytes)} left"
            problems.append(f"the disk of {where} is full: {left}")
    return Check("disks", problems, f"{counted(len(found), 'data directory has', 'data directories have')} room")


async def controller_check(admin: Admin) -> Check:
    """Check that the controller quorum has a leader, which all voters follow."""
    from minikafka.protocol.errors import ClusterAuthorizationFailedError, KafkaError

    try:
        quorum = await admin.describe_quorum()
    except ClusterAuthorizationFailedError as error:
        return Check("controller", [f"the quorum is not known: {error} (it needs DESCRIBE on the cluster)"])
    except KafkaError as error:
        return Check("controller", [f"the controllers do not answer: {error}"])
    if quorum.leader_id < 0:
        return Check("controller", ["the quorum has no leader"])
    well = f"node {quorum.leader_id} leads a quorum of {len(quorum.voters)}"
    return Check("controller", silent_voters(quorum), well)


def silent_voters(quorum: QuorumDescription) -> list[str]:
    """Each voter that does not follow the leader, in words: with one more of them there may be no majority."""
    times = {one.node_id: one.last_fetch_time_ms for one in quorum.voters}
    now = times.get(quorum.leader_id, -1)
    silent = {node_id: time for node_id, time in times.items() if now - time > VOTER_PATIENCE_MS}
    return [
        f"voter {node_id} has not fetched the metadata log "
        + (f"for {(now - time) / 1000:.0f} s" if time >= 0 else f"since node {quorum.leader_id} leads")
        for node_id, time in sorted(silent.items())
    ]


Settings = Mapping[str, "Mapping[str, ConfigEntry] | KafkaError"]
"""By topic: its settings, or why they are not known."""


def min_isrs(settings: Settings) -> dict[str, int]:
    """`min.insync.replicas` by topic; topics that were deleted meanwhile, and those that may not be described, have
    none."""
    return {
        name: int(found[_MIN_ISR].value or 1)
        for name, found in settings.items()
        if isinstance(found, Mapping) and _MIN_ISR in found
    }


def unknown_min_isrs(settings: Settings) -> list[str]:
    """The topics whose `min.insync.replicas` the user may not know, as problems."""
    from minikafka.protocol.errors import TopicAuthorizationFailedError

    return [
        f"{_MIN_ISR} of topic {name} is not known: {one} (it needs DESCRIBE_CONFIGS on the topic)"
        for name, one in settings.items()
        if isinstance(one, TopicAuthorizationFailedError)
    ]


def partition_checks(topics: Sequence[Topic], needed: Mapping[str, int], live: Collection[int]) -> list[Check]:
    """Check that all partitions have a leader, the in-sync replicas that producers need, and all replicas in sync.

    Args:
        topics: the topics with their partitions.
        needed: `min.insync.replicas` by topic; a topic without it is not checked for it.
        live: the ids of the brokers that answer. The metadata may still name brokers that have gone.
    """
    partitions = [(topic.name, one) for topic in topics for one in topic.partitions]
    offline = [f"{name}-{one.index} {why}" for name, one in partitions if (why := why_offline(one, live))]
    under_min = [
        f"{shown(name, one, live)}, {_MIN_ISR}={needed[name]}"
        for name, one in partitions
        if name in needed and len(in_sync(one, live)) < min(needed[name], len(one.replicas))
    ]
    under = [shown(name, one, live) for name, one in partitions if len(in_sync(one, live)) < len(one.replicas)]
    return [
        Check("offline", offline, f"{counted(len(partitions), 'partition has', 'partitions have')} a leader"),
        Check("under-min-isr", under_min, "all have the replicas in sync that acks=all needs"),
        Check("under-replicated", under, "all replicas are in sync"),
    ]


def why_offline(one: Partition, live: Collection[int]) -> str:
    """The reason why a partition cannot be used; "" if it can."""
    if one.leader < 0:
        return "has no leader"
    return "" if one.leader in live else f"has a leader, {one.leader}, that does not answer"


def in_sync(one: Partition, live: Collection[int]) -> list[int]:
    """The replicas in sync at brokers that answer."""
    return [replica for replica in one.in_sync_replicas if replica in live]


def shown(name: str, one: Partition, live: Collection[int]) -> str:
    """A partition with the number of its in-sync replicas, as text."""
    return f"{name}-{one.index} has {len(in_sync(one, live))} of {counted(len(one.replicas), 'replica')} in sync"
