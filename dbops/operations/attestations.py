"""Attest what the storage of an instance promises, and withdraw that."""

import hashlib
from datetime import date
from typing import NoReturn

from django.contrib.auth.models import User
from django.db import transaction

from dbops.audit.log import append
from dbops.database import clock
from dbops.engine.errors import Refused
from dbops.engine.phrases import phrase
from dbops.engine.tuning.doublewrite import KINDS, DoublewriteAdvice, DoublewriteVerdict
from dbops.loaders.doublewrite import doublewrite_of
from dbops.models import Instance, StorageAttestation
from dbops.operations.audit import NO_REASON, says_why
from dbops.security.permissions import require_operator

REFERENCE_CHARACTERS = 500


def digest_of(storage: str) -> str:
    """Return the value by which a form names the storage that it showed."""
    return hashlib.sha256(storage.encode()).hexdigest()


def attest_storage(
    *,
    actor: User,
    instance: Instance,
    kind: str,
    reference: str,
    review_on: str,
    typed_name: str,
    seen: str,
) -> StorageAttestation:
    """Record that the storage of an instance writes a page completely or not at all. It replaces an earlier attestation.

    Args:
        kind: one of ``KINDS``.
        reference: where the promise is written: contract, document, ticket.
        review_on: the day from which it no longer counts (ISO 8601), ``""`` for no end.
        typed_name: the person's input, which must be the instance's name.
        seen: ``digest_of`` the storage that the page showed.

    Raises:
        Refused: ``access.denied``, ``attestation.name``, ``attestation.invalid``, ``attestation.ruled_out`` (the facts leave nothing to
            attest), ``attestation.stale`` (the storage is not the one that the page showed).
    """
    operation = phrase("Attesting the storage of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if typed_name != instance.name:
        of = {"typed": f"{typed_name!r}", "name": f"{instance.name!r}"}
        _refuse("attestation.name", operation, phrase("the name typed is {typed}, the instance is {name}", **of))
    now = clock.now()
    if problem := _problem(kind, reference):
        _refuse("attestation.invalid", operation, problem)
    until = _review_date(review_on, now.date(), operation)
    with transaction.atomic():
        advice = doublewrite_of(Instance.objects.select_for_update().get(pk=instance.pk), None)
        storage = _to_attest(advice, operation)
        if digest_of(storage) != seen:
            _refuse("attestation.stale", operation, phrase("the storage differs from the one that the page showed"))
        values = {"kind": kind, "reference": reference.strip(), "storage": storage, "review_on": until}
        who = {"attested_by": actor.get_username(), "attested_at": now}
        row, is_new = StorageAttestation.objects.update_or_create(instance=instance, defaults={**values, **who})
        append(
            actor=actor.get_username(),
            action="storage.attested",
            subject=instance.name,
            instance=instance.name,
            reason=row.reference,
            detail={
                "kind": kind,
                "storage": storage,
                "review_on": review_on,
                "replaces": not is_new,
            },
        )
    return row


def withdraw_attestation(*, actor: User, instance: Instance, reason: str) -> None:
    """Remove the attestation of an instance.

    Raises:
        Refused: ``access.denied``, ``attestation.invalid`` (no reason), ``attestation.stale`` (there is none).
    """
    operation = phrase("Withdrawing the attestation of {instance}", instance=instance.name)
    require_operator(actor, operation, instance.cluster_id)
    if not says_why(reason):
        _refuse("attestation.invalid", operation, NO_REASON)
    with transaction.atomic():
        row = StorageAttestation.objects.select_for_update().filter(instance=instance).first()
        if row is None:
            _refuse("attestation.stale", operation, phrase("there is no attestation"))
        append(
            actor=actor.get_username(),
            action="storage.attestation_withdrawn",
            subject=instance.name,
            instance=instance.name,
            reason=reason.strip(),
            detail={"kind": row.kind, "reference": row.reference, "attested_by": row.attested_by},
        )
        row.delete()


def _problem(kind: str, reference: str) -> str:
    if kind not in KINDS:
        return phrase("the kind of promise is unknown")
    if not says_why(reference) or len(reference.strip()) > REFERENCE_CHARACTERS:
        return phrase(
            "the reference is too short, or longer than {reference_characters} characters",
            reference_characters=REFERENCE_CHARACTERS,
        )
    return ""


def _review_date(text: str, today: date, operation: str) -> date | None:
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        _refuse("attestation.invalid", operation, phrase("the review date is not a date"))
    if found <= today:
        _refuse("attestation.invalid", operation, phrase("the review date is not in the future"))
    return found


def _to_attest(advice: DoublewriteAdvice | None, operation: str) -> str:
    """Return the identity of the storage if a person has to attest it, else refuse."""
    if advice is None or not advice.storage:
        _refuse(
            "attestation.ruled_out",
            operation,
            phrase("the server, its storage or the machine id of its host was not read"),
        )
    if advice.verdict is DoublewriteVerdict.SAFE:
        _refuse("attestation.ruled_out", operation, phrase("the server itself leaves out doublewrite on this storage"))
    if advice.decides is not None:
        seen, meaning = advice.decides.seen, advice.decides.meaning
        _refuse(
            "attestation.ruled_out",
            operation,
            phrase(
                "{decides} rules it out: {seen}. {meaning}", decides=advice.decides.name, seen=seen, meaning=meaning
            ),
        )
    return advice.storage


def _refuse(code: str, operation: str, found: str) -> NoReturn:
    raise Refused(code, operation, cause=found)
