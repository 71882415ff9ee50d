"""`Failures`: errors found in the background, which the application's next requests raise unless they are moot by then.

A seek, another assignment or another subscription makes them moot, or that the topic exists meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.errors import KafkaError

_ROOM_MIN = 100
"""So many errors may wait before those that are moot are looked for, or twice as many as mattered the last time."""


class Failures:
    """The errors that wait to be raised, the oldest first: one about each thing, and those of many partitions.

    Args:
        added: called with each new one, as the application may be waiting.
    """

    def __init__(self, added: Callable[[], None]) -> None:
        self._added = added
        self._about: dict[Hashable, tuple[KafkaError, Callable[[], bool], Callable[[], None]]] = {}
        self._room = _ROOM_MIN

    def add(
        self,
        error: KafkaError,
        about: Hashable,
        matters: Callable[[], bool] = lambda: True,
        raised: Callable[[], None] = lambda: None,
    ) -> None:
        """Have the next request raise this error if it matters then; not if another one about the same thing does.

        `raised` is called when it is.
        """
        known = self._about.get(about)
        if known is None or not known[1]():
            self._about[about] = error, matters, raised
        if len(self._about) > self._room:
            self._about = {key: one for key, one in self._about.items() if one[1]()}
            self._room = max(2 * len(self._about), _ROOM_MIN)
        self._added()

    def of_position(
        self, state: PartitionState, error: KafkaError, raised: Callable[[], None] = lambda: None
    ) -> None:
        """As `add`, for an error that any other position of the partition makes moot, and the loss of the partition."""
        self.of_positions([state], error, raised)

    def of_topic(self, state: PartitionState, error: KafkaError) -> None:
        """As `of_position`, for an error that is found again: not if one of the kind waits for another of the topic."""
        era = state.era
        self.add(error, (state.tp.topic, type(error)), lambda: state.era == era)

    def of_positions(
        self, states: Sequence[PartitionState], error: KafkaError, raised: Callable[[], None] = lambda: None
    ) -> None:
        """As `of_position`, for an error of any of these partitions. One of another kind does not take its place."""
        eras = [(one, one.era) for one in states]
        self.add(error, (type(error), *states), lambda: any(state.era == era for state, era in eras), raised)

    def __bool__(self) -> bool:
        return bool(self._about) and self._oldest() is not None

    def take(self) -> KafkaError | None:
        """The next one that matters, which is raised once."""
        about = self._oldest()
        if about is None:
            return None
        error, _, raised = self._about.pop(about)
        raised()
        return error

    def _oldest(self) -> Hashable | None:
        for about, (_, matters, _) in list(self._about.items()):
            if matters():
                return about
            del self._about[about]
        return None
