"""`Failures`: errors of a consumer's background tasks, which the application's next requests raise if still relevant.

A seek, another assignment or another subscription makes an error obsolete, and so does the creation of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from minikafka.client.consumer.partition_state import PartitionState
from minikafka.protocol.errors import KafkaError

_ROOM_MIN = 100
"""Obsolete errors are removed once more errors wait than this, or twice as many as remained the last time."""


class Failures:
    """The errors that wait to be raised, the oldest first; at most one for each subject (`about`).

    Args:
        added: called after each new error, as the application may be waiting.
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
        """Make the application's next request raise this error, unless a relevant error with the same subject waits.

        Args:
            about: the subject of the error, such as a node or a partition.
            matters: returns whether the error is still relevant; otherwise it is dropped.
            raised: called when the error is raised.
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
        """Add an error that becomes obsolete when the partition's position is changed or the partition is lost."""
        self.of_positions([state], error, raised)

    def of_topic(self, state: PartitionState, error: KafkaError) -> None:
        """Add a recurring error of a position, unless an error of that class waits for any partition of the topic."""
        era = state.era
        self.add(error, (state.tp.topic, type(error)), lambda: state.era == era)

    def of_positions(
        self, states: Sequence[PartitionState], error: KafkaError, raised: Callable[[], None] = lambda: None
    ) -> None:
        """Add an error of several positions; it is obsolete when all have changed. Errors of other classes are kept."""
        eras = [(one, one.era) for one in states]
        self.add(error, (type(error), *states), lambda: any(state.era == era for state, era in eras), raised)

    def __bool__(self) -> bool:
        return bool(self._about) and self._oldest() is not None

    def take(self) -> KafkaError | None:
        """Remove and return the oldest relevant error; None if there is none."""
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
