"""Fixtures of the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs


@pytest.fixture
def quiet() -> Iterator[None]:
    """Thousands of errors are not printed."""
    with capture_logs():
        yield
