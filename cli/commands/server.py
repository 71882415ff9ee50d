"""`minikafka server`: runs a node in the foreground."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from minikafka.cli.arguments.numbers import Whole
from minikafka.cli.clusters.node_process import pid_file_of_this_process


@click.command()
@click.option("--node-id", type=Whole(bits=32), help="Id of the node (node.id).  [default: 1]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=Whole(0, 65535), help="Port to listen on; 0 picks a free one.  [default: 9092]")
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path),
    help="Data directory (log.dirs).  [default: minikafka-data/node-ID]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file, in the format of Kafka's server.properties.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="NAME=VALUE",
    help="Setting of the node, by Kafka's name; repeatable.",
)
@click.option(
    "--container",
    "in_container",
    is_flag=True,
    help="Use the defaults of minikafka's container image: listen on all addresses, tell clients to connect to "
    "localhost:9092, and keep data in /var/lib/kafka/data. As in Kafka's image, "
    "/mnt/shared/config/server.properties and the variable CLUSTER_ID are read.",
)
@click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warn", "error", "fatal"], case_sensitive=False),
    envvar="KAFKA_LOG4J_ROOT_LOGLEVEL",
    show_envvar=True,
    default="info",
    show_default=True,
    help="Lowest level of the log events that are written to standard error.",
)
def server(
    node_id: int | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config: Path | None,
    overrides: tuple[str, ...],
    in_container: bool,
    log_level: str,
) -> None:
    """Run a node. Prints `ready HOST:PORT` once it accepts clients; shuts down cleanly on SIGTERM, SIGHUP and Ctrl-C.

    Settings have Kafka's names. A node reads them from a file (--config), from environment variables and from --set;
    variables override the file, and --set overrides both. Variables are named as for Kafka's image: KAFKA_ or
    MINIKAFKA_, then the setting in capitals, with _ for a dot, __ for an underscore and ___ for a dash
    (MINIKAFKA_LOG_RETENTION_MS=1000).

    \b
    Examples:
      minikafka server --port 9092 --data-dir /tmp/kafka
      minikafka server --config server.properties --set log.retention.ms=3600000
    """
    with quick_imports():
        from minikafka.broker.node.main import CannotStart, run

    try:
        with pid_file_of_this_process(config):
            run(
                node_id=node_id,
                host=host,
                port=port,
                data_dir=data_dir,
                config=config,
                overrides=overrides,
                log_level=log_level,
                in_container=in_container,
            )
    except CannotStart as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collection, and without rich, which structlog imports for colored tracebacks.

    This saves a fifth of the time to `ready`.
    """
    gc.disable()
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` raise ImportError
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]
        gc.enable()
