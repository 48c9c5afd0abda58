"""Connect to the hosts of one load test, prepare its restore there, and remove leftovers."""

import time

from django.conf import settings

from dbops.engine.errors import DbopsError, Refused, Unreachable
from dbops.engine.facts.instance import HostFacts, from_record
from dbops.engine.flavors import flavor_for
from dbops.engine.hosts.access import HostAccess
from dbops.engine.load_tests.copy import KIND, empty_copy, restored_copy
from dbops.engine.load_tests.generator_access import ATTEMPTS, GeneratorAccess, Ways
from dbops.engine.load_tests.job import OF_LOAD_TEST
from dbops.engine.load_tests.job_files import generator_files
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.load_tests.request import LoadTestRequest
from dbops.engine.phrases import phrase
from dbops.engine.restore_tests.job import remove_leftovers
from dbops.engine.restore_tests.plan import RestoreTestPlan
from dbops.engine.states import Level
from dbops.engine.tuning.transport import choose_ciphers
from dbops.lifecycle import load_tests
from dbops.loaders.plan_inputs import archive_of_run, host_facts
from dbops.models import Host, LoadTest
from dbops.worker import prober
from dbops.worker.connections import endpoint_of
from dbops.worker.journal import LoadTestJournal
from dbops.worker.load_test_clusters import leave_cluster_of
from dbops.worker.restore_test_hosts import TestHosts


class LoadTestHosts(TestHosts[LoadTest]):
    """The hosts of one load test, with its fence."""

    host_key, read_key, generator_key = "_load_test", "_load-test-reads", "_load-generator"

    def ways(self, load_test: LoadTest, plan: RestoreTestPlan) -> Ways:
        """Return the access of a load test to other hosts: to its backup and to its load generator, where they are elsewhere."""
        parts = (self.way_to_file(load_test, plan), self._way_to_generator(load_test))
        return Ways([one for one in parts if one])

    def tunnel(self, load_test: LoadTest) -> list[str]:
        """Return the words of ssh from the scratch server's host to the load generator's; empty if it is the same one."""
        if load_test.generator_host is None:
            return []
        there, here = host_facts(load_test.generator_host), host_facts(load_test.host)
        if there is None or here is None:
            raise Refused("load_test.host", self._operation, cause=phrase("the last probe of a host did not read it"))
        ciphers = choose_ciphers(there, here, None)
        return self._to_generator(load_test, load_test.generator_host).pull(ciphers, attempts=ATTEMPTS)

    def _way_to_generator(self, load_test: LoadTest) -> GeneratorAccess | None:
        if load_test.generator_host is None:
            return None
        frozen = from_record(LoadTestPlan, load_test.plan)
        words = (str(frozen.generator_cores), str(frozen.generator_limit_bytes))
        way = self._to_generator(load_test, load_test.generator_host)

        def files() -> dict[str, str]:
            request = from_record(LoadTestRequest, load_test.request)
            return generator_files(frozen, request.workload, load_test.uid)

        return GeneratorAccess(way, load_test.uid, words, frozen.generator_machine, files)

    def _to_generator(self, load_test: LoadTest, there: Host) -> HostAccess:
        # another run than that of the job: access to its backup can lead to the same host
        run, here = f"g{load_test.uid}", self._restore_test.host
        # generators of tests on several hosts have their own fences there
        serving = self._jobs_on(there, run, f"{self.generator_key}-{here.pk}")
        facts = host_facts(here)
        target = endpoint_of(here, facts.local_address if facts else "", self.jobs(run))
        return HostAccess(run, source=endpoint_of(there, "", serving), target=target)

    def remove_leftovers(self, journal: LoadTestJournal) -> None:
        """Remove the leftovers of load tests on this host. An unreachable host with files is asked once."""
        silent: set[int | None] = set()
        for dead in load_tests.leftovers(self._restore_test):
            others = {dead.source.host_id, dead.generator_host_id}
            if others & silent:
                continue
            try:
                gone = self.remove_files_of(dead, f"again-{self._restore_test.uid}")
            except Unreachable:
                raise
            except DbopsError as error:
                journal.say(
                    phrase("Could not remove the leftovers of load test {test}: {error}", test=dead.pk, error=error),
                    level=Level.WARNING,
                )
                silent |= others - {None}
                continue
            if gone:
                load_tests.mark_removed(dead)

    def remove_files_of(self, dead: LoadTest, name: str) -> bool:
        """Stop what is left of an ended load test and remove its files, by the removal job ``name``. Return whether that is done.

        Raises:
            Unreachable: a host does not answer.
            RemoteFailure: files, or a schema in a TiDB cluster, are left (``load_test.not_removed``).
        """
        if "plan" not in dead.checkpoint:
            return True
        plan, jobs = from_record(RestoreTestPlan, dead.checkpoint["plan"]), self.jobs(dead.uid)
        jobs.stop(KIND)
        until, way = time.monotonic() + settings.TICK_SECONDS, self.ways(dead, plan)
        while not (gone := remove_leftovers(jobs, plan, name, way, OF_LOAD_TEST)) and time.monotonic() < until:
            pass
        if gone:
            leave_cluster_of(dead)
        return gone

    def plan(self, frozen: LoadTestPlan) -> RestoreTestPlan:
        """Return the scratch directories of the confirmed plan, and the restore in them, from new probes.

        Raises:
            Refused: the backup was removed (``load_test.backup``), the host cannot be probed (``load_test.host``), or as in
                ``restored_copy``.
            Unreachable: a host does not answer.
        """
        if not self._restore_test.run_id:
            flavor = None if frozen.tidb else flavor_for(frozen.version, frozen.flavor)
            return empty_copy(self._restore_test.uid, frozen, self._host(), flavor)
        archive = archive_of_run(self._restore_test.run_id)
        if archive is None:
            found = phrase("its file was removed, or its record is incomplete")
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
            found = phrase(
                "{host} has no instance in the inventory, so dbops can’t probe it", host=self._restore_test.host.name
            )
            raise Refused("load_test.host", self._operation, cause=found)
        facts = prober.probe_now(there).host
        assert facts is not None  # noqa: S101 - probe_now checks it
        return facts
