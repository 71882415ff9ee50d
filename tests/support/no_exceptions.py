"""What functions of an application may raise though it is no `Exception`, and is not meant for the program."""

from __future__ import annotations

import asyncio

import pytest

NO_EXCEPTIONS = [asyncio.CancelledError(), GeneratorExit(), pytest.fail.Exception("no"), BaseException("mine")]
