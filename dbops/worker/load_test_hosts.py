"""Connect to the hosts of one load test, prepare its restore there, and remove leftovers."""

import time

from django.conf import settings

from dbops.engine.errors import DbopsError, Refused, Unreachable
from dbops.engine.facts.instance import HostFacts, from_record
from dbops.engine.flavors import flavor_for
from dbops.engine.load_tests.copy import KIND, empty_copy, restored_copy
from dbops.engine.load_tests.job import OF_LOAD_TEST
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.restore_tests.job import remove_leftovers
from dbops.engine.restore_tests.plan import RestoreTestPlan
from dbops.engine.states import Level
from dbops.lifecycle import load_tests
from dbops.loaders.plan_inputs import archive_of_run
from dbops.models import LoadTest
from dbops.worker import prober
from dbops.worker.journal import LoadTestJournal
from dbops.worker.restore_test_hosts import TestHosts


class LoadTestHosts(TestHosts[LoadTest]):
    """The hosts of one load test, with its fence."""

    host_key, read_key = "_load_test", "_load-test-reads"

    def remove_leftovers(self, journal: LoadTestJournal) -> None:
        """Remove the leftovers of load tests on this host. An unreachable host with files is asked once."""
        silent: set[int] = set()
        for dead in load_tests.leftovers(self._restore_test):
            if dead.source.host_id in silent:
                continue
            try:
                gone = self.remove_files_of(dead, f"again-{self._restore_test.uid}")
            except Unreachable:
                raise
            except DbopsError as error:
                journal.say(f"Could not remove the leftovers of load test {dead.pk}: {error}", level=Level.WARNING)
                silent.add(dead.source.host_id)
                continue
            if gone:
                load_tests.mark_removed(dead)

    def remove_files_of(self, dead: LoadTest, name: str) -> bool:
        """Stop what is left of an ended load test and remove its files, by the removal job ``name``. Return whether that is done.

        Raises:
            Unreachable: a host does not answer.
            RemoteFailure: files are left (``load_test.not_removed``).
        """
        if "plan" not in dead.checkpoint:
            return True
        plan, jobs = from_record(RestoreTestPlan, dead.checkpoint["plan"]), self.jobs(dead.uid)
        jobs.stop(KIND)
        until, way = time.monotonic() + settings.TICK_SECONDS, self.way_to_file(dead, plan)
        while not (gone := remove_leftovers(jobs, plan, name, way, OF_LOAD_TEST)) and time.monotonic() < until:
            pass
        return gone

    def plan(self, frozen: LoadTestPlan) -> RestoreTestPlan:
        """Return the scratch directories of the confirmed plan, and the restore in them, from new probes.

        Raises:
            Refused: the backup was removed (``load_test.backup``), the host cannot be probed (``load_test.host``), or as in
                ``restored_copy``.
            Unreachable: a host does not answer.
        """
        if not self._restore_test.run_id:
            return empty_copy(self._restore_test.uid, frozen, self._host(), flavor_for(frozen.version, frozen.flavor))
        archive = archive_of_run(self._restore_test.run_id)
        if archive is None:
            found = "its file was removed, or its record is incomplete"
            raise Refused("load_test.backup", self._operation, cause=found)
        source = prober.probe_now(self._restore_test.source)
        is_there = self._restore_test.host_id == self._restore_test.source.host_id
        host = source.host if is_there and source.host else self._host()
        elsewhere = None if is_there else self._elsewhere(host, source.host)
        return restored_copy(self._restore_test.uid, frozen, archive, host, server=source.server, elsewhere=elsewhere)

    @property
    def _operation(self) -> str:
        return f"Planning load test {self._restore_test.pk}"

    def _host(self) -> HostFacts:
        there = self._instance_there()
        if there is None:
            found = f"{self._restore_test.host.name} has no instance in the inventory, so dbops can’t probe it"
            raise Refused("load_test.host", self._operation, cause=found)
        facts = prober.probe_now(there).host
        assert facts is not None  # noqa: S101 - probe_now checks it
        return facts
