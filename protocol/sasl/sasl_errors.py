"""`SaslError`: a message of an authentication that breaks the rules of its mechanism, or does not verify."""

__all__ = ["SaslError"]


class SaslError(Exception):
    """An authentication fails. The text says why, for a log; it contains no password, token or key."""
