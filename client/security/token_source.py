"""`TokenSource`: the application's function that returns tokens of OAUTHBEARER, and whether it is late.

The function may do anything: raise what is no `Exception`, return nonsense, or not return. A login that waits for it is
told from one whose broker does not answer.
"""

from __future__ import annotations

import inspect

import anyio

from minikafka.client.option_checks import TokenProvider
from minikafka.client.security.daemon_calls import daemon_call
from minikafka.client.user_code import ENDS_PROGRAM
from minikafka.protocol.sasl.message_sizes import TOKEN_BYTES_MAX

LATE = "sasl_oauth_token_provider has not returned a token"
Outcome = tuple[object, BaseException | None]
"""What a function has returned, or the exception that it has raised."""


class TokenSource:
    """Calls a provider of tokens: an async function, or one that blocks, in a thread that no program waits for.

    Attributes:
        provider: the function.
        is_awaited: whether the provider was called for the last login and has not returned, even if the login was
            given up meanwhile.
    """

    __slots__ = ("is_awaited", "provider")

    def __init__(self, provider: TokenProvider) -> None:
        self.provider = provider
        self.is_awaited = False

    async def token(self) -> str:
        """A token. Raises the provider's error, RuntimeError in place of an exception that would end the task like a
        cancellation, TypeError and ValueError for what is no token."""
        outcomes: list[Outcome] = []
        self.is_awaited = True
        async with anyio.create_task_group() as tasks:  # which tells the provider's own cancellation from the caller's
            tasks.start_soon(self._call, outcomes)
        self.is_awaited = False
        token, error = outcomes[0] if outcomes else (None, RuntimeError("it was cancelled, but not by this client"))
        if isinstance(error, (Exception, *ENDS_PROGRAM)):
            raise error
        if error is not None:
            raise RuntimeError(f"it raised {error!r}") from error
        if not isinstance(token, str):
            raise TypeError(f"it returned a value of type {type(token).__name__}: must be the text of a token")
        if len(token) > TOKEN_BYTES_MAX:
            raise ValueError(f"it returned {len(token)} characters: a token has at most {TOKEN_BYTES_MAX}")
        return token

    async def _call(self, outcomes: list[Outcome]) -> None:
        provider = self.provider
        token: object
        if inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(type(provider).__call__):
            token, error = provider(), None
        else:
            token, error = await daemon_call(self._outcome)
        try:
            if inspect.isawaitable(token):
                token = await token
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as raised:  # noqa: BLE001 (of the application; `token` raises it)
            error = raised
        outcomes.append((token, error))

    def _outcome(self) -> Outcome:
        """Call the provider, in a thread."""
        try:
            return self.provider(), None
        except BaseException as error:  # noqa: BLE001 (of the application; `token` raises it)
            return None, error
