"""The errors of TLS handshakes: what was wrong, and which setting says otherwise."""

from __future__ import annotations

import ssl

from minikafka.protocol.errors import SslAuthenticationError

_NOT_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG"}
"""OpenSSL's reasons if the other side does not answer with TLS."""


def expects_tls(address: str) -> SslAuthenticationError:
    """The error if a broker answers plain text with TLS."""
    return SslAuthenticationError(
        f"{address} answers with TLS: security.protocol must be SSL or SASL_SSL on this listener"
    )


def expects_plain_text(address: str) -> SslAuthenticationError:
    """The error if a broker does not answer TLS, but plain text."""
    return SslAuthenticationError(
        f"{address} speaks plain text, no TLS: security.protocol must be PLAINTEXT or SASL_PLAINTEXT there"
    )


def handshake_error(address: str, error: ssl.SSLError) -> SslAuthenticationError:
    """The error for one of OpenSSL, with what to do."""
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_certificate(address, error)
    if "ALERT" in (error.reason or ""):
        is_of_certificates = "CERT" in error.reason or "HANDSHAKE_FAILURE" in error.reason
        asked = "; it may ask for a certificate of the client (ssl.keystore.location)" if is_of_certificates else ""
        return SslAuthenticationError(f"{address} refused the TLS handshake: {reason}{asked}")
    if error.reason in _NOT_TLS:
        return SslAuthenticationError(
            f"{address} does not speak TLS ({reason}): security.protocol must be PLAINTEXT or SASL_PLAINTEXT there"
        )
    return SslAuthenticationError(f"TLS with {address} failed: {reason}")


_X509_HOSTNAME_MISMATCH, _X509_IP_ADDRESS_MISMATCH = 62, 64
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def _refused_certificate(address: str, error: ssl.SSLCertVerificationError) -> SslAuthenticationError:
    if error.verify_code in (_X509_HOSTNAME_MISMATCH, _X509_IP_ADDRESS_MISMATCH):
        hint = "connect by a name that the certificate has, or set ssl.endpoint.identification.algorithm to nothing"
    else:
        hint = "ssl.truststore.location or ssl.ca.location names the authorities that are trusted"
    text = error.verify_message.rstrip(".")
    return SslAuthenticationError(f"the certificate of {address} is not trusted: {text}; {hint}")
