"""Puts the log events of simulated machines into the trace, under the machine that logs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import MutableMapping
from typing import Any

import structlog

from simulation.world.world import World


def capture_logs(world: World) -> None:
    """Let structlog's and the client's log events become lines of the trace, until the world is closed.

    Debug events are dropped. A traceback is a bug that a machine has met; what is left of one that has ended is not.
    """
    trio_log = logging.getLogger("trio")  # it logs that descriptors have run out
    if not trio_log.handlers:
        trio_log.addHandler(logging.NullHandler())

    def capture(_: object, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        text = event.pop("event")
        if event.pop("exc_info", None) and world.running is not None and not world.running.ended:
            world.bugs.append(f"{text}: {traceback.format_exc()}")
        keys = "".join(f" {key}={value}" for key, value in sorted(event.items()))
        _trace(world, level, f"{text}{keys}")
        raise structlog.DropEvent

    structlog.configure(
        processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(20), cache_logger_on_first_use=False
    )
    world.on_close.append(structlog.reset_defaults)
    client = logging.getLogger("minikafka")
    handler = _Handler(world)
    client.addHandler(handler)
    client.propagate = False
    world.on_close.append(lambda: _release(client, handler))


def _release(logger: logging.Logger, handler: logging.Handler) -> None:
    logger.removeHandler(handler)
    logger.propagate = True


def _trace(world: World, level: str, text: str) -> None:
    machine = world.running
    if machine is not None and not machine.ended:
        world.trace(machine.host, f"{level}: {text}")


class _Handler(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        _trace(self._world, record.levelname.lower(), record.getMessage())
