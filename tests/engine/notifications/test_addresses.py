"""Which addresses get a connection: public ones, and networks that a setting names, in whatever form they are written."""

import pytest

from dbops.engine.notifications.addresses import check_networks, is_allowed


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"])
def test_public_address_is_allowed(address: str) -> None:
    assert is_allowed(address, [])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *(
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1%eth0",
            "fc00::1",
            "fe00::5",
            "fec0::1",
            "4000::1",
            "ff02::1",
        ),
        *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:0a00:0001::1", "2001:0:53aa:64c::1"),
        *("", "localhost", "example.org", "1.1.1", "0x7f000001"),
    ],
)
def test_other_address_is_refused(address: str) -> None:
    assert not is_allowed(address, ["10.9.0.0/16"])


def test_network_of_the_setting_is_allowed_and_its_neighbor_is_not() -> None:
    networks = check_networks(["10.9.0.0/16", "fd00::/8", "127.0.0.1"])
    assert networks == ["10.9.0.0/16", "fd00::/8", "127.0.0.1/32"]
    assert all(is_allowed(one, networks) for one in ("10.9.1.2", "::ffff:10.9.1.2", "fd00::5", "127.0.0.1"))
    assert not any(is_allowed(one, networks) for one in ("10.8.1.2", "127.0.0.2", "fe00::5"))


@pytest.mark.parametrize("network", ["10.9.0.1/16", "example.org", ""])
def test_wrong_network_is_an_error(network: str) -> None:
    with pytest.raises(ValueError, match="DBOPS_NOTIFICATION_NETWORKS"):
        check_networks([network])
