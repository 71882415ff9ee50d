"""`KeysMissing`: a login has to wait for keys: those of SCRAM are derived first, those of signed tokens read."""

from collections.abc import Awaitable, Callable

__all__ = ["KeysMissing"]


class KeysMissing(Exception):
    """The keys for a message are not there yet. The message can be answered after `derive`, which gets them."""

    def __init__(self, derive: Callable[[], Awaitable[None]]) -> None:
        super().__init__("the keys for a message are not there yet")
        self.derive = derive
