"""The errors of commands as text or JSON: with `--json`, one line `{"errors": [{"code": …, "message": …}]}`."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import click

from minikafka.protocol.shortened import shortened

__all__ = ["Failed", "Failure", "closest", "fail_if", "failure", "failures_of", "meant", "wants_json"]

COMPARED_MAX = 10_000
"""The most names that are compared with a mistyped name."""
USAGE, OTHER = "USAGE", "FAILED"
"""The code of an error in the arguments, and the code of an error without a code of its own."""
Failure = dict[str, Any]
_OF_WRITES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNKNOWN_SETTING = re.compile(r"Unknown (topic|group) config name: (\S+)$")


class Failed(click.ClickException):
    """A command that failed with errors of Kafka, in part or as a whole.

    Args:
        failures: the code and message of each error, as `failure` returns them.
    """

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__("\n".join(str(one["message"]) for one in failures))
        self.failures = list(failures)


def failure(error: object, message: str = "") -> Failure:
    """An error with its code: the name and the number of the code in Kafka's protocol, or `FAILED`.

    Args:
        error: the exception or the text.
        message: the message to use instead of the error's own.
    """
    from minikafka.protocol.errors import KafkaError

    if isinstance(error, KafkaError):
        said = with_setting_meant(message or error.message)
        return {"code": error.code.name, "number": int(error.code), "message": said}
    return {"code": OTHER, "message": message or str(error)}


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; "" if none is close."""
    from difflib import get_close_matches

    return "".join(get_close_matches(name, list(islice(known, COMPARED_MAX)), 1))


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: ` (did you mean 'flights'?)`; "" if no known name is close."""
    found = closest(name, known)
    return f" (did you mean {found!r}?)" if found else ""


def with_setting_meant(message: str) -> str:
    """An error message of a broker, with the closest known name if it is about an unknown topic or group config."""
    found = _UNKNOWN_SETTING.search(message)
    if found is None:
        return message
    from minikafka.protocol.settings.registry import GROUP_SETTINGS, TOPIC_SETTINGS

    name = closest(found[2], TOPIC_SETTINGS if found[1] == "topic" else GROUP_SETTINGS)
    return f"{message} (did you mean {name}?)" if name else message


def fail_if(errors: Iterable[object]) -> None:
    """Raise `Failed` if there are errors, which may be exceptions, texts, or results of `failure`."""
    failures = [one if isinstance(one, dict) else failure(one) for one in errors]
    if failures:
        raise Failed(failures)


def failures_of(error: Exception) -> list[Failure]:
    """The errors of a command that has ended with an exception, in messages of readable length."""
    return [{**one, "message": "\n".join(map(shortened, one["message"].split("\n")))} for one in _failures_of(error)]


def _failures_of(error: Exception) -> list[Failure]:
    match error:
        case Failed():
            return error.failures
        case click.UsageError():
            return [{"code": USAGE, "message": error.format_message()}]
        case click.ClickException():
            return [failure(error.format_message())]
        case OSError():
            where = f" ({error.filename})" if error.filename else ""
            what = "cannot write: " if error.errno in _OF_WRITES and not error.filename else ""
            code = errno.errorcode.get(error.errno or 0, OTHER)
            return [{"code": code, "message": f"{what}{error.strerror or error}{where}"}]
        case _:
            return [failure(error)]


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for output as JSON. `produce --json` does not, since it reads JSON."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options and arguments[0] != "produce"
