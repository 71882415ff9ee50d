"""`make docs`: the site is built without a warning, where MkDocs is installed; CI builds it in any case."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import ROOT

pytestmark = pytest.mark.slow


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("MkDocs is missing, with which `make docs` builds the site")
    if not (ROOT / "build" / "typing").exists():
        pytest.skip("the links to the packages are missing, which `make docs` makes")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "site" / "tutorial" / "index.html").is_file()
