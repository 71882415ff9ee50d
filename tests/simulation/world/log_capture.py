"""Puts the log events of simulated machines into the trace, under the machine that logs."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import structlog

from simulation.world.world import World


def capture_logs(world: World) -> None:
    """Configure structlog: events of machines become lines of the trace. Debug events are dropped."""

    def capture(_: object, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        machine = world.running
        if level != "debug" and machine is not None and not machine.ended:
            text = event.pop("event")
            keys = "".join(f" {key}={value}" for key, value in sorted(event.items()))
            world.trace(machine.host, f"{level}: {text}{keys}")
        raise structlog.DropEvent

    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
