"""Settings of `minikafka cluster --set` and `LocalCluster`: checked before they are written, and taken back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.command_line import Minikafka

from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.local_cluster import LocalCluster


def texts(cluster: LocalCluster) -> list[str]:
    return [cluster.config(node_id).read_text() for node_id in cluster.node_ids]


BAD = {
    "num.partitions=none": "num.partitions=none: Not a number of type INT",
    "listeners=nonsense": "listeners=nonsense: ",
    "process.roles=cook": "process.roles=cook: ",
    "metrics.listener=gopher://x": "metrics.listener=gopher://x: ",
}


@pytest.mark.parametrize("setting", BAD)
def test_settings_that_no_node_can_start_with_are_not_written(
    setting: str, minikafka: Minikafka, tmp_path: Path
) -> None:
    ran = minikafka("cluster", "--brokers", "2", "--data-dir", str(tmp_path / "new"), "--set", setting)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"Error: {BAD[setting]}")
    assert not (tmp_path / "new").exists()
    existing = LocalCluster(tmp_path / "old", brokers=2)
    before = texts(existing)
    again = minikafka("cluster", "--data-dir", str(tmp_path / "old"), "--set", setting)
    assert (again.code, again.err) == (1, ran.err)
    assert texts(existing) == before


def test_a_setting_of_one_node_is_checked_before_those_of_others_are_written(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=2)
    before = texts(cluster)
    with pytest.raises(ClusterError, match=r"^num\.partitions=0: Value must be at least 1"):
        LocalCluster(tmp_path, settings={"log.roll.ms": 5}, node_settings={2: {"num.partitions": 0}})
    assert texts(cluster) == before


def test_what_is_wrong_in_a_file_is_named_with_its_place(tmp_path: Path) -> None:
    config = LocalCluster(tmp_path, brokers=1).config(1)
    config.write_text(config.read_text() + "num.partitions=none\n")
    place = rf"^num\.partitions=none \(from {config}, line \d+\): "
    with pytest.raises(ClusterError, match=place):
        LocalCluster(tmp_path, settings={"log.roll.ms": 5})
    LocalCluster(tmp_path, settings={"num.partitions": 3})
    assert "num.partitions=3\n" in config.read_text()


def test_misspelled_settings_are_told_once(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=3, settings={"retentoin.ms": 1})
    assert cluster.warnings == ["unknown setting retentoin.ms (did you mean log.retention.ms?)"]
    assert LocalCluster(tmp_path).warnings == [], "a later start does not repeat them"


def test_a_start_that_fails_takes_its_settings_back(minikafka: Minikafka, tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, brokers=1)
    (cluster.folder(1) / "server.log").write_text("of an earlier start\n")
    before = texts(cluster)
    words = ["--set", "retentoin.ms=1", "--set", "metrics.listener=http://192.0.2.1:90"]
    ran = minikafka("cluster", "--data-dir", str(tmp_path), *words)
    assert ran.code == 1
    assert ran.err.startswith("unknown setting retentoin.ms (did you mean log.retention.ms?)\n")
    assert "cannot listen on 192.0.2.1:90" in ran.err
    assert "earlier start" not in ran.err
    assert texts(cluster) == before


def test_a_disk_that_is_full_at_the_nth_file_leaves_the_settings_as_they_were(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster(tmp_path / "old", brokers=3)
    before = texts(cluster)
    write = Path.write_text
    for number in range(3):
        left = [0]

        def write_some(path: Path, text: str, left: list[int] = left) -> int:
            left[0] -= 1
            if left[0] == -1:
                write(path, text[:10])
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(path, text)

        monkeypatch.setattr(Path, "write_text", write_some)
        for directory in ("old", "new"):
            left[0] = number
            words = ("--brokers", "3", "--data-dir", str(tmp_path / directory), "--set", "log.roll.ms=5")
            ran = minikafka("cluster", *words)
            assert (ran.code, ran.out) == (1, "")
            place, file = tmp_path / directory, tmp_path / directory / f"node-{number + 1}" / "server.properties"
            assert ran.err.startswith(f"Error: {place} cannot be written: the disk of {tmp_path}"), ran.err
            assert f" is full for {file}, " in ran.err
            assert ran.err.endswith(" free; make room, nothing is lost\n")
        monkeypatch.undo()
        assert texts(cluster) == before
        assert sorted(one.name for one in cluster.config(1).parent.iterdir()) == ["server.properties"]
        assert not (tmp_path / "new").exists()
