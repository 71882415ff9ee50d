"""`Verbs`: what can be asked of the nodes of a cluster for tests, with arguments and answers that JSON can carry.

The names are those of `KafkaCluster`. A fault, a client and a seen request are objects of JSON.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from minikafka.protocol.apis import APIS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.message import fields_of
from minikafka.testing.faults.fault import Action, Fault, Limits, Selection
from minikafka.testing.host.node_faults import NodeFaults
from minikafka.testing.host.nodes import BROKERS_MAX, Nodes

__all__ = ["ARGUMENTS", "BadRequest", "Verbs"]

WAIT_S_MAX = 3600.0
SECONDS_MAX = 86_400.0
COUNT_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
_SELECTION = tuple(Selection.__dataclass_fields__)
_LIMITS = tuple(Limits.__dataclass_fields__)
_OF_VERBS = {
    "fail": ("error", "applied"),
    "delay": ("seconds",),
    "drop": ("applied",),
    "disconnect": ("before", "halfway", "after_response"),
    "throttle": ("ms",),
}
"""The arguments of each verb of a fault of requests, beside those that all have."""
_OF_NODES = {
    "isolate": ("from_", "one_way"),
    "fill_disk": (),
    "fail_disk": (),
    "skew_clock": ("seconds",),
}
"""The arguments of each verb of a fault of a node, beside the node."""
_OWN = [name for names in (*_OF_VERBS.values(), *_OF_NODES.values()) for name in names if name != "after_response"]
ARGUMENTS = tuple(dict.fromkeys(["verb", *_SELECTION, *_LIMITS, *_OWN]))
"""The arguments of all faults."""
_MOMENTS = {"before": "before", "halfway": "halfway", "after_response": "after"}
_APIS = {api.name: api for api in APIS.values()}


class BadRequest(ValueError):
    """An argument is missing, unknown or not what it may be. The text says what is allowed."""


class Verbs:
    """The verbs of one cluster. Each method takes the arguments of its verb as a dict, and raises BadRequest."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._node_faults = NodeFaults(nodes)

    def cluster(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """The addresses of the cluster, and the state of each node."""
        nodes = self._nodes
        states = {str(node_id): nodes.state_of(node_id) for node_id in nodes.node_ids}
        return {"bootstrap_servers": nodes.bootstrap_servers, "nodes": states}

    def reset(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Replace all nodes by empty ones."""
        known(given, ("brokers", "settings"))
        brokers = whole(given, "brokers", 1, BROKERS_MAX)
        settings = given.get("settings")
        if settings is not None and not isinstance(settings, Mapping):
            raise BadRequest(f"settings must be settings by name, not {settings!r}")
        texts = None if settings is None else {str(name): str(value) for name, value in settings.items()}
        left = self._nodes.reset(brokers, texts)
        clients = [{"client_id": one.client_id, "address": one.address} for one in left]
        return {**self.cluster({}), "disconnected": clients}

    def requests(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The requests of clients since the last reset, oldest first."""
        known(given, ("api", "client_id"))
        api = None if given.get("api") is None else api_named(given["api"])
        return [one._asdict() for one in self._nodes.seen.of(api, text(given, "client_id"))]

    # -- faults --------------------------------------------------------------------------------------------------

    def add_fault(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Put a fault into force."""
        verb = given.get("verb")
        if isinstance(verb, str) and verb in _OF_NODES:
            return described(self._add_node_fault(verb, given))
        if not isinstance(verb, str) or verb not in _OF_VERBS:
            raise BadRequest(f"verb must be one of {', '.join([*_OF_VERBS, *_OF_NODES])}, not {verb!r}")
        given = dict(given)
        if verb == "disconnect" and isinstance(given.get("after"), bool):  # `after` is a number of requests elsewhere
            given["after_response"] = given.pop("after")
        known(given, ("verb", *_SELECTION, *_LIMITS, *_OF_VERBS[verb]))
        selection = selection_of(given)
        action = action_of(verb, given, selection)
        return described(self._nodes.faults.add(selection, action, limits_of(given)))

    def _add_node_fault(self, verb: str, given: Mapping[str, Any]) -> Fault:
        known(given, ("verb", "node", *_OF_NODES[verb]))
        node = whole(given, "node", 1, BROKERS_MAX)
        if node is None:
            raise BadRequest(f"{verb} needs node")
        if verb == "isolate":
            from_ = "nodes" if given.get("from_") == "nodes" else whole(given, "from_", 1, BROKERS_MAX)
            return self._node_faults.isolate(node, from_, one_way=flag(given, "one_way"))
        if verb == "skew_clock":
            return self._node_faults.skew_clock(node, number(given, "seconds", -1e9, 1e9, default=0.0))
        return self._node_faults.fill_disk(node) if verb == "fill_disk" else self._node_faults.fail_disk(node)

    def fault(self, fault_id: int) -> dict[str, Any]:
        """A fault, with its hits. Raises LookupError."""
        return described(self._nodes.faults.get(fault_id))

    def remove_fault(self, fault_id: int) -> dict[str, Any]:
        """Remove a fault. Raises LookupError."""
        fault = self._nodes.faults.get(fault_id)
        fault.remove()
        return described(fault)

    def wait_for_fault(self, fault_id: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Wait until a fault has hit so many requests; `reached` says whether it has. Raises LookupError."""
        known(given, ("hits", "timeout"))
        fault = self._nodes.faults.get(fault_id)
        hits = whole(given, "hits", 1, 1_000_000)
        reached = fault.wait(1 if hits is None else hits, number(given, "timeout", 0, WAIT_S_MAX, default=10.0))
        return {**described(fault), "reached": reached}

    # -- nodes and time ------------------------------------------------------------------------------------------

    def node(self, node_id: int, verb: str) -> dict[str, Any]:
        """Do something to a node: `kill`, `stop`, `start`, `restart`, `pause` or `resume`."""
        nodes = self._nodes
        verbs: dict[str, Callable[[int], None]] = {
            "kill": nodes.kill,
            "stop": nodes.stop,
            "start": nodes.run,
            "restart": nodes.restart,
            "pause": nodes.pause,
            "resume": nodes.resume,
        }
        if verb not in verbs:
            raise BadRequest(f"a node has the verbs {', '.join(verbs)}, not {verb!r}")
        verbs[verb](node_id)
        return self.cluster({})

    def logs(self, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Do something to the logs of all nodes: `apply_retention`, `roll_segment` or `corrupt`."""
        if verb == "apply_retention":
            known(given, ())
            self._node_faults.apply_retention()
        elif verb == "roll_segment":
            known(given, ("topic",))
            self._node_faults.roll_segment(text(given, "topic"))
        elif verb == "corrupt":
            known(given, ("topic", "partition", "offset"))
            topic, partition = text(given, "topic"), whole(given, "partition", 0, COUNT_MAX)
            offset = whole(given, "offset", 0, OFFSET_MAX)
            if topic is None or partition is None or offset is None:
                raise BadRequest("corrupt needs topic, partition and offset")
            self._node_faults.corrupt(topic, partition, offset)
        else:
            raise BadRequest(f"logs have the verbs apply_retention, roll_segment and corrupt, not {verb!r}")
        return {}

    def clock(self, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Change the time of all nodes: `advance`, `freeze` or `run`; returns the time then."""
        if verb == "advance":
            known(given, ("hours", "minutes", "seconds"))
            hours, minutes, seconds = (
                number(given, name, 0, 1e9, default=0.0) for name in ("hours", "minutes", "seconds")
            )
            self._nodes.advance(hours * 3600 + minutes * 60 + seconds)
        elif verb == "freeze":
            known(given, ())
            self._nodes.run_clock(0)
        elif verb == "run":
            known(given, ("speed",))
            self._nodes.run_clock(number(given, "speed", 0, 1e6, default=1.0))
        else:
            raise BadRequest(f"the clock has the verbs advance, freeze and run, not {verb!r}")
        return {"now_ms": self._nodes.clock.now_ms()}


def described(fault: Fault) -> dict[str, Any]:
    return {
        "id": fault.fault_id,
        "verb": fault.action.verb,
        "hits": fault.hits,
        "is_over": fault.is_over,
        **{name: value for name in _SELECTION if (value := getattr(fault.selection, name)) is not None},
    }


# -- arguments ---------------------------------------------------------------------------------------------------


def known(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise BadRequest for an argument that is not among these."""
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, 1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(names) or 'none'}"
            raise BadRequest(f"there is no argument {name!r}: {meant}")


def whole(given: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """A whole number, None if it is left out."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadRequest(f"{name} must be a whole number from {least} to {most}, not {value!r}")
    return value


def number(given: Mapping[str, Any], name: str, least: float, most: float, *, default: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadRequest(f"{name} must be a number from {least:g} to {most:g}, not {value!r}")
    return float(value)


def text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a text, not {value!r}")
    return value


def flag(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false, not {value!r}")
    return value


def api_named(name: Any) -> str:
    """The name of an API that the nodes serve."""
    if isinstance(name, str) and name in _APIS:
        return name
    close = difflib.get_close_matches(str(name), _APIS, 1, 0.5)
    meant = f": did you mean {close[0]}?" if close else ", such as Produce or Fetch"
    raise BadRequest(f"Kafka has no API {name!r}{meant}")


def error_named(name: Any) -> ErrorCode:
    """The error code of a name."""
    names = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    if name in names:
        return ErrorCode[str(name)]
    close = difflib.get_close_matches(str(name).upper(), names, 1, 0.5)
    meant = f": did you mean {close[0]}?" if close else ", such as NOT_LEADER_OR_FOLLOWER"
    raise BadRequest(f"Kafka has no error {name!r}{meant}")


def selection_of(given: Mapping[str, Any]) -> Selection:
    """Which requests a fault concerns. Raises BadRequest where the requests of its API cannot name what it asks for."""
    api = None if given.get("api") is None else api_named(given["api"])
    selection = Selection(
        api=api,
        topic=text(given, "topic"),
        partition=whole(given, "partition", 0, COUNT_MAX),
        client_id=text(given, "client_id"),
        node=whole(given, "node", 1, BROKERS_MAX),
        group=text(given, "group"),
        transactional_id=text(given, "transactional_id"),
    )
    if api is not None and api != "FindCoordinator":  # whose keys are groups and transactional ids
        names = set(names_in(_APIS[api].request))
        for what in ("topic", "partition", "group", "transactional_id"):
            if getattr(selection, what) is not None and not any(what in name for name in names):
                raise BadRequest(f"{api} requests name no {what}: leave out {what}")
    return selection


def names_in(message: Any) -> Iterator[str]:
    """The names of all fields of a message and its structs, and of the structs."""
    for declared in fields_of(message):
        yield declared.name
        if declared.struct is not None:
            yield declared.struct.__name__.lower()
            yield from names_in(declared.struct)


def action_of(verb: str, given: Mapping[str, Any], selection: Selection) -> Action:
    """What a fault does."""
    if verb == "fail":
        if "error" not in given or selection.api is None:
            raise BadRequest("fail needs the name of an API and the name of an error, as Produce and CORRUPT_MESSAGE")
        if not any("error_code" in name for name in names_in(_APIS[selection.api].response)):
            raise BadRequest(f"the response of {selection.api} has no place for an error")
        return Action(verb, error=error_named(given["error"]), applied=flag(given, "applied"))
    for name in {"delay": ("seconds",), "throttle": ("ms",)}.get(verb, ()):
        if given.get(name) is None:
            raise BadRequest(f"{verb} needs {name}")
    if verb == "delay":
        return Action(verb, seconds=number(given, "seconds", 0, SECONDS_MAX, default=0.0))
    if verb == "throttle":
        return Action(verb, throttle_ms=whole(given, "ms", 1, COUNT_MAX) or 0)
    if verb == "drop":
        return Action(verb, applied=flag(given, "applied"))
    chosen = [name for name in _MOMENTS if flag(given, name)]
    if len(chosen) > 1:
        raise BadRequest(f"disconnect happens once: {' or '.join(_MOMENTS[name] for name in chosen)}?")
    return Action(verb, when=_MOMENTS[chosen[0]] if chosen else "before")


def limits_of(given: Mapping[str, Any]) -> Limits:
    """How often a fault happens."""
    return Limits(
        times=whole(given, "times", 1, COUNT_MAX),
        after=whole(given, "after", 0, COUNT_MAX) or 0,
        every=whole(given, "every", 1, COUNT_MAX) or 1,
        probability=number(given, "probability", 0, 1, default=1.0),
        seed=whole(given, "seed", 0, COUNT_MAX) or 0,
    )
