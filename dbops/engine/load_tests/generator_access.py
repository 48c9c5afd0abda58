"""Access from the host of a scratch server to the other host that runs the load generator, and its removal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dbops.engine.errors import Refused
from dbops.engine.hosts.access import HostAccess, act, remove_run
from dbops.engine.hosts.scripts import load
from dbops.engine.phrases import phrase
from dbops.engine.ports import Jobs
from dbops.engine.restore_tests.job import KEY_SECONDS, JobAccess, close_all, why_other_machine

#: Its forced command, with the functions that it needs.
SERVE = ("common", "scratch", "scratch_server", "load_test_limits", "tunnel", "measure", "serve_load")
_WRITE = 'cat >"$1.new" && mv -f "$1.new" "$1"'
_REMOVE = 'scratch_kind=load-generator\nremove_scratch "$PWD" "$1" || fail "$(sockets_of "$1") could not be removed."'
#: A short network failure before a round must not fail the test.
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class GeneratorAccess:
    """A key with which the scratch server's host runs the load generator of one test, and nothing else.

    Attributes:
        way: from the generator's host (``source``) to the scratch server's (``target``). Its run is none of other jobs.
        load_test: id of the load test.
        words: arguments of the forced command after the id: cores, bytes of memory.
        machine: name and machine id of the generator's host.
        files: those of the generator on its host, by name.
    """

    way: HostAccess
    load_test: str
    words: tuple[str, ...]
    machine: str
    files: Callable[[], dict[str, str]] = field(repr=False)

    @property
    def others(self) -> tuple[Jobs, ...]:
        return (self.way.source.jobs,)

    def open(self) -> None:
        """Write the generator's files on its host, and install the key, which expires automatically. Idempotent.

        Raises:
            Refused: the host is not the machine of the plan (``load_test.not_as_planned``); nothing was written.
            RemoteFailure, Unreachable: as ``HostAccess``.
        """
        there = self.way.source
        if why := why_other_machine(there, self.machine):
            raise Refused(
                "load_test.not_as_planned",
                phrase("Opening access to the load generator on {host}", host=there.name),
                cause=why,
            )
        key = self.way.make_key()
        for name, text in self.files().items():
            act(there, phrase("Writing the load generator's files"), _WRITE, name, stdin=text.encode())
        self.way.let_in(key, (self.load_test, *self.words), load(*SERVE), key_seconds=KEY_SECONDS)

    def close(self) -> None:
        """End the generator, and remove the key and all files on both hosts, even if one host fails.

        Raises the first error, like ``HostAccess``.
        """
        close_all(
            (
                self.way.close,
                self._remove,
                lambda: remove_run(self.way.source),
                self.way.forget_key,
                lambda: remove_run(self.way.target),
            )
        )

    def _remove(self) -> None:
        act(
            self.way.source,
            phrase("Removing the load generator"),
            f"{load('common', 'scratch')}\n{_REMOVE}",
            self.load_test,
        )


@dataclass(frozen=True, slots=True)
class Ways:
    """Several of them. They are opened in their order."""

    parts: Sequence[JobAccess]

    @property
    def others(self) -> tuple[Jobs, ...]:
        return tuple(jobs for one in self.parts for jobs in one.others)

    def open(self) -> None:
        for one in self.parts:
            one.open()

    def close(self) -> None:
        close_all([one.close for one in self.parts])
