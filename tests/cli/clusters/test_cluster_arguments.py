"""`LocalCluster` takes any argument, or refuses it by name; nothing was written then."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.local_cluster import LocalCluster

NASTY: list[Any] = [
    None, True, False, -1, 0, 2, 1 << 63, 10**5000, 1.5, float("nan"), 1j, "", "3", "a\0b", b"x", [], ["a"], {}, {5: 1},
    {"x": 1}, {1: 5}, {1: {}}, {"1": {}}, {9: {}}, {1: {5: 1}}, object(), object,
]  # fmt: skip
DECIDED = ("brokers", "controllers", "port", "settings", "isolated", "node_settings")
"""What can be of its kind and impossible, which a ClusterError says."""
ARGUMENTS = list(inspect.signature(LocalCluster).parameters)


def refusal(arguments: dict[str, Any]) -> str | None:
    """The message with which these are refused."""
    try:
        LocalCluster(**arguments)
    except ClusterError as error:
        return f"{error}"
    except (TypeError, ValueError) as error:
        text = f"{error}"
        return text if text.startswith("LocalCluster(") or "has no node" in text else f"does not name it: {text}"
    return None


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("existing", [False, True], ids=["new", "existing"])
def test_any_value_of_any_argument_is_taken_or_refused_by_name(
    name: str, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, value in enumerate(NASTY):
        directory = tmp_path / f"{number}"
        arguments: dict[str, Any] = {"directory": directory}
        if existing:
            LocalCluster(directory, brokers=1)
        before = sorted(tmp_path.rglob("*"))
        refused = refusal(arguments | {name: value})
        if refused is not None:
            assert sorted(tmp_path.rglob("*")) == before
            assert refused.startswith(f"LocalCluster({name}") or "has no node" in refused or (
                name in DECIDED and "does not name it" not in refused
            ), (value, refused)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", ["brokers", "controllers"])
def test_a_cluster_of_no_node_is_refused(name: str, value: int, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="at least one broker and one controller"):
        LocalCluster(tmp_path / "new", **{name: value})  # type: ignore[arg-type]
    LocalCluster(tmp_path / "old", brokers=1)
    with pytest.raises(ClusterError, match=r"holds 1 broker; use|holds a quorum of 1"):
        LocalCluster(tmp_path / "old", **{name: value})  # type: ignore[arg-type]


def test_a_directory_is_a_path_or_its_name(tmp_path: Path) -> None:
    made = LocalCluster(str(tmp_path / "a"), brokers=1)
    assert made.directory == LocalCluster(tmp_path / "a").directory == tmp_path / "a"


@pytest.mark.parametrize("method", ["start", "stop", "wait_ready", "wait_in_sync"])
@pytest.mark.parametrize("timeout_s", ["x", None, float("nan")], ids=repr)
def test_a_timeout_that_is_no_number_is_refused_before_anything_is_done(
    method: str, timeout_s: Any, tmp_path: Path
) -> None:
    cluster = LocalCluster(tmp_path, brokers=1)
    refused = re.escape(f"{method}(timeout_s={timeout_s!r}): must be a number")
    with pytest.raises((TypeError, ValueError), match=refused):
        getattr(cluster, method)(timeout_s=timeout_s)
    assert not cluster.running(1)
