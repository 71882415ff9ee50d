"""IP addresses as Java writes them, by which ACLs, quotas, limits and descriptions of groups name the host of a client.

Java writes all eight groups of an IPv6 address, without leading zeros, and an IPv4 address in an IPv6 one as IPv4. A
link-local address has the number of its network interface. ACLs compare texts, so `::1` in an ACL is no host at all.
Source: `Inet6Address.getHostAddress`, which `StandardAuthorizerData` asks for.
"""

from ipaddress import IPv6Address

__all__ = ["host_of", "javas_address"]


def host_of(address: tuple[object, ...]) -> str:
    """The host of a socket address of IPv4 or IPv6, as `socket.getpeername` returns it."""
    host, scope = str(address[0]), address[3] if len(address) == 4 else 0
    return f"{javas_address(host)}%{scope}" if scope else javas_address(host)


def javas_address(text: str) -> str:
    """An IP address as Java writes it; any other text as it is. Two texts of one address become the same text."""
    if ":" not in text:
        return text
    try:
        address = IPv6Address(text)
    except ValueError:
        return text
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    packed = address.packed
    groups = ":".join(f"{packed[at] << 8 | packed[at + 1]:x}" for at in range(0, 16, 2))
    return groups if address.scope_id is None else f"{groups}%{address.scope_id}"
