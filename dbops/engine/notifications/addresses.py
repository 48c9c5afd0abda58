"""Which network addresses a notification may be sent to."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

#: An address in it contains an IPv4 address that a gateway translates to.
NAT64 = IPv6Network("64:ff9b::/96")
PUBLIC_IPV6 = IPv6Network("2000::/3")


def is_allowed(text: str, networks: Iterable[str]) -> bool:
    """Return whether an address is public, or in one of ``networks``. Names are not looked up: they are refused."""
    try:
        address = _plain(text)
    except ValueError:
        return False
    if any(address in ip_network(network) for network in networks):
        return True
    if isinstance(address, IPv6Address) and (address not in PUBLIC_IPV6 or address.sixtofour or address.teredo):
        return False  # Python calls unassigned ones global; a tunnel can lead to a private address
    return address.is_global and not address.is_multicast


def check_networks(networks: Iterable[str]) -> list[str]:
    """Return networks in their usual form.

    Raises:
        ValueError: one is no network; the text names it.
    """
    found = []
    for one in networks:
        try:
            found.append(str(ip_network(one)))
        except ValueError as error:
            raise ValueError(f"DBOPS_NOTIFICATION_NETWORKS: {one!r} is no network such as 10.0.0.0/8") from error
    return found


def _plain(text: str) -> IPv4Address | IPv6Address:
    """Return an address, as IPv4 if it contains one."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
