"""Read what an OpenID Connect provider says about a person. Nothing in it is trusted to be well-formed."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbops.engine.phrases import phrase

LONGEST_SUBJECT = 255
LONGEST_NAME = 150
LONGEST_GROUP = 255
MOST_GROUPS = 2000
#: As Django's accounts may be named.
NAME = re.compile(r"[\w.@+-]+")
#: Names that the audit log gives to dbops itself and to commands.
RESERVED = re.compile(r"dbops|cli-.*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as the provider names them. Issuer and subject identify; the name is only shown."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]

    @property
    def key(self) -> str:
        """A digest of issuer and subject: the same subject of another issuer is another person."""
        return identity_key(self.issuer, self.subject)


def identity_key(issuer: str, subject: str) -> str:
    """Return the digest that identifies a person."""
    return hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()


def read_claims(claims: Mapping[str, Any], *, issuer: str, name_claim: str, groups_claim: str) -> Identity:
    """Return the person that a proven set of claims is about.

    Raises:
        ValueError: A claim is missing, has another type or size, or has characters that no name may have.
    """
    subject = _text(claims, "sub", LONGEST_SUBJECT)
    name = unicodedata.normalize("NFKC", _text(claims, name_claim, LONGEST_NAME))
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise ValueError(
            phrase("the claim {claim} has characters other than letters, digits and @ . + - _", claim=name_claim)
        )
    if RESERVED.fullmatch(name):
        raise ValueError(phrase("the claim {claim} is a name that dbops uses itself", claim=name_claim))
    return Identity(issuer, subject, name, _groups(claims, groups_claim))


def valid_subject(subject: str) -> bool:
    """Whether a subject can be one of a provider."""
    return 0 < len(subject) <= LONGEST_SUBJECT and subject.isprintable()


def roles_of(groups: Sequence[str], mapping: Mapping[str, str]) -> list[str]:
    """Return the roles that groups of the provider give."""
    return [mapping[group] for group in groups if group in mapping]


def _text(claims: Mapping[str, Any], name: str, longest: int) -> str:
    value = _found(claims, name)
    if not isinstance(value, str) or not value:
        raise ValueError(phrase("the claim {claim} is missing or is no text", claim=name))
    if len(value) > longest or not value.isprintable():
        raise ValueError(
            phrase(
                "the claim {claim} is longer than {longest} characters, or has control characters",
                claim=name,
                longest=longest,
            )
        )
    return value


def _groups(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = _found(claims, name)
    values = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(group, str) for group in values):
        raise ValueError(phrase("the claim {claim} is no list of texts", claim=name))
    if len(values) > MOST_GROUPS or any(len(group) > LONGEST_GROUP for group in values):
        raise ValueError(
            phrase(
                "the claim {claim} has more than {most} groups, or one of more than {longest} characters",
                claim=name,
                most=MOST_GROUPS,
                longest=LONGEST_GROUP,
            )
        )
    return tuple(values)


def _found(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by a path such as ``realm_access.roles``."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
