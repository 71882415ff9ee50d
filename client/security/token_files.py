"""`TokenFile`: a file with the token of OAUTHBEARER, which something else renews, as Kubernetes does."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.client.security.named_files import UnreadableFile, read_named_file
from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import TOKEN_BYTES_MAX

__all__ = ["TokenFile"]


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A provider of tokens that reads its file for each login.

    Source: Kafka's `FileJwtRetriever`.
    """

    path: str

    def __call__(self) -> str:
        """The token in the file, without the white space around it. Raises SaslAuthenticationFailedError."""
        try:
            return read_named_file(self.path, TOKEN_BYTES_MAX).decode("latin-1").strip()
        except UnreadableFile as error:
            raise SaslAuthenticationFailedError(f"the file of the token, {self.path}, {error}") from None
