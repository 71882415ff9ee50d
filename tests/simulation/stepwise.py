"""`StepwiseProducer`: a transactional producer that waits between its steps until the story goes on."""

from __future__ import annotations

from typing import Any

import anyio

from minikafka.client.connections.seams import Seams
from minikafka.client.producer.producer import Producer
from minikafka.protocol.errors import KafkaError
from simulation.story import Story


class StepwiseProducer:
    """See above.

    Args:
        options: Of the producer.
    """

    def __init__(self, story: Story, topic: str, transactional_id: str, *, host: str = "", **options: Any) -> None:
        self._story, self._topic = story, topic
        self._options = {"transactional_id": transactional_id, **options}
        self._steps: list[tuple[str, dict[str, Any]]] = []
        self._results: list[KafkaError | None] = []
        story.begin(self._run, host=host or f"client with {transactional_id}")

    def do(self, step: str, **arguments: Any) -> None:
        """Do `send` a record, which is acknowledged, or call a method of the producer. Raises what that raises."""
        self.start(step, **arguments)
        self._story.until(lambda: len(self._results) == len(self._steps))
        error = self._results[-1]
        if error is not None:
            raise error

    def start(self, step: str, **arguments: Any) -> None:
        """As `do`, without waiting for the end."""
        self._steps.append((step, arguments))

    @property
    def done(self) -> bool:
        """Whether all steps have ended."""
        return len(self._results) == len(self._steps)

    async def _run(self, seams: Seams) -> None:
        servers = self._story.cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers, seams=seams, **self._options) as producer:
            while True:
                while self.done:
                    await anyio.sleep(0.05)
                step, arguments = self._steps[len(self._results)]
                error: KafkaError | None = None
                try:
                    if step == "send":
                        await producer.send_and_wait(self._topic, **arguments)
                    else:
                        await getattr(producer, step)(**arguments)
                except KafkaError as raised:
                    error = raised
                self._results.append(error)
