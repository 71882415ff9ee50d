"""Error messages for unknown keyword arguments of constructors and methods: each suggests the right argument.

Methods that check their arguments notice an unknown argument in that check. Methods that check nothing take
`**unknown`, which is empty in a correct call, and refuse the arguments in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

_SYNONYMS = {
    "timeout": "timeout_ms",
    "timeout_s": "timeout_ms",
    "callback": "on_delivery",
    "cb": "on_delivery",
    "on_success": "on_delivery",
    "timestamp": "timestamp_ms",
    "message": "value",
    "msg": "value",
    "data": "value",
    "body": "value",
    "num_messages": "max_records",
    "count": "max_records",
    "on_assign": "listener",
    "on_revoke": "listener",
    "on_lost": "listener",
    "partitions_count": "partitions",
    "num_partitions": "partitions",
    "config": "configs",
}
"""Names of arguments in other clients, and the names of the same arguments here."""
_OF_METHODS = {
    "timeout": "the options default_api_timeout_ms and delivery_timeout_ms limit how long calls wait",
    "callback": "a call has succeeded when it returns, and raises its errors",
    "on_delivery": "a call has succeeded when it returns, and raises its errors",
    "async": "a call has succeeded when it returns",
    "update_offsets": "positions change with the records that are returned",
}
"""Hints on arguments of other clients' methods that have no counterpart here, by the beginning of their names."""


def unknown_argument(owner: str, name: str, known: Sequence[str], elsewhere: Mapping[str, str]) -> str:
    """The error message for an unknown argument, with a hint, the nearest known name, or all known names.

    Args:
        owner: the class or the method.
        known: the names of its arguments.
        elsewhere: hints on arguments of other clients, by the beginning of their names.
    """
    plain_name = name.replace(".", "_").replace("-", "_")
    hint = next((hint for start, hint in elsewhere.items() if plain_name.startswith(start)), None)
    if hint is not None:
        return f"{owner} has no argument {name!r}: {hint}"
    near = difflib.get_close_matches(plain_name, known, n=1)
    if near:
        return f"{owner} has no argument {name!r}; did you mean {near[0]}?"
    return f"{owner} has no argument {name!r}; it takes {', '.join(sorted(known)) or 'none'}"


def refuse(method: str, unknown: Iterable[str], known: Sequence[str]) -> None:
    """Raise TypeError for the first unknown argument of a call; return if there is none."""
    for name in unknown:
        ours = _SYNONYMS.get(name, "")
        elsewhere: Mapping[str, str] = {}
        if ours in known:
            unit = ", in milliseconds" if ours.endswith("_ms") else ""
            elsewhere = {name: f"did you mean {ours}{unit}?"}
        elif not difflib.get_close_matches(name, known, n=1):
            elsewhere = _OF_METHODS
        raise TypeError(unknown_argument(f"{method}()", name, known, elsewhere))
