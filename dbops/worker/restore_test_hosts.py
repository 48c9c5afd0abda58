"""Connect to the hosts of one restore test, plan it, and remove leftovers there."""

import time
from contextlib import ExitStack
from typing import Generic, TypeVar

from django.conf import settings

from dbops.drivers.jobs import HostJobs
from dbops.engine.errors import DbopsError, Refused, Unreachable
from dbops.engine.facts.instance import HostFacts, from_record
from dbops.engine.hosts.access import HostAccess
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.job import FileAccess, remove_leftovers
from dbops.engine.restore_tests.plan import (
    JOB,
    RemoteFile,
    RestoreTestLimits,
    RestoreTestPlan,
    machine_of,
    plan_restore_test,
)
from dbops.engine.states import Level
from dbops.engine.tuning.transport import choose_ciphers
from dbops.lifecycle import restore_tests
from dbops.loaders.plan_inputs import archive_of_run, host_facts, link_between
from dbops.models import Host, Instance, LoadTest, RestoreTest
from dbops.worker import prober
from dbops.worker.connections import endpoint_of
from dbops.worker.journal import RestoreTestJournal
from dbops.worker.wiring import open_jobs

#: Names of fences and locks of restore tests on a host, for tests there and for reads there. No instance has such a
#: name: instance names start with a letter or digit.
HOST_KEY, READ_KEY = "_restore_test", "_restore-test-reads"
#: Tests that can restore a backup.
Test = TypeVar("Test", RestoreTest, LoadTest)
#: A short network failure must not fail a restore test.
PULL_ATTEMPTS = 5
#: The last argument of ``serve_file.sh``: all other work on the host with the file comes first.
LOW_PRIORITY = "low"


class TestHosts(Generic[Test]):
    """The hosts of one test that can restore a backup, with its fence. ``stack`` closes the shells."""

    __test__ = False  # it is none of pytest's
    host_key, read_key = HOST_KEY, READ_KEY

    def __init__(self, restore_test: Test, stack: ExitStack) -> None:
        self._restore_test: Test = restore_test
        self._stack = stack

    def jobs(self, uid: str) -> HostJobs:
        """Return the jobs of the test ``uid`` on this test's host."""
        return self._jobs_on(self._restore_test.host, uid, self.host_key)

    def _jobs_on(self, host: Host, uid: str, key: str) -> HostJobs:
        return open_jobs(host, uid, self._stack, fence=key, token=self._restore_test.host_token)

    def way_to_file(self, restore_test: Test, plan: RestoreTestPlan) -> FileAccess | None:
        """Return the access to the file of a test on this test's host; ``None`` if the file is there."""
        if not plan.transport:
            return None
        words = (plan.path, str(plan.bytes), plan.run_uid, plan.sha256, LOW_PRIORITY)
        return FileAccess(self._way(restore_test), words, (plan.holder_machine, plan.machine))

    def _way(self, restore_test: Test) -> HostAccess:
        holder, host = restore_test.source.host, self._restore_test.host
        # Tests on several hosts may read from this one at a time: each test host has its own fence here.
        reading = self._jobs_on(holder, restore_test.uid, f"{self.read_key}-{host.pk}")
        facts = host_facts(host)
        target = endpoint_of(host, facts.local_address if facts else "", self.jobs(restore_test.uid))
        return HostAccess(restore_test.uid, source=endpoint_of(holder, "", reading), target=target)

    def _elsewhere(self, restore_tester: HostFacts, holder: HostFacts | None) -> RemoteFile:
        assert holder is not None  # noqa: S101 - probe_now checks it
        host, source = self._restore_test.host, self._restore_test.source
        ciphers = choose_ciphers(holder, restore_tester, link_between(source.host_id, host.pk))
        pull = self._way(self._restore_test).pull(ciphers, attempts=PULL_ATTEMPTS)
        return RemoteFile(source.host.name, machine_of(holder), tuple(pull), host.work_dir)

    def _instance_there(self) -> Instance | None:
        """Return an instance of the chosen host: hosts are probed through their instances."""
        return Instance.objects.filter(host=self._restore_test.host).order_by("pk").first()


class Hosts(TestHosts[RestoreTest]):
    """The hosts of one restore test."""

    def remove_leftovers(self, journal: RestoreTestJournal) -> None:
        """Remove the leftovers of restore tests on this host. An unreachable host with files is asked once."""
        silent: set[int] = set()
        for dead in restore_tests.leftovers(self._restore_test):
            if dead.source.host_id in silent:
                continue
            if "plan" not in dead.checkpoint:
                restore_tests.mark_removed(dead)
                continue
            plan, jobs = from_record(RestoreTestPlan, dead.checkpoint["plan"]), self.jobs(dead.uid)
            try:
                jobs.stop(JOB)
                until = time.monotonic() + settings.TICK_SECONDS
                way, name = self.way_to_file(dead, plan), f"again-{self._restore_test.uid}"
                while not (gone := remove_leftovers(jobs, plan, name, way)) and time.monotonic() < until:
                    pass
            except Unreachable:
                raise
            except DbopsError as error:
                journal.say(
                    phrase("Could not remove the leftovers of restore test {test}: {error}", test=dead.pk, error=error),
                    level=Level.WARNING,
                )
                silent.add(dead.source.host_id)
                continue
            if gone:
                restore_tests.mark_removed(dead)

    def plan(self) -> RestoreTestPlan:
        """Plan the restore test from new probes of both hosts.

        Raises:
            Refused: the backup was removed (``restore_test.no_backup``), the chosen host can't be probed
                (``restore_test.no_host``), or as in ``plan_restore_test``.
            Unreachable: a host does not answer.
        """
        restore_test, archive = self._restore_test, archive_of_run(self._restore_test.run_id)
        if archive is None:
            raise Refused(
                "restore_test.no_backup",
                phrase("Planning the restore test of backup run {run}", run=restore_test.run_id),
                cause=phrase("its file was removed, or its record is incomplete"),
            )
        source = prober.probe_now(restore_test.source)
        is_there = restore_test.host_id == restore_test.source.host_id
        restore_tester = source if is_there else prober.probe_now(self._must_be_there())
        assert restore_tester.host is not None  # noqa: S101 - probe_now checks it
        return plan_restore_test(
            restore_test.uid,
            archive,
            restore_tester.host,
            owner=restore_test.source.os_user,
            limits=RestoreTestLimits(
                settings.RESTORE_TEST_CORES, settings.RESTORE_TEST_DIRECTORY, settings.START_TIMEOUT_SECONDS
            ),
            server=source.server,
            elsewhere=None if is_there else self._elsewhere(restore_tester.host, source.host),
        )

    def _must_be_there(self) -> Instance:
        if there := self._instance_there():
            return there
        raise Refused(
            "restore_test.no_host",
            phrase("Planning the restore test of backup run {run}", run=self._restore_test.run_id),
            cause=phrase(
                "{host} has no instance in the inventory, so dbops can’t probe it", host=self._restore_test.host.name
            ),
        )
