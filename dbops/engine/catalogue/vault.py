"""Errors of secrets that are kept in Vault or OpenBao."""

from dbops.engine.catalogue.entries import UNCHANGED, CatalogueSection, host, operator

_WAITS = "dbops uses secrets that it read less than `DBOPS_VAULT_OUTAGE_SECONDS` ago. What needs another one waits and is retried."
_RETRIED = "The secret was not used. Probes and running jobs retry."

_ENTRIES = (
    operator(
        "vault.off",
        "A secret is in Vault, and no Vault is configured for this process.",
        UNCHANGED,
        "Set `DBOPS_VAULT_ADDRESS` for every process of dbops, or enter the secret instead of its path.",
    ),
    host(
        "vault.unreachable",
        "Vault can't be reached, did not answer in time, or its answer can't be read.",
        _WAITS,
        "Check `DBOPS_VAULT_ADDRESS`, the network, and Vault's log.",
    ),
    host(
        "vault.sealed",
        "Vault is sealed or not initialized.",
        _WAITS,
        "Unseal Vault.",
    ),
    host(
        "vault.certificate",
        "Vault's certificate is not valid for this address, or its authority is not trusted.",
        _WAITS,
        "Correct the certificate, or set `DBOPS_VAULT_CA_FILE` to the right CA.",
    ),
    operator(
        "vault.login",
        "Vault refuses dbops's login.",
        _RETRIED,
        "Check the token or the role, and the file with its secret. `manage.py vault check` logs in again.",
    ),
    operator(
        "vault.denied",
        "The policy of dbops in Vault does not allow to read this path.",
        _RETRIED,
        "Correct the path, or the policy. See vault.md.",
    ),
    operator(
        "vault.missing",
        "Vault has no such secret, or the secret has no such field.",
        _RETRIED,
        "Correct the path, or write the secret in Vault.",
    ),
    operator(
        "vault.bad_value",
        "What Vault has can't be this secret: it is empty, not text, or has characters or a form that are not allowed.",
        _RETRIED,
        "Write the secret in Vault again.",
    ),
)

SECTIONS = (CatalogueSection("Secrets in Vault", _ENTRIES),)
