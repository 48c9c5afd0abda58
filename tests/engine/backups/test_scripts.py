"""The shell that backs up, publishes and removes, run for real in a folder with stand-ins for the database's programs."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dbops.engine.backups.completeness import judge_backup
from dbops.engine.errors import DbopsError, Refused
from dbops.engine.flavors.tool_options import NO_TOOL
from dbops.engine.hosts.scripts import load
from dbops.engine.ports import JobState, JobStatus
from dbops.engine.states import BackupMethod

from . import samples

#: What servers, tools and scripts say or get: recorded, not worded here.
COMPLETED = "-- Dump completed on 2026-03-29  1:31:00\n"

DUMP, PHYSICAL = BackupMethod.DUMP, BackupMethod.PHYSICAL
#: A dump that is longer than what is kept of its two ends, and whose position is in both.
DUMPER = r"""#!/bin/bash
case "$*" in *--version*) echo "mariadb-dump from 10.11.19" ; exit ;; esac
echo "-- CHANGE MASTER TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=743;"
head -c 300000 /dev/zero | tr '\0' 'x' | fold -w 100
echo
echo "-- SET GLOBAL gtid_slave_pos='0-7-3';"
[ -n "${CUT:-}" ] || echo "-- Dump completed on 2026-03-29  1:31:00"
exit "${STATUS:-0}"
"""
COPIER = r"""#!/bin/bash
case "$*" in *--version*) echo "mariadb-backup based on MariaDB server 10.11.19" ; exit ;; esac
for word; do case $word in --extra-lsndir=*) lsn=${word#*=} ;; esac; done
mkdir -p "$lsn"
printf 'uuid = 1\nbinlog_pos = filename '"'b.1', position '7', GTID of the last change '0-1-2'"'\n' >"$lsn/xtrabackup_info"
printf 'backup_type = full-backuped\nto_lsn = 1\nlast_lsn = 2\n' >"$lsn/xtrabackup_checkpoints"
head -c 500000 /dev/urandom
echo "[00] 2026 ${SAYS:-completed OK!}" >&2
exit "${STATUS:-0}"
"""


class Place:
    """A host that is a folder: its programs, its data directory with a server in it, and a job's directory."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path
        for folder in (tmp_path, *tmp_path.parents[:3]):  # a dump runs as another account
            folder.chmod(folder.stat().st_mode | 0o055)
        self.bin, self.data, self.job, self.backups = (tmp_path / name for name in ("bin", "data", "job", "backups"))
        for path in (self.bin, self.data, self.job):
            path.mkdir()
        (self.job / "backup.cnf").write_text("[client]\n")
        self.put("mariadb-dump", DUMPER)
        self.put("mariadb-backup", COPIER)
        self.put("mariadb", f"#!/bin/bash\nprintf '12\\t{self.data}\\n'\n")
        shutil.copy("/bin/sleep", self.bin / "mariadbd")
        self.server = subprocess.Popen([self.bin / "mariadbd", "600"], cwd=self.data)
        self.without: tuple[str, ...] = ()
        self.directory, self.needed, self.mount = self.backups, 1, ""

    def put(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def tools_do(self, environment: dict[str, str]) -> None:
        """Set variables in the tools themselves: a tool gets none from the job's environment."""
        head = "#!/bin/bash\n"
        said = head + "".join(f"{name}={shlex.quote(value)}\n" for name, value in environment.items())
        self.put("mariadb-dump", DUMPER.replace(head, said))
        self.put("mariadb-backup", COPIER.replace(head, said))

    def path(self) -> str:
        if not self.without:
            return f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
        only = self.root / "only"
        only.mkdir(exist_ok=True)
        for folder in (self.bin, Path("/usr/bin")):
            for program in folder.iterdir():
                if program.name not in self.without and not (only / program.name).exists():
                    (only / program.name).symlink_to(program)
        return str(only)

    def back_up(self, method: BackupMethod = DUMP) -> JobState:
        """Run the job as the launcher does. Return its state as the launcher would tell it."""
        status = self.data.stat()
        plan = samples.plan(method)
        options = ["--extra-lsndir=" + str(self.job / "lsn"), *(word for word in plan.options if "lsndir" not in word)]
        words = [
            *("", str(self.data), f"{status.st_dev}:{status.st_ino}", "12", "/s", str(self.directory), plan.partial),
            *(str(self.needed), method.value, "mariadb", " ".join(plan.tools)),
            *(
                "xtrabackup_info xtrabackup_checkpoints",
                self.mount,
                *NO_TOOL,
                str(len(options)),
                *options,
                *plan.compressor,
            ),
        ]
        with (self.job / "log.out").open("w") as out:
            done = subprocess.run(
                ["bash", "-c", load("common", "pipes", "tool_options", "tool_account", "back_up"), "dbops", *words],
                cwd=self.job,
                env={"PATH": self.path(), "DBOPS_JOB_DIR": str(self.job), "DBOPS_RUN_DIR": "/run-1", "LC_ALL": "C"},
                stdout=out,
                stderr=out,
                timeout=60,
                check=False,
            )
        stages = {path.name.removeprefix("stage."): int(path.read_text()) for path in self.job.glob("stage.*")}
        tails = {path.name.removeprefix("log."): path.read_text() for path in self.job.glob("log.*")}
        return JobState(JobStatus.ENDED, done.returncode, stages, {}, tails)

    def judge(self, method: BackupMethod = DUMP, state: JobState | None = None) -> object:
        state = state or self.back_up(method)
        return judge_backup(samples.plan(method), state, state.tails.get("files", ""))

    def run(self, script: str, *words: str, stdin: str = "{}") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", load("common", script), "dbops", *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def place(tmp_path: Path):
    found = Place(tmp_path)
    yield found
    found.server.kill()
    found.server.wait()


def test_dump_script_records_the_position_at_both_ends(place: Place) -> None:
    whole = place.judge(DUMP)
    plan = samples.plan(DUMP)
    file = place.backups / plan.partial
    assert (whole.bytes, file.stat().st_mode & 0o777) == (file.stat().st_size, 0o600)
    assert whole.sha256 == subprocess.run(["sha256sum", file], capture_output=True, text=True).stdout.split()[0]
    assert (whole.position.log_file, whole.position.gtid) == ("b.000001", "0-7-3")
    text = subprocess.run(["gzip", "-dc", file], capture_output=True, text=True).stdout
    assert text.endswith(COMPLETED)
    assert not (place.job / "seen").exists()


def test_physical_script_records_the_position_of_the_tool(place: Place) -> None:
    whole = place.judge(PHYSICAL)
    assert (whole.position.gtid, whole.tool.split()[-1]) == ("0-1-2", "10.11.19")
    assert whole.bytes > 400_000


@pytest.mark.parametrize(
    ("method", "environment", "code"),
    [
        (DUMP, {"CUT": "1"}, "backup.incomplete"),
        (DUMP, {"STATUS": "2"}, "backup.failed"),
        (PHYSICAL, {"SAYS": "all done"}, "backup.incomplete"),
        (PHYSICAL, {"STATUS": "1"}, "backup.failed"),
        (PHYSICAL, {"STATUS": "137"}, "backup.killed"),
    ],
)
def test_scripts_never_publish_an_incomplete_backup(
    place: Place, method: BackupMethod, environment: dict, code: str
) -> None:
    place.tools_do(environment)
    with pytest.raises(DbopsError) as caught:
        place.judge(method)
    assert caught.value.code == code


def refusal(place: Place, method: BackupMethod = PHYSICAL) -> str:
    with pytest.raises(Refused) as caught:
        place.judge(method)
    assert not list(place.backups.glob(".*.partial")) or "No file" in caught.value.cause
    return caught.value.cause


def test_scripts_refuse_a_missing_compressor(place: Place) -> None:
    place.without = ("zstd",)
    assert "zstd" in refusal(place)


def test_scripts_refuse_a_missing_tool(place: Place) -> None:
    place.without = ("mariadb-backup", "mariabackup")
    assert "mariadb-backup" in refusal(place)


def test_scripts_refuse_a_stopped_server(place: Place) -> None:
    place.server.kill()
    place.server.wait()
    assert str(place.data) in refusal(place)


def test_scripts_refuse_another_server_at_the_socket(place: Place) -> None:
    place.put("mariadb", f"#!/bin/bash\nprintf '13\\t{place.data}\\n'\n")
    assert "server id 13" in refusal(place)
    place.put("mariadb", f"#!/bin/bash\nprintf '12\\t{place.job}\\n'\n")
    assert str(place.job) in refusal(place)


def test_scripts_refuse_when_space_is_short(place: Place) -> None:
    place.needed = 1 << 60
    assert f"{(1 << 60) // 1048576} MiB" in refusal(place)


def test_scripts_refuse_a_directory_inside_the_data_directory(place: Place) -> None:
    place.directory = place.data / "backups"
    assert str(place.directory) in refusal(place)
    assert not place.directory.exists()


def test_scripts_refuse_an_unmounted_file_system(place: Place) -> None:
    place.mount = str(place.backups)
    found = refusal(place)
    assert str(place.backups) in found
    assert not place.backups.exists()


def test_scripts_recognize_the_file_system_of_the_last_backup(place: Place) -> None:
    place.mount = place.judge(DUMP).mount  # type: ignore[attr-defined]
    stat = subprocess.run(["stat", "-c", "%m", place.backups], capture_output=True, text=True)
    assert place.mount == stat.stdout.strip()
    assert place.judge(DUMP).mount == place.mount


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system is mounted by root")
def test_full_disk_ends_the_whole_pipe(place: Place) -> None:
    place.backups.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "dbops-test", place.backups], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        with pytest.raises(DbopsError) as caught:
            place.judge(PHYSICAL)
    finally:
        subprocess.run(["umount", place.backups], check=True)
    assert caught.value.code == "stream.disk_full"


RUN, SHA = samples.plan(DUMP).run_id, samples.SHA


def publish(place: Place, identity: str, size: int) -> subprocess.CompletedProcess[str]:
    plan = samples.plan(DUMP)
    record = json.dumps({"file": plan.file, "run": RUN, "sha256": SHA}, indent=2, sort_keys=True)
    words = (str(place.backups), plan.partial, plan.file, identity, str(size), RUN, SHA)
    return place.run("publish_backup", *words, stdin=record)


def published(place: Place, *, size: int | None = None, device: int | None = None) -> subprocess.CompletedProcess[str]:
    plan = samples.plan(DUMP)
    found = next(path for path in (place.backups / plan.file, place.backups / plan.partial) if path.exists()).stat()
    identity = f"{found.st_dev if device is None else device}:{found.st_ino}"
    return publish(place, identity, found.st_size if size is None else size)


def withdrawn(place: Place, size: int, run: str = RUN) -> subprocess.CompletedProcess[str]:
    return place.run("withdraw_backup", str(place.backups), samples.plan(DUMP).file, str(size), run, SHA)


def test_publish_is_idempotent(place: Place) -> None:
    place.back_up()
    plan = samples.plan(DUMP)
    for _ in range(2):
        assert published(place).stdout == "published\n"
        assert sorted(path.name for path in place.backups.iterdir()) == [plan.file, f"{plan.file}.json"]


def test_publish_never_replaces_another_file(place: Place) -> None:
    place.back_up()
    plan = samples.plan(DUMP)
    assert published(place, size=1).returncode == 70
    assert not (place.backups / plan.file).exists()
    other = place.backups / plan.file
    other.write_text("foreign")
    found = (place.backups / plan.partial).stat()
    answer = publish(place, f"{found.st_dev}:{found.st_ino}", found.st_size)
    assert answer.returncode == 65
    assert withdrawn(place, found.st_size).stdout == "another\n"
    assert other.read_text() == "foreign"


def test_publish_recognizes_its_file_after_a_remount(place: Place) -> None:
    place.back_up()
    file = place.backups / samples.plan(DUMP).file
    assert published(place).returncode == 0
    assert published(place, device=99999).stdout == "published\n"
    file.with_name(f"{file.name}.json").write_text(json.dumps({"run": "another", "sha256": SHA}, indent=2))
    assert published(place, device=99999).returncode == 65
    assert file.exists()


def test_withdraw_removes_only_the_file_of_its_run(place: Place) -> None:
    place.back_up()
    assert published(place).returncode == 0
    file = place.backups / samples.plan(DUMP).file
    size = file.stat().st_size
    assert withdrawn(place, size, run="fedcba9876543210").stdout == "another\n"
    assert withdrawn(place, size + 1).stdout == "another\n"
    assert file.stat().st_size == size
    for _ in range(2):
        assert withdrawn(place, size).stdout == "withdrawn\n"
        assert list(place.backups.iterdir()) == []


def test_publish_leaves_no_partial_record_when_it_fails(place: Place) -> None:
    place.back_up()
    plan = samples.plan(DUMP)
    (place.backups / f"{plan.file}.json").mkdir()
    assert published(place).returncode == 70
    assert sorted(path.name for path in place.backups.iterdir()) == [plan.partial, f"{plan.file}.json"]


def test_remove_backups_removes_only_named_files(place: Place) -> None:
    place.backups.mkdir()
    for name in ("a", "a.json", "b", "b.json"):
        (place.backups / name).touch()
    gone = place.run("remove_backups", str(place.backups / "a"), str(place.backups / "never"))
    assert gone.stdout == f"removed {place.backups}/a\nabsent {place.backups}/never\n"
    assert sorted(path.name for path in place.backups.iterdir()) == ["b", "b.json"]
    assert place.run("remove_backups", f"{place.backups}/*").returncode == 65
    assert place.run("remove_backups", f"{place.backups}/").returncode == 65
