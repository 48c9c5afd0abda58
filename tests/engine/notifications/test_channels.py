"""Addresses of channels: known services without options that read files or turn off checks, https elsewhere."""

import pytest

from dbops.engine.notifications.channels import (
    SERVICES,
    ChannelKind,
    check_address,
    is_encrypted,
    with_incident,
)

MESSAGE, WEBHOOK = ChannelKind.MESSAGE, ChannelKind.WEBHOOK
LOOPBACK = ["127.0.0.0/8"]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_form_of_each_service_is_allowed(service: object) -> None:
    shown = check_address(MESSAGE, service.form.replace("ADDRESS", "a@example.org"), [])  # type: ignore[attr-defined]
    assert is_encrypted(shown) == service.is_encrypted  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "address",
    [
        *("file:///etc/passwd", "syslog://local", "exec://id", "json://10.0.0.1/", "https://example.org/", "xml://h/"),
        *("slack://a/b/c?verify=no", "slack://a/b/c/?template=/etc/passwd", "slack://a/b/c?to=x;verify=no"),
        *("slack://a/b/c?redirect=yes", "slack://a/b/c/#x?verify=no", "slack://a/b/c?to=x?verify=no"),
        *("slack://a/b/c?%76erify=no", "slack://a/b/c?VERIFY=no", "slack://a/b/c?+x=y", "slack://a/b/c?retry=9"),
        *("mailto://h?to=a@b.de&pgpprv=/etc/key", "mailto://h?from=a@b.de", "mailto://h?to=a@b.de,c@d.de"),
        *("slack://", "slack:///a", "slack://a b", "slack://a\nb", "slack://ä/b/c", "slack://a\\b", "", "slack"),
        *("config://h/", "SLACK://a/b/c", "Mailto://h?to=a@b.de", "apprise://h/t", "includes://x"),
    ],
)
def test_other_address_of_a_message_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        check_address(MESSAGE, address, LOOPBACK)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://hooks.example.org/in/s3cret?key=s3cret", "https://hooks.example.org/..."),
        ("https://[2606:4700::1]:8443/x", "https://[2606:4700::1]:8443/..."),
        ("http://127.0.0.1:8080/s3cret", "http://127.0.0.1:8080/..."),
    ],
)
def test_url_is_shown_without_its_path(address: str, shown: str) -> None:
    assert check_address(WEBHOOK, address, LOOPBACK) == shown


@pytest.mark.parametrize(
    "address",
    [
        *("http://hooks.example.org/", "http://localhost/", "http://10.0.0.1/", "ftp://h/", "slack://a/b/c"),
        *(
            "https://10.0.0.1/",
            "https://169.254.169.254/latest",
            "https://[::1]/",
            "https://user:pw@h/",
            "https://h:0/",
        ),
        *("https://h:x/", "https:///x", "https://h/#x"),
    ],
)
def test_other_url_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address|http"):
        check_address(WEBHOOK, address, LOOPBACK)


def test_loopback_needs_the_setting() -> None:
    for address in ("http://127.0.0.1/", "https://127.0.0.1/"):
        with pytest.raises(ValueError, match="DBOPS_NOTIFICATION_NETWORKS"):
            check_address(WEBHOOK, address, [])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("slack://tokenA/tokenB/tokenC", "slack://..."),
        ("ntfys://secret-topic", "ntfys://..."),
        ("gotifys://push.example.org/token", "gotifys://push.example.org/..."),
        ("mailtos://olga:s3cret@mail.example.org?to=a@example.org", "mailtos://mail.example.org to a@example.org"),
    ],
)
def test_service_is_shown_without_its_secrets(address: str, shown: str) -> None:
    assert check_address(MESSAGE, address, []) == shown


def test_refusal_has_no_part_of_a_secret() -> None:
    for address in ("slack://s3cret/b/c?s3cret%00=1", "s3cret://a/b", "https://s3cret@h/"):
        for kind in (MESSAGE, WEBHOOK):
            with pytest.raises(ValueError, match="address") as error:
                check_address(kind, address, [])
            assert "s3cret" not in str(error.value)


def test_pagerduty_gets_the_incident_and_others_do_not() -> None:
    assert with_incident("pagerduty://a@b", "e-1") == "pagerduty://a@b?action=map&dedup=e-1"
    assert with_incident("pagerduty://a@b?region=eu", "") == "pagerduty://a@b?region=eu"
    assert with_incident("slack://a/b/c", "e-1") == "slack://a/b/c"
