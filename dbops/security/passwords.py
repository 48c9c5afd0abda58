"""A rule for passwords that Django lacks."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError

#: So many characters of a password must be neither the account's name nor the product's.
LEAST_OWN_CHARACTERS = 8


class NotTheNameValidator:
    """Refuse a password that is little more than the account's name, however often repeated."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Raise ``ValidationError`` if too few characters remain without the names."""
        rest = password.casefold()
        for name in (user.get_username() if user else "", "dbops"):
            rest = rest.replace(name.casefold(), "") if name else rest
        if rest != password.casefold() and len(rest) < LEAST_OWN_CHARACTERS:
            raise ValidationError(self.get_help_text(), code="password_is_the_name")

    def get_help_text(self) -> str:
        return f"At least {LEAST_OWN_CHARACTERS} characters of the password must not be the account's name."
