"""Read whether instances could run without doublewrite, and whether a cluster's instances agree."""

from collections.abc import Iterable
from dataclasses import dataclass

from dbops.engine.flavors import flavor_for
from dbops.engine.tuning.doublewrite import KINDS, DoublewriteAdvice, HowTo, how_to_set, repairs
from dbops.loaders.doublewrite import attestation_of, doublewrite_of
from dbops.models import Instance, StorageAttestation
from dbops.queries.fleet.cluster import InstanceRow


@dataclass(frozen=True, slots=True)
class DoublewritePage:
    """The doublewrite section of an instance's page. ``off`` and ``on`` say how to set it."""

    advice: DoublewriteAdvice
    attestation: StorageAttestation | None
    off: HowTo
    on: HowTo

    @property
    def kind(self) -> str:
        return KINDS.get(self.attestation.kind, "") if self.attestation else ""


def doublewrite_page(instance: Instance) -> DoublewritePage | None:
    """Return the section, ``None`` if the server was not read. Two queries."""
    row = attestation_of(instance)
    advice = doublewrite_of(instance, row)
    if advice is None:
        return None
    flavor = flavor_for(advice.version, advice.flavor)
    return DoublewritePage(advice, row, off=how_to_set(flavor, "OFF"), on=how_to_set(flavor, "ON"))


def settings_that_differ(rows: Iterable[InstanceRow]) -> tuple[tuple[str, str], ...]:
    """Return names and settings of a cluster's instances if not all of them protect pages in the same way, else nothing."""
    found = [(row.instance.name, row.server.doublewrite) for row in rows if row.server and row.server.doublewrite]
    return tuple(found) if len({repairs(setting) for _, setting in found}) > 1 else ()
