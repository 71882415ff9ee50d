"""A call with an argument that the method does not have is refused with its name here, in all flavours alike."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from support.fake_network import FakeNetwork

from minikafka.client import Admin, Consumer, Producer, TopicPartition, blocking
from minikafka.client.argument_kinds import declared_kind
from minikafka.client.consumer.missing_offsets import _no_start_offset
from minikafka.client.consumer.partition_state import PartitionState

CLIENTS = (Producer, Consumer, Admin)
MANY = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
HINTS: list[tuple[Any, str, dict[str, Any], str]] = [
    (Producer, "send", {"topic": "t", "val": b""}, "send() has no argument 'val'; did you mean value?"),
    (Producer, "send", {"topic": "t", "msg": b""}, "send() has no argument 'msg': did you mean value?"),
    (Producer, "send", {"topic": "t", "callback": print},
     "send() has no argument 'callback': did you mean on_delivery?"),
    (Producer, "send", {"topic": "t", "timestamp": 1},
     "send() has no argument 'timestamp': did you mean timestamp_ms, in milliseconds?"),
    (Producer, "send_and_wait", {"topic": "t", "parition": 1},
     "send_and_wait() has no argument 'parition'; did you mean partition?"),
    (Producer, "send", {"topic": "t", "x": 1}, "send() has no argument 'x'; it takes headers, key, on_delivery,"),
    (Producer, "flush", {"timeout": 1},
     "flush() has no argument 'timeout': the options default_api_timeout_ms and delivery_timeout_ms limit"),
    (Consumer, "poll", {"timeout": 1}, "poll() has no argument 'timeout': did you mean timeout_ms, in milliseconds?"),
    (Consumer, "poll", {"num_messages": 1}, "poll() has no argument 'num_messages': did you mean max_records?"),
    (Consumer, "subscribe", {"topics": ["t"], "on_assign": print},
     "subscribe() has no argument 'on_assign': did you mean listener?"),
    (Consumer, "commit", {"asynchronous": False},
     "commit() has no argument 'asynchronous': a call has succeeded when it returns"),
    (Consumer, "assignment", {"x": 1}, "assignment() has no argument 'x'; it takes none"),
    (Admin, "create_topic", {"name": "t", "num_partitions": 1},
     "create_topic() has no argument 'num_partitions': did you mean partitions?"),
]  # fmt: skip


def network() -> FakeNetwork:
    made = FakeNetwork({"t": [1]})
    made.broker("a", 1)
    return made


def opened(kind: Any) -> Any:
    given = {"enable_idempotence": False} if kind.__name__ == "Producer" else {}
    return kind(bootstrap_servers="a:1", seams=network().seams(), **given)


def methods(kind: Any) -> Iterator[str]:
    for name, _ in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            yield name


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("kind", "method", "given", "text"), HINTS)
def test_an_async_method_names_its_own(kind: Any, method: str, given: Any, text: str, backend: str) -> None:
    async def main() -> None:
        async with opened(kind) as client:
            with pytest.raises(TypeError) as raised:
                await getattr(client, method)(**given)
            assert str(raised.value).startswith(text)

    anyio.run(main, backend=backend)


@pytest.mark.parametrize(("kind", "method", "given", "text"), HINTS)
def test_a_blocking_method_names_its_own(kind: Any, method: str, given: Any, text: str) -> None:
    with opened(getattr(blocking, kind.__name__)) as client, pytest.raises(TypeError) as raised:
        getattr(client, method)(**given)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("kind", [*CLIENTS, *(getattr(blocking, one.__name__) for one in CLIENTS)])
def test_every_method_names_what_it_takes(kind: Any) -> None:
    """None is called: an argument that it has not is found before anything else."""
    for name in methods(kind):
        parameters = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
        needed = {one.name: None for one in parameters if one.default is one.empty and one.kind not in MANY}
        with pytest.raises(TypeError) as raised:
            finish(getattr(kind, name)(None, zzz=1, **needed))
        assert str(raised.value).startswith(f"{name}() has no argument 'zzz'; it takes "), name


def finish(returned: Any) -> None:
    """Run a coroutine, which does not wait."""
    if inspect.iscoroutine(returned):
        try:
            returned.send(None)
        finally:
            returned.close()


def test_words_have_their_article() -> None:
    assert declared_kind("OffsetAndMetadata", "minikafka.client.consumer.consumer").allowed == "an OffsetAndMetadata"


@pytest.mark.parametrize(
    ("group_id", "why"), [(None, "the consumer has no group"), ("g", "group 'g' has committed none")]
)
def test_a_missing_start_offset_is_explained(group_id: str | None, why: str) -> None:
    error = _no_start_offset(PartitionState(TopicPartition("t", 0)), group_id)
    assert str(error).startswith(f"no start offset for t-0: {why} and auto_offset_reset is 'none'; seek to an offset")
