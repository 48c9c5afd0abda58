"""The scratch directories of a load test, and the backup in them if one is restored."""

from dataclasses import replace

from dbops.engine.backups.archives import Archive
from dbops.engine.facts.instance import HostFacts, ServerFacts
from dbops.engine.flavors import Flavor
from dbops.engine.load_tests.plan import LoadTestPlan
from dbops.engine.restore_tests.plan import (
    RemoteFile,
    RestoreTestLimits,
    RestoreTestPlan,
    machine_of,
    plan_restore_test,
)

#: The kind of scratch directories; also the name of the job on the host, and that of its removal.
KIND, REMOVAL = "load-test", "load-test-remove"
#: User and group of the scratch server and its files, as in ``run_load_test.sh``: an account that owns nothing.
OWNER = "65534:65534"


def restored_copy(
    uid: str,
    plan: LoadTestPlan,
    archive: Archive,
    host: HostFacts,
    *,
    server: ServerFacts | None,
    elsewhere: RemoteFile | None,
) -> RestoreTestPlan:
    """Return how the backup of a load test is restored, with the load test's server, space and memory.

    Args:
        uid: of the load test.
        plan: that was confirmed.
        archive: the backup.
        host: facts of the host, from a probe of this moment.
        server: facts of the source if it answers.
        elsewhere: where the file is, if it is on another host.

    Raises:
        Refused: as ``plan_restore_test``.
    """
    limits = RestoreTestLimits(plan.server_cores, plan.place, plan.start_seconds)
    copy = plan_restore_test(
        uid, archive, host, owner=OWNER, limits=limits, server=server, elsewhere=elsewhere, kind=KIND
    )
    return replace(
        copy,
        server=plan.server,
        needed_bytes=max(copy.needed_bytes, plan.needed_bytes),
        needed_memory_bytes=max(copy.needed_memory_bytes, plan.memory_limit_bytes),
    )


def empty_copy(uid: str, plan: LoadTestPlan, host: HostFacts, flavor: Flavor | None) -> RestoreTestPlan:
    """Return the scratch directories of a load test without a backup. Arguments as of ``restored_copy``.

    ``flavor``: of the scratch server; ``None`` without one.
    """
    return RestoreTestPlan(
        restore_test=uid,
        source=plan.source,
        run_uid="",
        path="",
        bytes=0,
        sha256="",
        machine=machine_of(host),
        place=plan.place,
        owner=OWNER,
        needed_bytes=plan.needed_bytes,
        needed_memory_bytes=plan.memory_limit_bytes,
        most_memory_bytes=plan.memory_bytes,
        cores=plan.server_cores,
        start_seconds=plan.start_seconds,
        prepared_type="",
        unpackers=(),
        tools=(),
        servers=flavor.server_programs if flavor else (),
        clients=flavor.client_programs if flavor else (),
        checkpoints=(),
        unpack=(),
        prepare=(),
        server=plan.server,
        kind=KIND,
    )
