"""The notebook of the examples runs from its first cell to its last, and has no outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOK = EXAMPLES / "flights.ipynb"
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def cells() -> list[Any]:
    found: list[Any] = json.loads(NOTEBOOK.read_text())["cells"]
    return found


def test_the_cells_run_in_order(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one namespace, as in Jupyter; with the session of the tests, which it must not stop."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for number, cell in enumerate(cells()):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
    finally:
        if "cluster" in namespace:
            namespace["cluster"].kill()
    assert "all 57 results agree with 8,000 flights" in capsys.readouterr().out
    assert namespace["picture"]._repr_svg_().count("<rect") > 10
    assert not namespace["folder"].exists()


def test_it_has_no_outputs_and_uses_the_format_of_jupyter() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in cells()}) == len(cells())
    for cell in cells():
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)
