"""`ClientProcess`: what a client program needs: clients, names, randomness, recording, and pauses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import trio
from support.logins import Logins

from chaos.history import Action, Event, Outcome, Recorder
from chaos.workload.plan import Plan
from minikafka.client import Admin, Consumer, Producer
from minikafka.client.connections.seams import Seams
from minikafka.protocol.errors import KafkaError

FETCH_MIN_BYTES = (1, 500)


@dataclass(slots=True)
class ClientProcess:
    """One incarnation of a process with clients.

    Attributes:
        name: Unique in the history; after a restart the process has another one, as in "producer-1/3".
        random: The only source of random choices, besides that of `seams`.
        pace_s: The mean pause between two operations.
        patience_ms: The timeout of a request. A call of the client lasts three times as long at most.
        ended: Nothing more is recorded. To be set when the process is killed while its tasks are only dropped.
        clients: The number of clients so far.
    """

    name: str
    recorder: Recorder
    random: Random
    seams: Seams
    logins: Logins
    plan: Plan
    pace_s: float = 0.3
    patience_ms: int = 4000
    ended: bool = False
    clients: int = 0

    # Names and recording.

    @property
    def stable_name(self) -> str:
        """The name that all incarnations share."""
        return self.name.partition("/")[0]

    def client_name(self) -> str:
        """A name for the next client, which is a process of its own in the history."""
        self.clients += 1
        return f"{self.name}.{self.clients}"

    def invoke(self, client: str, action: Action) -> Event | None:
        """Record an invocation; None if the process has ended."""
        return None if self.ended else self.recorder.invoke(client, action)

    def complete(
        self, invocation: Event | None, outcome: Outcome, action: Action | None = None, error: object = ""
    ) -> None:
        """Record a completion."""
        if invocation is not None and not self.ended:
            self.recorder.complete(invocation, outcome, action, info=describe(error))

    def note(self, client: str, action: Action) -> None:
        """Record an operation that succeeds at once."""
        self.complete(self.invoke(client, action), Outcome.OK)

    def count(self, program: str, action: str, error: KafkaError | None = None) -> None:
        """Count a success, or an error."""
        if not self.ended:
            self.plan.coverage[f"{program}: {action}" + (f": {type(error).__name__}" if error else "")] += 1

    # Chance and time.

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    async def rest(self, factor: float = 1.0) -> None:
        """Pause for the pace of the process, more or less."""
        await trio.sleep(self.random.uniform(0.5, 1.5) * self.pace_s * factor)

    # Clients.

    def producer(self, **options: Any) -> Producer:
        """A producer whose records fail after three requests."""
        given = {**self._options(), "delivery_timeout_ms": 3 * self.patience_ms, "max_block_ms": 3 * self.patience_ms}
        return Producer(seams=self.seams, **{**given, **self.logins.load.minikafka, **options})

    def consumer(self, **options: Any) -> Consumer:
        """A consumer, which asks for records once a second if there are none; half of them wait for a few batches."""
        given = {**self._options(), "fetch_max_wait_ms": 1000, "auto_commit_interval_ms": 1000}
        given["fetch_min_bytes"] = self.random.choice(FETCH_MIN_BYTES)
        return Consumer(seams=self.seams, **{**given, **self.logins.load.minikafka, **options})

    def admin(self) -> Admin:
        """An admin client."""
        return Admin(seams=self.seams, **self._options(), **self.logins.admin.minikafka)

    def _options(self) -> dict[str, Any]:
        return {
            "client_id": self.name,
            "request_timeout_ms": self.patience_ms,
            "default_api_timeout_ms": 3 * self.patience_ms,
            "socket_connection_setup_timeout_ms": self.patience_ms,
            "metadata_max_age_ms": 15_000,
            "allow_auto_create_topics": False,
        }


def describe(error: object) -> str:
    """An error for the history: its class and its message."""
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)


async def live_on(process: ClientProcess, program: str, life: Callable[[ClientProcess], Awaitable[None]]) -> None:
    """Call `life` again and again until cancelled. A KafkaError is counted and ends a life."""
    while True:
        try:
            await life(process)
            process.count(program, "life")
        except KafkaError as error:
            process.count(program, "life", error)
        await process.rest()


Program = Callable[[ClientProcess], Awaitable[None]]
