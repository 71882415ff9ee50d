"""How the descriptors of a process are shared."""

from __future__ import annotations

import resource

import pytest

from minikafka.broker.node.descriptors import (
    FILES_MAX,
    connections_max,
    open_files_max,
    raise_descriptor_limit,
    strangers_max,
    tools_max,
)


@pytest.mark.parametrize("limit", [256, 1024, 20_000, 1 << 20])
def test_files_and_clients_leave_some_for_others(limit: int) -> None:
    others = limit - open_files_max(limit) - connections_max(limit) - tools_max(limit)
    assert others >= strangers_max(tools_max(limit)) + 32
    assert open_files_max(limit) <= FILES_MAX
    assert connections_max(limit) > limit // 3
    assert 24 <= strangers_max(tools_max(limit)) <= 256


def test_the_soft_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"now": (1024, 5000)}

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > 100_000:
            raise ValueError("not permitted")
        limits["now"] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    assert raise_descriptor_limit() == 5000
    assert limits["now"] == (5000, 5000)
    limits["now"] = (1024, resource.RLIM_INFINITY)
    assert raise_descriptor_limit() == 1024, "the kernel allows no more"
    limits["now"] = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert raise_descriptor_limit() == 1 << 20
