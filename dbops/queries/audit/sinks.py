"""Read the audit sinks: what each has, what waits, and its last error."""

from dataclasses import dataclass

from dbops.audit.log import current_head
from dbops.engine.audit.sinks import read_address
from dbops.models import AuditSink
from dbops.models.secret import is_set, vault_path
from dbops.security.vault_paths import VaultPath


@dataclass(frozen=True, slots=True)
class SinkNow:
    """A sink, and how many entries it lacks."""

    sink: AuditSink
    waiting: int

    @property
    def state(self) -> str:
        """``failing``, ``waiting`` or ``current``."""
        return "failing" if self.sink.error else "waiting" if self.waiting else "current"

    @property
    def is_tested(self) -> bool:
        """Whether the receiver has the entry of the last test."""
        return self.sink.tested_sequence is not None and self.sink.sent_sequence >= self.sink.tested_sequence

    @property
    def is_encrypted(self) -> bool:
        return read_address(self.sink.address).is_encrypted

    @property
    def has_token(self) -> bool:
        return is_set(self.sink, "token")

    @property
    def token_path(self) -> VaultPath | None:
        """Where the token is in Vault; ``None`` if it is not there."""
        return vault_path(self.sink, "token")


def sinks() -> list[SinkNow]:
    """Return all sinks by name. Two queries."""
    head = current_head().sequence
    return [SinkNow(sink, max(0, head - sink.sent_sequence)) for sink in AuditSink.objects.all()]
