"""The TLS of a node: listeners and connections to other nodes take new certificates together, or not at all."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest
import trio
from structlog.testing import capture_logs
from support.tls import AUTHORITY, own, write_stores

from minikafka.broker.security.node_tls import NodeTls
from minikafka.broker.settings.listeners import Listener
from minikafka.client.security.tls_settings import InvalidTlsSetting
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.storage.disks.memory_disk import MemoryDisk

OURS, OTHERS = Listener("OURS", "h", 1, "SSL"), Listener("OTHERS", "", 0, "SASL_SSL")
LOCATION = "ssl.keystore.location"
T = TypeVar("T")


def of_node(texts: dict[str, str], used: list[ssl.SSLContext]) -> NodeTls:
    """The TLS of node 7, which listens at OURS and connects to OURS and OTHERS."""
    return begun(NodeTls(7, 0, "OURS", texts), used)


def begun(tls: NodeTls, used: list[ssl.SSLContext]) -> NodeTls:
    tls.load((OURS,))
    for listener in (OURS, OTHERS):
        tls.connect_to(listener, used.append)
    return tls


def caught_up(tls: NodeTls, *texts_of_now: dict[str, str]) -> int:
    """Catch up with settings that change meanwhile; returns how often files were read."""
    answers, calls = iter([*texts_of_now, texts_of_now[-1]]), list[object]()

    class Here(MemoryDisk):
        async def run(self, call: Callable[..., T], *arguments: object) -> T:
            calls.append(call)
            return call(*arguments)

    trio.run(tls.catch_up, Here(Random(0)), lambda: next(answers))
    return len(calls)


def changed(name: str, broker: str) -> list[ConfigRecord]:
    return [ConfigRecord(ResourceType.BROKER, broker, name, "x")]


def test_the_settings_of_this_node_and_of_all_nodes_name_its_listeners(tmp_path: Path) -> None:
    tls = of_node(write_stores(tmp_path), [])
    for broker, found in (("7", ["OTHERS"]), ("8", []), ("", ["OTHERS"])):
        assert tls.named_by(changed(f"listener.name.others.{LOCATION}", broker)) == found
    assert tls.named_by(changed(LOCATION, "7")) == ["OURS", "OTHERS"]
    assert tls.named_by(changed("listener.name.ours.ssl.cipher.suites", "7")) == [], "it is no store"
    assert tls.named_by(changed("listener.name.ours.max.connections", "7")) == []


def test_listeners_and_connections_take_new_certificates(tmp_path: Path) -> None:
    texts, used = write_stores(tmp_path), list[ssl.SSLContext]()
    tls = of_node(texts, used)
    before = tls.context_of("OURS")
    tls.renew(["OURS", "OTHERS"], texts)
    assert tls.context_of("OURS") is not before
    assert len(set(used)) == len(used) == 4


def test_what_does_not_work_changes_nothing(tmp_path: Path) -> None:
    texts, used = write_stores(tmp_path), list[ssl.SSLContext]()
    tls = of_node(texts, used)
    before = tls.context_of("OURS")
    AUTHORITY.issue("CN=other").write_pkcs12(tmp_path / "CN=server.p12")
    tls.renew(["OURS"], texts)
    assert tls.context_of("OURS") is before
    assert len(used) == 2


def test_only_stores_that_the_settings_would_change_are_looked_at(tmp_path: Path) -> None:
    texts = write_stores(tmp_path)
    tls = of_node(texts, [])
    (tmp_path / "CN=server.p12").write_text("rubbish")
    assert tls.why_refused(texts, texts) == ""
    assert tls.why_refused(texts, texts | {"ssl.cipher.suites": "x"}) == ""
    missing = {f"listener.name.others.{LOCATION}": str(tmp_path / "missing.p12")}
    assert tls.why_refused(texts, texts | missing).startswith(
        f"the stores of the listener OTHERS cannot be used: listener.name.others.{LOCATION}"
    )
    inline = {name: value for name, value in texts.items() if "keystore" not in name}
    assert tls.why_refused(texts, inline | own(AUTHORITY.issue("CN=server"))) == ""


def changed_store(folder: Path, texts: dict[str, str], name: str = "CN=server") -> dict[str, str]:
    """The settings with another key store, which is there."""
    store = AUTHORITY.issue(name).write_pkcs12(folder / f"changed-{name}.p12")
    return texts | {f"listener.name.{listener}.{LOCATION}": str(store) for listener in ("ours", "others")}


def test_a_node_begins_with_the_stores_that_it_had_and_needs_those_of_its_file_no_more(tmp_path: Path) -> None:
    given, used = write_stores(tmp_path), list[ssl.SSLContext]()
    tls = NodeTls(7, 0, "OURS", given)
    tls.begin_with(changed_store(tmp_path, given))
    (tmp_path / "CN=server.p12").unlink()
    begun(tls, used)
    assert len(used) == 2


def test_stores_that_were_changed_and_do_not_work_give_way_to_those_of_the_file(tmp_path: Path) -> None:
    given, used = write_stores(tmp_path), list[ssl.SSLContext]()
    changed = changed_store(tmp_path, given)
    (tmp_path / "changed-CN=server.p12").unlink()
    tls = NodeTls(7, 0, "OURS", given)
    tls.begin_with(changed)
    with capture_logs() as lines:
        begun(tls, used)
    assert [(line["event"], line["listener"]) for line in lines] == [
        ("changed stores not used", name) for name in ("OURS", "OURS", "OTHERS")
    ]
    assert all("changed-CN=server.p12" in line["reason"] for line in lines)
    before = tls.context_of("OURS")
    with capture_logs() as lines:
        assert caught_up(tls, changed) == 1
    assert (lines, tls.context_of("OURS")) == ([], before), "they are as the log on disk had them"


def test_without_working_stores_no_node_starts(tmp_path: Path) -> None:
    given = write_stores(tmp_path)
    (tmp_path / "CN=server.p12").unlink()
    with pytest.raises(InvalidTlsSetting, match=r"CN=server\.p12"):
        of_node(given, [])


def test_a_node_that_has_the_metadata_takes_the_stores_of_now_whatever_their_name(tmp_path: Path) -> None:
    given, used = write_stores(tmp_path), list[ssl.SSLContext]()
    tls = of_node(given, used)
    before = tls.context_of("OURS")
    assert caught_up(tls, given) == 1
    assert (tls.context_of("OURS"), len(used)) == (before, 2), "nothing has changed"
    now = changed_store(tmp_path, given, "CN=other")
    with capture_logs() as lines:
        assert caught_up(tls, given, now) == 2, "it looks again, since the settings changed meanwhile"
    assert tls.context_of("OURS") is not before
    assert len(used) == 4
    assert [line["event"] for line in lines] == ["certificates renewed", "certificates renewed"]
