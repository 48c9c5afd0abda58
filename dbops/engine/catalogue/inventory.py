"""Errors of the inventory, topology, backup schedules and maintenance."""

from dbops.engine.catalogue.entries import NOT_SENT, SAY_WHY, UNCHANGED, CatalogueSection, host, operator

OLD_LISTING = "The inventory was not changed. The last listing is still shown."

_INVENTORY = (
    operator(
        "secret.lost",
        "A stored password or private key can't be decrypted with the current keys.",
        "The stored secret was not changed.",
        "Add the key that encrypted it to `DBOPS_ENCRYPTION_KEY`, or enter the secret again. "
        "Admin > Credentials lists these secrets.",
    ),
    operator(
        "secrets.key_elsewhere",
        "The file with the keys of stored secrets can't be replaced here.",
        UNCHANGED,
        "Put a new key first in `DBOPS_ENCRYPTION_KEY` or in the file that is mounted, and restart dbops. Then run "
        "`manage.py secrets rotate --current-key`. See secrets.md.",
    ),
    operator(
        "secrets.key_in_use",
        "An older key of stored secrets is still needed.",
        UNCHANGED,
        "Run `manage.py secrets rotate`, wait a minute, and retry.",
    ),
    operator(
        "fleet.file",
        "The fleet file has errors. The message gives the line of each.",
        "The inventory was not changed. dbops imports a file completely or not at all.",
        "Correct the lines and import again. `--dry-run` only checks the file. See fleet.md.",
    ),
    operator(
        "fleet.invalid",
        "A value is invalid, or another user has used or changed it.",
        "The inventory was not changed.",
        "Correct the field, or reload the page and save again.",
    ),
    operator(
        "fleet.busy",
        "An active rebuild uses this instance, so its name, address and host can't change.",
        "The inventory was not changed. The rebuild continues.",
        "Wait until the rebuild has ended, or cancel it.",
    ),
    operator(
        "fleet.in_use",
        "This can't be removed: other items refer to it. The message lists them.",
        "The inventory was not changed.",
        "Remove those items first. An instance with rebuilds in its history stays in the inventory.",
    ),
    operator(
        "fleet.host_key",
        "The pinned host key differs from the key that you accepted or that the page showed.",
        "The pinned key was not changed.",
        "Check on the host's console why the key changed. Then reload the page and replace the key.",
    ),
)

_ATTESTATIONS = (
    operator(
        "attestation.name",
        "The name that you typed is not the instance's name.",
        "Nothing was attested.",
        "Check that this is the instance, then type its name as the page shows it.",
    ),
    operator(
        "attestation.invalid",
        "The kind of promise, the reference, the review date or the reason is missing or invalid.",
        "The attestation was not changed.",
        "Correct the field. The reference says where the promise is written; a review date is after today.",
    ),
    operator(
        "attestation.ruled_out",
        "There is nothing to attest: a layer between InnoDB and the disk rules it out, or the server itself leaves out doublewrite.",
        "Nothing was attested. An earlier attestation is still recorded, and counts only if the facts allow it.",
        "See the layers on the instance's page. See doublewrite.md.",
    ),
    operator(
        "attestation.stale",
        "The storage is not the one that the page showed, or the attestation was withdrawn.",
        "The attestation was not changed.",
        "Reload the page, and check the storage again.",
    ),
)

_TOPOLOGY = (
    operator(
        "discovery.invalid",
        "Discovery can't start: the address, port or account is invalid.",
        NOT_SENT,
        "Correct it and try again. To use a cluster's account, save a dashboard account for the cluster first.",
    ),
    operator(
        "discovery.not_listed",
        "The discovered server is not in the inventory. dbops sends a cluster's stored account only to listed servers.",
        "Nothing was sent to this server.",
        "If you trust the server, run discovery with an account that you enter (`--user`).",
    ),
    operator(
        "topology.name",
        "The name that you typed is not the new primary's name.",
        "The roles in the inventory were not changed.",
        "Check that this server is the primary, then type its name as the page shows it.",
    ),
    operator(
        "topology.reason", "A reason is required to accept a difference.", "The difference is still open.", SAY_WHY
    ),
    operator(
        "topology.stale",
        "The difference is gone, was accepted by another user, or the inventory has changed.",
        "The inventory was not changed.",
        "Reload the cluster's topology page.",
    ),
    operator(
        "topology.roles",
        "This difference doesn't concern the primary, so accepting it changes no role.",
        "The inventory was not changed.",
        "Accept it as intended, or fix it on the server.",
    ),
)

_SOURCES = (
    operator(
        "inventory_source.invalid",
        "The source's name, kind, address, account or CA isn't valid, or the name is in use.",
        UNCHANGED,
        "Correct it and try again. To change a source, remove it and add it again.",
    ),
    operator(
        "inventory_source.not_found",
        "No inventory source has this name.",
        UNCHANGED,
        "Run `manage.py inventory source list` to see all sources.",
    ),
    operator(
        "inventory_source.reason",
        "A reason is required to ignore a difference.",
        "The difference is still open.",
        SAY_WHY,
    ),
    operator(
        "inventory_source.stale",
        "The difference is gone, has other values now, or is not ignored.",
        UNCHANGED,
        "Reload the source's page.",
    ),
    host(
        "inventory_source.unreachable",
        "The source can't be reached, ended the connection, or did not answer in time.",
        OLD_LISTING,
        "Check that the source runs, the address is correct, and the firewall allows every worker. dbops retries.",
    ),
    host(
        "inventory_source.certificate",
        "The source's certificate is not valid for this address, or its authority is not trusted.",
        OLD_LISTING,
        "Correct the certificate, or remove the source and add it again with the right CA. dbops retries.",
    ),
    host(
        "inventory_source.rejected",
        "The source answered with a status other than 200.",
        OLD_LISTING,
        "Check address and account, and the source's log. A redirect is not followed. dbops retries.",
    ),
    host(
        "inventory_source.unreadable",
        "The source's answer is not a list of servers of its kind.",
        OLD_LISTING,
        "Check the kind of the source, and what it lists. See inventory-sources.md. dbops retries.",
    ),
    host(
        "inventory_source.file",
        "The file can't be read, or dbops has no directory for files of sources.",
        OLD_LISTING,
        "Set DBOPS_INVENTORY_DIR for every worker, and check the file there: a regular file, no link, readable for dbops.",
    ),
)

_SCHEDULES = (
    operator(
        "schedule.invalid",
        "A value of the backup schedule is invalid. The message names it.",
        "The schedule was not changed.",
        "Correct it and save again. See backup-windows.md.",
    ),
    operator(
        "schedule.busy",
        "The schedule can't be removed: one of its runs is active, or a rebuild will run its stopped backup again.",
        "The schedule and its runs were not changed.",
        "Disable the schedule. Remove it when the run has ended.",
    ),
    operator("schedule.gone", "Another user removed this schedule.", UNCHANGED, "Reload the page."),
    operator(
        "maintenance.invalid",
        "The maintenance period is invalid: its times are wrong or its reason is missing.",
        UNCHANGED,
        "Correct it and save again. A period that you mark afterwards must be over and last at most 31 days.",
    ),
    operator(
        "maintenance.ended",
        "This maintenance has already ended, or its mark was already removed.",
        UNCHANGED,
        "No action is needed.",
    ),
    operator(
        "capacity.invalid",
        "A capacity threshold is not a positive number, or this kind of limit has none.",
        UNCHANGED,
        "Enter a whole number from 1, or leave the field empty for no threshold.",
    ),
)

SECTIONS = (
    CatalogueSection("Inventory", _INVENTORY),
    CatalogueSection("Attestations of storage", _ATTESTATIONS),
    CatalogueSection("Topology", _TOPOLOGY),
    CatalogueSection("Inventory sources", _SOURCES),
    CatalogueSection("Backup schedules and maintenance", _SCHEDULES),
)
