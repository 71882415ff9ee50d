"""A list where each is an argument of its own, or one where a list is wanted, is refused with what to do; time-outs are
whole numbers of milliseconds: seconds, and -1 for no limit, are refused."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import pytest

from minikafka.client import Admin, Consumer, Producer, TopicPartition, blocking
from minikafka.client.argument_checks import _Parameters
from minikafka.client.argument_kinds import PartitionArgument, Refused, TopicName, kind_of, one_of_several
from minikafka.client.producer.producer_batch import Delivery, PendingBatch

TP = TopicPartition("t", 0)
SEVERAL, LISTS = "pass each by itself", "put one into a list"


def methods() -> list[tuple[str, Any]]:
    return [
        (f"{owner.__name__}.{name}", inspect.unwrap(method))
        for owner in (Admin, Consumer, Producer)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and hasattr(method, "__wrapped__")
    ]


def taking(what: str) -> list[Any]:
    """Methods with a parameter of which there may be any number, or that is a list of partitions."""
    found = []
    for name, method in methods():
        for one in inspect.signature(method).parameters.values():
            source = str(one.annotation)
            several = one.kind is one.VAR_POSITIONAL
            listed = source.startswith("Iterable[") and "PartitionArgument" in source and not several
            if several if what == SEVERAL else listed:
                found.append(pytest.param(method, one.name, id=name))
    return found


@pytest.mark.parametrize("given", [[TP], [TP, TP], (TP,), {TP}, [], [("t", 0), ("t", 1)]], ids=str)
@pytest.mark.parametrize(("method", "name"), taking(SEVERAL))
def test_a_list_where_each_is_an_argument(method: Any, name: str, given: Any) -> None:
    parameters = _Parameters(method)
    before = [5] * len(parameters.in_order)
    with pytest.raises(TypeError, match=rf"{method.__name__}\({name}\[0\]=.*; {SEVERAL}"):
        parameters.read((*before, given), {})


@pytest.mark.parametrize(("method", "name"), taking(LISTS))
def test_one_where_a_list_is_wanted(method: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"{method.__name__}\({name}=.*; {LISTS}"):
        _Parameters(method).read((), {name: TP})


@pytest.mark.parametrize("given", [["a", "b"], ("a",), {"a"}, []], ids=str)
def test_topics_as_a_list(given: Any) -> None:
    for of in (Consumer, blocking.Consumer):
        with pytest.raises(TypeError, match=rf"Consumer\(topics\[0\]=.*; {SEVERAL}"):
            of(given)


def test_other_values_get_no_such_advice() -> None:
    for value in ("t", 5, None, [5], {"t": 0}, b"t"):
        with pytest.raises(Refused) as raised:
            one_of_several(kind_of(PartitionArgument))(value)
        assert SEVERAL not in raised.value.allowed  # type: ignore[attr-defined]
    with pytest.raises(Refused) as raised:
        kind_of(Iterable[PartitionArgument])([TP, "t"])
    assert LISTS not in raised.value.allowed  # type: ignore[attr-defined]
    assert kind_of(Iterable[TopicName])(("a", "b")) == ["a", "b"]


MUST_BE = r"timeout_ms=.*: must be (milliseconds, 0 or more|a number)"


@pytest.mark.anyio
@pytest.mark.parametrize("timeout_ms", [-1, -0.5, float("nan"), None, "1", True])
async def test_a_timeout_is_a_number_of_milliseconds(timeout_ms: Any, minikafka_bootstrap: str) -> None:
    async with Consumer(bootstrap_servers=minikafka_bootstrap) as consumer:
        with pytest.raises((TypeError, ValueError), match=rf"poll\({MUST_BE}"):
            await consumer.poll(timeout_ms)
    batch = PendingBatch("t", 0, (1,), 0.0)
    delivery = blocking.BlockingDelivery(blocking.Producer(minikafka_bootstrap), Delivery(batch, 0))
    if timeout_ms is not None:
        with pytest.raises((TypeError, ValueError), match=rf"result\({MUST_BE}"):
            delivery.result(timeout_ms)
