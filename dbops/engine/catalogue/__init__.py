"""The catalogue of error codes: who must act, what failed, the current state and the next step."""

from dbops.engine.catalogue import (
    api,
    backups,
    copy,
    dashboard,
    digests,
    hosts,
    inventory,
    load_tests,
    notifications,
    rebuilds,
    replica,
    restore_tests,
    traces,
    vault,
    waits,
)
from dbops.engine.catalogue.entries import CatalogueSection, Entry

#: In the order of the document.
SECTIONS: tuple[CatalogueSection, ...] = (
    *dashboard.SECTIONS,
    *api.SECTIONS,
    *inventory.SECTIONS,
    *vault.SECTIONS,
    *rebuilds.SECTIONS,
    *hosts.SECTIONS,
    *copy.SECTIONS,
    *replica.SECTIONS,
    *backups.SECTIONS,
    *restore_tests.SECTIONS,
    *load_tests.SECTIONS,
    *waits.SECTIONS,
    *digests.SECTIONS,
    *notifications.SECTIONS,
    *traces.SECTIONS,
)
CATALOGUE: dict[str, Entry] = {entry.code: entry for section in SECTIONS for entry in section.entries}
