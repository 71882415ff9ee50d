"""`minikafka server`: one node in the foreground."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


@click.command()
@click.option("--node-id", type=int, help="node.id; 1 where nothing says otherwise.")
@click.option("--host", help="The address to listen on; 127.0.0.1 where nothing says otherwise.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one, 9092 is the default.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="log.dirs: where all is kept.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties as for Apache Kafka.",
)
@click.option("--set", "overrides", multiple=True, metavar="name=value", help="A setting by Kafka's name; repeatable.")
@click.option(
    "--log-level",
    type=click.Choice(["trace", "debug", "info", "warn", "error", "fatal"]),
    default="info",
    show_default=True,
    help="What is logged on standard error.",
)
def server(
    node_id: int | None,
    host: str | None,
    port: int | None,
    data_dir: Path | None,
    config: Path | None,
    overrides: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a node; prints `ready HOST:PORT` when clients can be served, stops cleanly on SIGTERM and Ctrl-C.

    Every setting of Apache Kafka is known: in a file, by --set, or in the environment (KAFKA_LOG_RETENTION_MS=1000).

    \b
    Examples:
      minikafka server --port 9092 --data-dir /tmp/kafka
      minikafka server --config server.properties --set log.retention.ms=3600000
    """
    with quick_imports():
        from minikafka.broker.node.main import CannotStart, run

    take_over(config)
    try:
        run(
            node_id=node_id,
            host=host,
            port=port,
            data_dir=data_dir,
            config=config,
            overrides=overrides,
            log_level=log_level,
        )
    except CannotStart as error:
        raise click.ClickException(str(error)) from error


def take_over(config: Path | None) -> None:
    """Where a file `pid` lies beside the configuration, as in a local cluster, it is this process's from now on."""
    if config is not None and (config.parent / "pid").exists():
        (config.parent / "pid").write_text(f"{os.getpid()}\n")


@contextmanager
def quick_imports() -> Iterator[None]:
    """A fifth of the time to `ready`: fresh modules hold no garbage worth a search, and structlog would import
    rich, where it is installed, for tracebacks in colour."""
    gc.disable()
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # what an ImportError is made of
    try:
        yield
    finally:
        if hidden:
            del sys.modules["rich"]
        gc.enable()
