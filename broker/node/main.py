"""Runs a node in this process: reads the settings, and gives the node the real clock, disk, randomness and signals.

`serve` and the functions that it calls take clock, disk, randomness and signals as arguments, so that a simulation can
run whole clusters.
"""

import gc
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import structlog
import trio

from minikafka.broker.node.allocator import return_large_buffers
from minikafka.broker.node.cluster_id import choose_cluster_id, chosen_cluster_id
from minikafka.broker.node.controller_node import ControllerNode
from minikafka.broker.node.descriptors import connections_max, open_files_max, raise_descriptor_limit, tools_max
from minikafka.broker.node.directory_kinds import why_no_data_directory, why_not_together, why_several
from minikafka.broker.node.full_disk import first_of, full_disk_behind
from minikafka.broker.node.log_writer import LogWriter
from minikafka.broker.node.logging_setup import ROOT, log_to_stderr, wants_colors
from minikafka.broker.node.node import Node
from minikafka.broker.node.stack_sampler import StackSampler
from minikafka.broker.node.start_errors import why_not_started
from minikafka.broker.node.step_watch import StepLog, StepWatch
from minikafka.broker.node.stuck_loop import StuckLoop
from minikafka.broker.node.system import System
from minikafka.broker.settings.container import MOUNTED_CONFIG
from minikafka.broker.settings.node_config import ConfigError, NodeConfig, load_config
from minikafka.broker.settings.properties_file import PropertiesError, bytes_of, lines_of, read_properties
from minikafka.broker.settings.rules import Problem
from minikafka.broker.settings.sasl_settings import InvalidSaslSetting
from minikafka.client.security.tls_settings import InvalidTlsSetting
from minikafka.controller.metadata.records import UnreadableRecord
from minikafka.controller.quorum.listening_sockets import check_address
from minikafka.protocol.errors import KafkaError
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.logs.recovery import CorruptLog

GARBAGE_COLLECTION_THRESHOLD = 50_000
STACKS = "LONG_STEP_STACKS"
"""An environment variable: `1` adds the stack to each long step that is logged."""
DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 9092


class CannotStart(Exception):
    """The node cannot start. The text names the problem and its place."""


class Outputs(NamedTuple):
    """The writers of standard output and standard error, which never wait for a reader.

    Attributes:
        ready: Standard output, for the line `ready HOST:PORT`.
        log: Standard error, for the log.
    """

    ready: LogWriter
    log: LogWriter


_REFUSALS = (
    InvalidSaslSetting,
    InvalidTlsSetting,
    KafkaError,
    WrongDirectory,
    UnreadableRecord,
    BrokenCheckpoint,
    CorruptLog,
)


def run(
    *,
    node_id: int | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config: Path | None,
    overrides: Sequence[str],
    log_level: str,
    in_container: bool = False,
) -> None:
    """Run a node until SIGTERM or Ctrl-C; prints `ready HOST:PORT` on standard output when clients can be served.

    With `in_container`, the settings are read as `configure` says, and new data directories get the cluster id of the
    environment.

    Raises:
        CannotStart: Settings are invalid (the text has all problems); a port or a directory cannot be used; the data is
            damaged, belongs to another node, or was written by a newer minikafka; or the cluster refused this broker's
            registration.
        OSError: The settings cannot be read.
    """
    levels = {ROOT: log_level.upper()}
    outputs = Outputs(ready=LogWriter(sys.stdout), log=log_to_stderr(levels, colors=wants_colors(os.environ)))
    try:
        settings = configure(
            node_id=node_id,
            host=host,
            port=port,
            data_dir=data_dir,
            config=config,
            overrides=overrides,
            in_container=in_container,
        )
        _run(settings, levels, outputs, in_container=in_container)
    except (ConfigError, PropertiesError) as error:
        raise CannotStart(str(error)) from error
    finally:
        outputs.ready.finish()
        outputs.log.finish()


def _run(settings: NodeConfig, levels: dict[str, str], outputs: Outputs, *, in_container: bool) -> None:
    """Run a node with these settings. Raises CannotStart."""
    if why := why_not_together(settings.log_dirs, settings.metadata_log_dir):
        raise CannotStart(why)
    for directory in (*settings.log_dirs, settings.metadata_log_dir):
        if why := why_no_data_directory(Path(directory)):
            raise CannotStart(why)
    _keep_from_others()
    return_large_buffers()
    gc.freeze()
    gc.set_threshold(GARBAGE_COLLECTION_THRESHOLD)
    try:
        cluster_id = chosen_cluster_id(os.environ) if in_container else None
        watch = _step_watch()
        if settings.metrics_listener is not None:
            import_module("minikafka.broker.node.metrics_parts")  # takes long: here no client waits
        trio.run(_serve, settings, levels, cluster_id, watch, outputs, instruments=[watch])
    except (*_REFUSALS, OSError, BaseExceptionGroup) as error:
        raise why_ended(error, settings) from error


def _keep_from_others() -> None:
    """Take from other users all rights to the files that this process creates: they have the records of all topics."""
    os.umask(os.umask(0o077) | 0o007)


def _step_watch() -> StepWatch:
    """Make the instrument that logs long steps of this process's tasks, with their stacks if the user wants them."""
    watch = StepWatch(StepLog(time.monotonic).found, clock=time.perf_counter, cpu_clock=time.thread_time)
    gc.callbacks.append(watch.collection)
    if os.environ.get(STACKS) == "1":
        StackSampler(watch, time.perf_counter)
    return watch


def configure(
    *,
    node_id: int | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config: Path | None,
    overrides: Sequence[str],
    in_container: bool = False,
) -> NodeConfig:
    """The settings from the command line, the environment and the file, in this order of precedence.

    In a container the defaults are those of minikafka's image. If no file is named there, `MOUNTED_CONFIG` is read.
    Raises CannotStart for a path of several directories, ConfigError, PropertiesError.
    """
    given: dict[str, str] = {}
    if node_id is not None:
        given["node.id"] = str(node_id)
    if host is not None or port is not None:
        address = f"[{host}]" if host and ":" in host else host or DEFAULT_HOST
        given["listeners"] = f"PLAINTEXT://{address}:{DEFAULT_PORT if port is None else port}"
    if data_dir is not None:
        if why := why_several(data_dir):
            raise CannotStart(why)
        given["log.dirs"] = str(data_dir)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise ConfigError((Problem(name, None, "--set takes name=value"),))
        given[name.strip()] = value
    if config is None and in_container and Path(MOUNTED_CONFIG).exists():
        config = Path(MOUNTED_CONFIG)
    properties, places = _read_file(config) if config is not None else ({}, {})
    return load_config(
        properties=properties, environment=os.environ, settings=given, in_container=in_container, places=places
    )


def _read_file(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The settings in a file, and the place of each setting in words (`PATH, line NUMBER`)."""
    data = bytes_of(path)
    try:
        return read_properties(data), {name: f"{path}, line {line}" for name, line in lines_of(data).items()}
    except PropertiesError as error:
        raise PropertiesError(f"{path}, {error}") from error


def cause_of(error: BaseException) -> BaseException:
    """The exception that ended a node: the first one that is not a group, since each nursery makes a group.

    If the data is unusable or the cluster refused the registration, a `CannotStart` with the same text is returned.
    """
    error = first_of(error)
    return CannotStart(str(error)) if isinstance(error, _REFUSALS) else error


def why_ended(error: BaseException, config: NodeConfig) -> BaseException:
    """The exception for the user: a `CannotStart` in terms of the settings, or `error`'s cause if it is a bug."""
    cause = cause_of(error)
    if isinstance(cause, CannotStart):
        cause = full_disk_behind(error) or cause
    return CannotStart(why_not_started(cause, config)) if isinstance(cause, OSError) else cause


def make_node(config: NodeConfig, system: System) -> Node | ControllerNode:
    """Make a node with the roles that its settings name. The node is not started."""
    return Node(config, system) if config.is_broker else ControllerNode(config, system)


async def serve(
    node: Node | ControllerNode,
    signals: AsyncIterator[int],
    *,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a node until the first signal. `task_status` receives the node's address.

    Cancellation closes the logs, but does not tell the cluster.

    Raises:
        BaseException: See `cause_of` and `Node.run`.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, node, signals)
        await node.run(task_status=task_status)
        nursery.cancel_scope.cancel()


async def _serve(
    config: NodeConfig, levels: dict[str, str], cluster_id: str | None, watch: StepWatch, outputs: Outputs
) -> None:
    check_addresses(config)
    descriptors = raise_descriptor_limit()
    files = open_files_max(descriptors)
    system = System(
        disk=RealDisk(open_files_max=files),
        now_ms=wall_clock_ms,
        random=random.SystemRandom(),  # from the ids that others see, nobody can compute those of topics
        log_levels=levels,
        connections_max=connections_max(descriptors),
        tools_max=tools_max(descriptors),
        loop=watch,
        steady=time.perf_counter,
    )
    if cluster_id is not None:
        choose_cluster_id(system.disk, config.static, cluster_id, system.random)
    is_kept = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN  # by nohup
    stops = (signal.SIGTERM, signal.SIGINT, *(() if is_kept else (signal.SIGHUP,)))
    stuck = StuckLoop(finish_log=outputs.log.finish)
    with trio.open_signal_receiver(*stops) as signals, stuck.watching(*stops):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stuck.run)
            await serve(make_node(config, system), signals, task_status=_Announcement(outputs.ready))
            nursery.cancel_scope.cancel()


def check_addresses(config: NodeConfig) -> None:
    """Bind all listeners and close them, so that a node whose port is in use makes no data directory.

    Raises OSError: a port is in use, or an address does not belong to this machine.
    """
    controllers = config.listeners.for_controllers if config.is_controller else ()
    metrics = () if config.metrics_listener is None else (config.metrics_listener,)
    for listener in (*config.listeners.for_clients, *controllers, *metrics):
        check_address(listener.host, listener.port)


async def _stop_on_signal(node: Node | ControllerNode, signals: AsyncIterator[int]) -> None:
    async for number in signals:
        structlog.get_logger("minikafka").info("stopping", signal=signal.Signals(number).name)
        node.stop()


class _Announcement:
    """Prints the address once the node serves clients. A node that is stopped earlier prints no address."""

    def __init__(self, out: LogWriter) -> None:
        self._out = out

    def started(self, value: str = "") -> None:
        self._out.write(f"ready {value}\n")


def wall_clock_ms() -> int:
    """The wall clock of this machine, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
