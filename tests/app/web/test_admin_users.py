"""Users and groups: who may, what is refused, what is kept of what was typed, and that no password is written down."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from dbops.engine.errors import Refused
from dbops.models import AuditEntry
from dbops.operations import account_admin
from dbops.security.permissions import group_of
from tests.app.factories import make_operator, make_user, make_viewer

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
OTHER = "staple battery horse"
NEW = {"name": "anna", "group": "viewer", "password": OTHER, "password_again": OTHER}


@pytest.fixture
def root(db: None) -> User:
    user = make_user("root")
    user.is_superuser = True
    user.save()
    return user


@pytest.fixture
def admin(root: User) -> Client:
    client = Client()
    client.force_login(root)
    return client


def seen(user: User) -> dict[str, str]:
    return {"seen": account_admin.access_of(User.objects.get(pk=user.pk))}


def error_codes(answer: Any, form: str = "form") -> dict[str, list[str]]:
    """Return the codes of a form's errors, by field."""
    found = answer.context[form].errors.as_data()
    return {field: [error.code for error in errors] for field, errors in found.items()}


def codes(action: str) -> list[str]:
    return list(AuditEntry.objects.filter(action=action).values_list("subject", flat=True))


BECAME_OPERATOR = {"group": "viewer → operator", "superuser": "no → yes"}
ADDRESSES = ["", "add/", "{pk}/", "{pk}/password/", "{pk}/deactivate/", "{pk}/reactivate/"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_people_pages_refuse_an_operator_with_the_reason(operator: Client, victor: User, address: str) -> None:
    for method in (operator.get, operator.post):
        answer = method("/admin/users/" + address.format(pk=victor.pk))
        if answer.status_code != 405:
            assert answer.status_code == 403
            assert "403.html" in [template.name for template in answer.templates]
            assert str(answer.context["exception"])
    assert 'href="/admin/users/"' not in operator.get("/inventory/").content.decode()


def test_account_operations_need_a_superuser(olga: User, victor: User) -> None:
    for act in (
        lambda: account_admin.add_account(actor=olga, name="x", group="viewer", password=OTHER),
        lambda: account_admin.change_account(actor=olga, user=victor, group="operator", superuser=True, **seen(victor)),
        lambda: account_admin.set_password(actor=olga, user=victor, password=OTHER),
        lambda: account_admin.deactivate(actor=olga, user=victor, **seen(victor)),
        lambda: account_admin.reactivate(actor=olga, user=victor, **seen(victor)),
    ):
        with pytest.raises(Refused) as raised:
            act()
        assert raised.value.code == "access.denied"
    assert not AuditEntry.objects.exists()


def test_people_list_takes_a_fixed_number_of_queries(
    admin: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(2):
        for name in range(10):
            make_viewer(f"person-{number}-{name}")
        with django_assert_num_queries(4):
            text = admin.get("/admin/users/").content.decode()
        assert "person-0-9" in text
    assert 'href="/admin/users/"' in admin.get("/inventory/").content.decode()


def test_add_account_creates_a_working_login(admin: Client) -> None:
    assert admin.post("/admin/users/add/", NEW)["Location"] == "/admin/users/"
    anna = User.objects.get(username="anna")
    assert (group_of(anna), anna.is_superuser, anna.is_active) == ("viewer", False, True)
    assert Client().login(username="anna", password=OTHER)
    entry = AuditEntry.objects.get(action="account.created")
    assert (entry.actor, entry.subject, entry.detail) == ("root", "anna", {"group": "viewer", "superuser": False})


@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"name": "anna smith!"}, "name", "invalid"),
        ({"name": ""}, "name", "required"),
        ({"name": "root"}, "name", "exists"),
        ({"group": "emperor"}, "group", "invalid_choice"),
        ({"password": "Ab1-tiny", "password_again": "Ab1-tiny"}, "password", "password_too_short"),
        ({"password": "password1234", "password_again": "password1234"}, "password", "password_too_common"),
        ({"password_again": "something else"}, "password_again", "differs"),
        ({"name": "x" * 151}, "name", "max_length"),
    ],
)
def test_add_form_reports_bad_input_at_its_field_and_keeps_what_was_typed(
    admin: Client, wrong: dict[str, str], field: str, code: str
) -> None:
    sent = NEW | {"superuser": "on"} | wrong
    answer = admin.post("/admin/users/add/", sent)
    text = answer.content.decode()
    assert answer.status_code == 422
    found = error_codes(answer)
    assert list(found) == [field]
    assert code in found[field]
    assert all(escape(error) in text for error in answer.context["form"].errors[field])
    if sent["name"]:
        assert f'value="{sent["name"]}"' in text
    assert "checked" in text
    for password in (sent["password"], sent["password_again"]):
        assert password not in text
    assert User.objects.count() == 1


def test_add_account_refuses_a_name_taken_concurrently(root: User) -> None:
    make_viewer("anna")
    with pytest.raises(Refused) as raised:
        account_admin.add_account(actor=root, name="anna", group="operator", password=OTHER)
    assert raised.value.code == "account.exists"
    assert group_of(User.objects.get(username="anna")) == "viewer"


def test_change_group_is_audited_with_before_and_after(admin: Client, victor: User) -> None:
    admin.post(f"/admin/users/{victor.pk}/", {"group": "operator", "superuser": "on", **seen(victor)})
    victor.refresh_from_db()
    assert (group_of(victor), victor.is_superuser) == ("operator", True)
    assert AuditEntry.objects.get().detail == BECAME_OPERATOR
    admin.post(f"/admin/users/{victor.pk}/", {"group": "operator", "superuser": "on", **seen(victor)})
    assert AuditEntry.objects.count() == 1


def test_account_change_refuses_a_stale_page(admin: Client, victor: User) -> None:
    old = seen(victor)
    admin.post(f"/admin/users/{victor.pk}/", {"group": "operator", **old})
    answer = admin.post(f"/admin/users/{victor.pk}/", {"group": "viewer", **old})
    assert answer.status_code == 422
    assert error_codes(answer) == {"__all__": ["account.stale"]}
    for verb in ("deactivate", "reactivate"):
        page = admin.post(f"/admin/users/{victor.pk}/{verb}/", old)
        assert page.status_code == 409
        assert page.context["error"]["code"] == "account.stale"
    victor.refresh_from_db()
    assert (group_of(victor), victor.is_active) == ("operator", True)


def test_last_superuser_cannot_be_deactivated(admin: Client, root: User) -> None:
    sleeping = make_operator("sleeping")
    User.objects.filter(pk=sleeping.pk).update(is_superuser=True, is_active=False)
    answer = admin.post(f"/admin/users/{root.pk}/", {"group": "operator", **seen(root)})
    assert answer.status_code == 422
    assert error_codes(answer) == {"__all__": ["account.last_superuser"]}
    other = make_operator("other")
    User.objects.filter(pk=other.pk).update(is_superuser=True)
    assert admin.post(f"/admin/users/{root.pk}/", {"group": "operator", **seen(root)}).status_code == 302
    root.refresh_from_db()
    assert not root.is_superuser
    with pytest.raises(Refused) as raised:
        account_admin.deactivate(actor=User.objects.get(pk=other.pk), user=other, **seen(other))
    assert raised.value.code == "account.self"


def test_deactivate_refuses_a_requester_who_is_inactive(root: User) -> None:
    other = make_operator("other")
    other.is_superuser = True  # what an old request still believes
    with pytest.raises(Refused) as raised:
        account_admin.deactivate(actor=other, user=root, **seen(root))
    assert raised.value.code == "account.last_superuser"


def test_deactivate_refuses_the_own_account(admin: Client, root: User) -> None:
    answer = admin.post(f"/admin/users/{root.pk}/deactivate/", seen(root))
    assert answer.status_code == 409
    assert answer.context["error"]["code"] == "account.self"
    assert f"/admin/users/{root.pk}/deactivate/" not in admin.get(f"/admin/users/{root.pk}/").content.decode()


def test_deactivated_user_loses_all_sessions(admin: Client, viewer: Client, victor: User) -> None:
    assert viewer.get("/audit/").status_code == 200
    others = Session.objects.count()
    admin.post(f"/admin/users/{victor.pk}/deactivate/", seen(victor))
    assert viewer.get("/audit/")["Location"].startswith("/login/")
    assert Session.objects.count() == others - 1
    assert not Client().login(username="victor", password=PASSWORD)
    admin.post(f"/admin/users/{victor.pk}/reactivate/", seen(victor))
    assert viewer.get("/audit/").status_code == 302
    assert Client().login(username="victor", password=PASSWORD)
    assert codes("account.deactivated") == codes("account.reactivated") == ["victor"]
    assert admin.get("/audit/").status_code == 200


def test_new_password_ends_other_sessions(admin: Client, viewer: Client, victor: User) -> None:
    sent = {"password": OTHER, "password_again": OTHER}
    assert admin.post(f"/admin/users/{victor.pk}/password/", sent).status_code == 302
    assert viewer.get("/audit/").status_code == 302
    assert Client().login(username="victor", password=OTHER)
    assert codes("account.password_set") == ["victor"]
    assert OTHER not in str(list(AuditEntry.objects.values()))


def test_password_change_keeps_only_the_own_session(admin: Client, root: User) -> None:
    second = Client()
    second.force_login(root)
    admin.post(f"/admin/users/{root.pk}/password/", {"password": OTHER, "password_again": OTHER})
    assert admin.get("/admin/users/").status_code == 200
    assert second.get("/admin/users/").status_code == 302


def test_bad_password_is_refused_and_not_shown(admin: Client, victor: User) -> None:
    answer = admin.post(f"/admin/users/{victor.pk}/password/", {"password": "tiny-pw", "password_again": "tiny-pw"})
    assert answer.status_code == 422
    assert error_codes(answer, "password_form") == {"password": ["password_too_short"]}
    assert "tiny-pw" not in answer.content.decode()
    assert not AuditEntry.objects.exists()


def test_people_page_answers_404_for_a_missing_account(admin: Client) -> None:
    assert admin.get("/admin/users/4711/").status_code == 404


def test_people_pages_contain_no_password_or_hash(admin: Client, victor: User) -> None:
    for address in ("/admin/users/", f"/admin/users/{victor.pk}/", "/admin/users/add/"):
        text: Any = admin.get(address).content.decode()
        assert victor.password not in text
        assert "md5$" not in text
