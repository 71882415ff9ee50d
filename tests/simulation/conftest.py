"""Fixtures of the simulation's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.story import Story, Tell


@pytest.fixture
def tell() -> Iterator[Tell]:
    """Begins a story, and checks at the end of the test that no process has failed."""
    begun: list[Story] = []

    def begin(*arguments: object, **options: object) -> Story:
        begun.append(Story(*arguments, **options))  # type: ignore[arg-type]
        return begun[-1]

    yield begin
    for story in begun:
        story.end()
