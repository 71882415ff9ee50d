"""Nodes, ports and configuration files of a local cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.settings.node_config import load_config
from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import (
    ClusterError,
    layout,
    layout_of,
    ports,
    properties,
    properties_text,
    voters,
    with_settings,
)
from minikafka.cli.clusters.node_files import NodeFiles, Wanted


def roles(**wanted: int | bool | None) -> list[str]:
    return [node.roles for node in layout(port=9092, **wanted)]  # type: ignore[arg-type]


def test_three_brokers_are_controllers_too() -> None:
    nodes = layout(brokers=3, port=9092)
    assert [(node.node_id, node.port, node.controller_port) for node in nodes] == [
        (1, 9092, 9192),
        (2, 9093, 9193),
        (3, 9094, 9194),
    ]
    assert voters(nodes) == "1@127.0.0.1:9192,2@127.0.0.1:9193,3@127.0.0.1:9194"
    assert ports(nodes) == [9092, 9192, 9093, 9193, 9094, 9194]


def test_numbers_of_controllers() -> None:
    both, broker, controller = "broker,controller", "broker", "controller"
    assert roles(brokers=1) == [both]
    assert roles(brokers=5) == [both] * 3 + [broker] * 2
    assert roles(brokers=3, controllers=1) == [both, broker, broker]
    assert roles(brokers=1, controllers=3) == [both, controller, controller]
    assert roles(brokers=2, controllers=3, isolated=True) == [broker] * 2 + [controller] * 3
    assert roles(brokers=2, isolated=True) == [broker] * 2 + [controller] * 2


@pytest.mark.parametrize(("brokers", "controllers"), [(0, 1), (3, 0), (100, 3)])
def test_impossible_numbers_of_nodes(brokers: int, controllers: int) -> None:
    with pytest.raises(ClusterError, match=r"at least|at most"):
        layout(brokers=brokers, controllers=controllers, port=9092)


@pytest.mark.parametrize("isolated", [False, True])
def test_layouts_survive_the_round_trip_through_a_file(isolated: bool, tmp_path: Path) -> None:
    nodes = layout(brokers=4, controllers=1, isolated=isolated, port=9092)
    assert {node.metrics_port for node in nodes} == {0}
    for node in nodes:
        text = properties_text(properties(node, nodes, tmp_path))
        assert layout_of(read_properties(text)) == node


def test_a_node_accepts_its_file(tmp_path: Path) -> None:
    nodes = layout(brokers=1, port=9092)
    config = load_config(properties=read_properties(properties_text(properties(nodes[0], nodes, tmp_path))))
    assert list(config.warnings()) == [], "nothing is said about settings that we wrote"
    assert config.log_dirs == (str(tmp_path / "data"),)
    assert [str(listener) for listener in config.client_listeners] == ["PLAINTEXT://127.0.0.1:9092"]


def test_settings_of_the_user_take_precedence(tmp_path: Path) -> None:
    nodes = layout(brokers=3, port=9092)
    settings = {"broker.session.timeout.ms": "9000", "log.retention.ms": "5", "log.dirs": "a\\b"}
    path = tmp_path / "server.properties"
    NodeFiles().write({path: Wanted(properties(nodes[0], nodes, tmp_path), settings)})
    given = read_properties(path.read_bytes())
    assert {name: given[name] for name in settings} == settings


@pytest.mark.parametrize("value", ["", " a", "a\\", "\\u", "a\nb=c", "a\r\tb\f", "é€😀", "#!=: "])
def test_any_value_is_read_back(value: str) -> None:
    assert read_properties(properties_text({"first": value, "last": "1"})) == {"first": value, "last": "1"}
    assert read_properties(with_settings("first=1\nlast=1\n", {"first": value})) == {"first": value, "last": "1"}


def test_settings_are_changed_in_place_or_added() -> None:
    text = "# mine\nlog.retention.ms=1\n\nnum.partitions = 2\n"
    changed = with_settings(text, {"num.partitions": "3", "log.roll.ms": "4"})
    assert changed == "# mine\nlog.retention.ms=1\n\nnum.partitions=3\nlog.roll.ms=4\n"


@pytest.mark.parametrize("text", ["node.id=1\n", "node.id=x\nlisteners=PLAINTEXT://:9092\n", "listeners=A://h:p\n"])
def test_a_file_of_something_else_is_an_error(text: str) -> None:
    with pytest.raises(ClusterError, match="not a node of a local cluster"):
        layout_of(read_properties(text))
