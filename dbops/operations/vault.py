"""Read every secret that is in Vault, and say only whether that worked."""

from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import Model

from dbops.audit.log import append
from dbops.engine.errors import DbopsError
from dbops.models.secret import as_stored, read_from_vault, secret_columns
from dbops.security.vault import vault
from dbops.security.vault_paths import SCHEME, VaultPath

SUBJECT = "secrets in Vault"


@dataclass(frozen=True, slots=True)
class VaultSecret:
    """One secret of a row that is in Vault. ``error``: why it cannot be used; ``None`` if it can, or if it was not read."""

    model: type[Model]
    kind: str
    name: str
    column: str
    path: VaultPath
    error: DbopsError | None = None


def secrets_in_vault() -> list[VaultSecret]:
    """Return every secret that is in Vault, without reading one. One query for each column."""
    found = []
    for model, column in secret_columns():
        for name, stored in _paths(model, column):
            if path := VaultPath.of_column(stored):
                found.append(VaultSecret(model, str(model._meta.verbose_name), name, column, path))
    return sorted(found, key=lambda one: (one.kind, one.name, one.column))


def check_vault(*, actor: str) -> list[VaultSecret]:
    """Read every secret that is in Vault now, whatever is kept in memory. The caller has checked the permission of ``actor``.

    Returns:
        The secrets with their errors. A value is never among them.
    """
    if settings.VAULT:
        vault().retry()
    found = [replace(one, error=_error_of(one)) for one in secrets_in_vault()]
    failed = sum(one.error is not None for one in found)
    append(actor=actor, action="vault.checked", subject=SUBJECT, detail={"secrets": len(found), "failed": failed})
    return found


def _paths(model: type[Model], column: str) -> list[tuple[str, str]]:
    rows = model._default_manager.annotate(stored_token=as_stored(column)).filter(stored_token__startswith=SCHEME)
    name = "name" if any(field.name == "name" for field in model._meta.concrete_fields) else "pk"
    return [(str(one), stored) for one, stored in rows.order_by("pk").values_list(name, "stored_token")]


def _error_of(one: VaultSecret) -> DbopsError | None:
    try:
        read_from_vault(one.path, one.model._meta.get_field(one.column), is_fresh=True)
    except DbopsError as error:
        return error
    return None
