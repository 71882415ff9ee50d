"""`HELPER`: the client id of the library's own clients. Their requests are not noted, and no fault concerns them."""

__all__ = ["HELPER"]

HELPER = "minikafka.testing"
