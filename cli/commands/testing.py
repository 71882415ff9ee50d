"""`minikafka testing`: a cluster for tests, with faults on demand."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.commands.server import quick_imports


@click.group()
def testing() -> None:
    """Run clusters for tests.

    Example: minikafka testing serve --brokers 3 --control 127.0.0.1:9999
    """


def settings_in(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Read NAME=VALUE. Raises click.BadParameter."""
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise click.BadParameter(f"{one!r} must be NAME=VALUE")
        found[name.strip()] = value
    return found


@testing.command()
@click.option("--brokers", type=Whole(1, 9), default=1, help="Number of brokers, at most 9.  [default: 1]")
@click.option(
    "--port", type=Whole(1, 65526),
    help="Port of the first broker, which it keeps; the others have those that follow.  [default: free ones, which "
    "change when clients may be left from before a reset]",
)
@click.option(
    "--control", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT",
    help="Address of the control server, which speaks HTTP and JSON; port 0 picks a free one.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=settings_in,
    help="Setting of all nodes, by Kafka's name; repeatable.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warn", "error"]), default="warn", show_default=True,
    help="Lowest level of the log events that are written to standard error.",
)
@click.option("--until-eof", is_flag=True, help="End when standard input ends, as it does with the program that asks.")
def serve(
    brokers: int, port: int | None, control: str, settings: dict[str, str], log_level: str, *, until_eof: bool
) -> None:
    """Run a cluster for tests, until SIGTERM or Ctrl-C.

    Its data is in memory. Prints `ready ADDRESSES control HOST:PORT` once it serves clients: the addresses of the
    brokers, with commas, and of the control server. Who reaches the control server controls the cluster.

    \b
    Examples:
      minikafka testing serve --brokers 3 --control 127.0.0.1:9999
      curl -d '{"verb": "fail", "api": "Produce", "error": "CORRUPT_MESSAGE"}' http://127.0.0.1:9999/faults
    """
    with quick_imports():
        from minikafka.broker.node.logging_setup import ROOT, log_to_stderr, wants_colors
        from minikafka.broker.settings.node_config import ConfigError
        from minikafka.testing.control.http_server import ControlServer
        from minikafka.testing.control.verbs import Verbs
        from minikafka.testing.host.node_thread import NodeFailed
        from minikafka.testing.host.nodes import Nodes

    host, _, of_control = control.rpartition(":")
    if not host or not of_control.isdigit() or int(of_control) > 65535:
        raise click.UsageError(f"--control must be HOST:PORT, not {control!r}")
    log = log_to_stderr({ROOT: log_level.upper()}, colors=wants_colors(os.environ))
    gc.freeze()
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    nodes = Nodes(brokers, settings, port)
    try:
        nodes.start()
        with ControlServer(host, int(of_control), Verbs(nodes)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            print(f"ready {nodes.bootstrap_servers} control {server.address}", flush=True)
            if until_eof:
                threading.Thread(target=_wait_for_eof, args=(over,), daemon=True).start()
            over.wait()
            server.shutdown()
    except (NodeFailed, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        nodes.close()
        log.finish()


def _wait_for_eof(over: threading.Event) -> None:
    while sys.stdin.buffer.read(1024):
        pass
    over.set()
