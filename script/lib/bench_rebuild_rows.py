"""Measure the benchmark rows of one MariaDB lab: stream, overhead, archive, dump and regular backup."""

import json
import os
import subprocess
import threading
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import yaml

from script.lib.bench import REPLICA, SOURCE, Bench, stage, streams
from script.lib.bench_cpu import Programs, Watch
from script.lib.bench_ground import say
from script.lib.bench_memory import settle
from script.lib.bench_rows import Group, Row, Samples, against_median, pairs, row_of, without
from script.lib.supervisor import Failed, wait_until

KEYS = ("stream", "restore", "archive", "backup", "around", "worker")
PHYSICAL = "bench-physical"
#: Name suffixes: sysbench's own tables, and the same tables with more secondary indexes.
PLAIN, DRESSED = " (one index)", " (three indexes)"
#: Besides sysbench's own index on k: columns of 120 and 60 characters.
INDEXES = {"by_c": "c", "by_pad": "pad"}
POOL_BYTES = 1024**3
ARCHIVE_PROGRAMS = ("cat", "sshd", "ssh", "tee", "openssl", "sha256sum", "zstd", "mbstream")
BACKUP_PROGRAMS = ("mariadb-backup", "zstd", "tee", "openssl", "sha256sum", "sync")
#: Name prefixes of recorded processor seconds.
ARCHIVE_CPU, BACKUP_CPU = "archive, processor s of ", "backup, processor s of "
IDLE_SECONDS = 20.0
FOLLOWED_SECONDS = 60.0
MIB = 1024**2


class TableBench(Bench):
    """The lab with more secondary indexes, a realistic buffer pool and a schedule of physical backups."""

    def fleet_file(self) -> Path:
        """Return the lab's fleet file with a schedule due in twelve hours, so that backups run only on request."""
        fleet = yaml.safe_load(self.lab.fleet_yaml.read_text())
        source = self.lab.host(SOURCE)
        schedule = {
            "name": PHYSICAL,
            "method": "physical",
            "run_by": "dbops",
            "directory": str(source.folder / "backups"),
        }
        schedule["cron"] = f"0 {(datetime.now(UTC).hour + 12) % 24} * * *"
        for instance in fleet["clusters"][0]["instances"]:
            if instance["name"] == SOURCE:
                instance["backups"] = [schedule]
        file = self.folder / "fleet.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(fleet))
        return file

    def dress(self) -> None:
        """Add the secondary indexes on the primary (replication copies them) and set the buffer pools."""
        say("creating secondary indexes")
        added = ", ".join(f"ADD KEY {name} ({column})" for name, column in INDEXES.items())
        with self.lab.connect(self.lab.primary.name) as connection, connection.cursor() as cursor:
            for number in range(1, self.lab.settings.tables + 1):
                cursor.execute(f"ALTER TABLE sbtest.sbtest{number} {added}")
        wanted = self.lab.settings.tables * len(INDEXES)
        for name in (SOURCE, REPLICA):
            wait_until(
                partial(self._has_indexes, name, wanted), f"the indexes of {name}", 3600, self.processes, self.stop
            )

    def _has_indexes(self, name: str, wanted: int) -> bool:
        sql = (
            "SELECT COUNT(*) AS n FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'sbtest' AND INDEX_NAME IN %s"
        )
        with self.lab.connect(name) as connection, connection.cursor() as cursor:
            cursor.execute(sql, (tuple(INDEXES),))
            return int((cursor.fetchone() or {})["n"]) == wanted

    def widen_pool(self) -> None:
        """Enlarge the buffer pool: a rebuilt server starts with a small one, which would slow down a restore."""
        with self.lab.connect(REPLICA) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {POOL_BYTES}")

    # ---- what is timed -----------------------------------------------------------------------------------------------

    def timed_rebuild(self) -> dict[str, float]:
        """Rebuild by stream; also record the time outside of the copy."""
        found = self.rebuild()
        return found | self._around(found)

    def timed_archive(self) -> dict[str, float]:
        """Rebuild by archive; also record processor seconds of the programs of the stream."""
        with Programs(*ARCHIVE_PROGRAMS) as programs:
            found = self.rebuild("archive")
        costs = {f"{ARCHIVE_CPU}{name}": seconds for name, seconds in programs.seconds().items()}
        return {
            "rebuild by archive until attached": found["rebuild until attached"],
            "archive's stream": found["stream"],
            **costs,
        }

    def followed(self) -> dict[str, float]:
        """Rebuild with a rate limit that stretches the stream to a minute. Return the worker's cost during the stream.

        At full speed the copy takes seconds, and the worker's start and end would cost as much as following the stream.
        """
        rate = max(1, round(self.bytes / FOLLOWED_SECONDS / MIB))
        holder = threading.Thread(target=self._hold, args=(self._newest(), rate), daemon=True)
        watch = Watch(self.worker_pid())
        watch.start()
        holder.start()
        try:
            self.rebuild()
        finally:
            watch.end()
            holder.join(10)
        began, ended = self._moment("stream", "started_at"), self._moment("stream", "finished_at")
        cpu, resident = watch.between(began, ended)
        return {
            "worker, % of a core": 100 * cpu / (ended - began),
            "worker, MB": resident,
            "followed for": ended - began,
        }

    def _newest(self) -> int:
        return int(self.rows("SELECT COALESCE(MAX(id), 0) FROM dbops_rebuild")[0][0])

    def _hold(self, after: int, rate: int) -> None:
        """Set the rate limit, in MiB per second, of the next rebuild as soon as it exists."""
        wait_until(lambda: self._newest() > after, "the rebuild", 60, self.processes, self.stop)
        self.manage("rebuild", REPLICA, "--rate", str(rate))

    def worker_pid(self) -> int:
        """Return the process of the worker that drives rebuilds and runs no probes."""
        popen = next(process for process in self.processes if process.name == "ticks").popen
        if popen is None:
            raise Failed("the worker does not run")
        return popen.pid

    def idle(self) -> float:
        """Return the idle worker's processor use, in percent of a core."""
        watch = Watch(self.worker_pid())
        watch.start()
        began = time.time()
        time.sleep(IDLE_SECONDS)
        watch.end()
        return 100 * watch.between(began, time.time())[0] / IDLE_SECONDS

    def _moment(self, step: str, column: str) -> float:
        sql = f"SELECT {column} FROM dbops_rebuildstep WHERE name = ? ORDER BY id DESC LIMIT 1"
        return _epoch(self.rows(sql, step)[0][0])

    def _around(self, found: dict[str, float]) -> dict[str, float]:
        """Record click (the rebuild's row), first byte (first file on the target) and last byte (end of the tool on the source)."""
        uid, requested = self.rows("SELECT uid, requested_at FROM dbops_rebuild ORDER BY id DESC LIMIT 1")[0]
        status = self.lab.host(SOURCE).work_dir / "rebuilds" / uid / "backup.status"
        before = first_birth(self.lab.host(REPLICA).data_dir) - _epoch(requested)
        after = self._moment("repoint", "finished_at") - status.stat().st_mtime - found["prepare"] - found["catch-up"]
        return {"click to first byte": before, "last byte to serving": after, "around": before + after}

    def back_up(self) -> dict[str, float]:
        """Run a physical backup with dbops. Return its seconds from start to publication, bytes, and processor seconds by program."""
        settle()
        with Programs(*BACKUP_PROGRAMS) as programs:
            result = json.loads(self.manage("backup", PHYSICAL, "--watch", "--json").splitlines()[-1])
        sql = "SELECT started_at, finished_at FROM dbops_backuprun WHERE id = ?"
        started, finished = self.rows(sql, result["backup_run"])[0]
        costs = {f"{BACKUP_CPU}{name}": seconds for name, seconds in programs.seconds().items()}
        return {
            "physical backup and zstd": _epoch(finished) - _epoch(started),
            "bytes of it": float(result["bytes"]),
            **costs,
        }

    def backup_file(self) -> Path:
        """Return the newest backup."""
        return Path(
            self.rows("SELECT path FROM dbops_backuprun WHERE status = 'succeeded' ORDER BY id DESC LIMIT 1")[0][0]
        )


def forget_pages(file: Path) -> None:
    """Drop the file from the page cache: last night's backup would not be cached either."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def first_birth(directory: Path) -> float:
    """Return the creation time of a directory's oldest file, without the rebuild's own markers. Raises ``Failed``."""
    found = ["find", str(directory), "-type", "f", "!", "-name", ".dbops-*"]
    command = [*found, "-exec", "stat", "-c", "%.W", "--", "{}", "+"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    times = [moment for moment in map(float, done.stdout.split()) if moment > 0]
    if not times:
        raise Failed(f"the file system of {directory} does not record creation times")
    return min(times)


class Rounds:
    """Measurements by name, round by round."""

    def __init__(self) -> None:
        self.samples: Samples = {}

    def note(self, found: dict[str, float], *, suffix: str = "") -> None:
        for name, value in found.items():
            self.samples.setdefault(f"{name}{suffix}", []).append(value)


def measure(bench: TableBench, rounds: int, wanted: set[str]) -> Samples:
    """Measure what the selected rows need. Restoring a dump takes longest and runs once."""
    noted = Rounds()
    if "backup" in wanted:
        say("regular backups of sysbench's own tables")
        bench.wait_for_plan("xbstream")
        for _ in range(rounds):
            noted.note(bench.back_up(), suffix=PLAIN)
        noted.note(bench.dump(), suffix=PLAIN)
    bench.dress()
    if "worker" in wanted:
        noted.note({"worker with nothing to follow, % of a core": bench.idle()})
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}: stream")
        noted.note(streams(bench, number, bench.timed_rebuild) if "stream" in wanted else bench.timed_rebuild())
        if "archive" in wanted:
            say(f"round {number + 1} of {rounds}: physical backup")
            noted.note(bench.back_up(), suffix=DRESSED)
            say(f"round {number + 1} of {rounds}: archive")
            forget_pages(bench.backup_file())
            noted.note(bench.timed_archive())
    for number in range(min(rounds, 2) if "worker" in wanted else 0):
        say(f"following a one-minute stream, {number + 1}")
        noted.note(bench.followed())
    if "restore" in wanted:
        say("dump and restore")
        bench.widen_pool()
        noted.note(bench.dump() | bench.restore(), suffix=DRESSED)
    return noted.samples


def around_note(samples: Samples) -> str:
    """Return the medians of the seconds outside of the copy, by part."""
    names = ("preflight", "open-access", "swap-datadir", "release", "set-ownership", "start", "repoint")
    return "medians: " + ", ".join(f"{name} {median(samples[name]):.2f} s" for name in names)


def rows_of(samples: Samples) -> tuple[Row, ...]:
    """Return the rows of these samples."""
    attached = samples["rebuild until attached"]
    found = [row_of("around", samples["around"], around_note(samples))]
    if "worker, MB" in samples:
        found.append(row_of("worker", samples["worker, % of a core"], _idle_note(samples)))
        found.append(row_of("worker", samples["worker, MB"], number=1))
    if "by hand, best cipher" in samples:
        found.append(_stream_row(samples))
    if restored := samples.get(f"restore the dump{DRESSED}"):
        found.append(row_of("restore", against_median(restored, attached), _restore_note(samples)))
    if archive := samples.get("rebuild by archive until attached"):
        found.append(row_of("archive", pairs(attached, archive), _archive_note(samples)))
    if f"dump and gzip{PLAIN}" in samples:
        found += _backup_rows(samples)
    return tuple(sorted(found, key=lambda row: KEYS.index(row.key)))


def _stream_row(samples: Samples) -> Row:
    stream, best = samples["stream"], samples["by hand, best cipher"]
    limit = (
        f"{median(stream) - median(best):+.2f} s against by hand. Start, last poll and check of the copy take some 0.15 s of it, whatever "
        "the size (16 MiB, quiet machine: 0.98 s against 0.80 s by hand). ssh, sshd, the backup tool and the unpacker take the same "
        "processor seconds in both, so the rest is other load on the cores"
    )
    return row_of("stream", pairs(stream, best), limit)


def _restore_note(samples: Samples) -> str:
    restored, whole = median(samples[f"restore the dump{DRESSED}"]), median(samples["rebuild until attached"])
    return (
        f"restoring took {restored:.0f} s, the rebuild {whole:.1f} s, of them {median(samples['stream']):.1f} s of stream: "
        "the restore grows faster than the data once indexes do not fit into the buffer pool, so the ratio grows with --size"
    )


def _archive_note(samples: Samples) -> str:
    attached, archive = samples["rebuild until attached"], samples["rebuild by archive until attached"]
    streams = median(samples["archive's stream"]), median(samples["stream"])
    return (
        f"by archive {median(archive):.1f} s, by stream {median(attached):.1f} s, of them {streams[0]:.1f} s and {streams[1]:.1f} s of "
        f"stream. What the archive's took of the processors: {_dearest(samples, ARCHIVE_CPU)}. The backup is smaller than the data: the "
        "faster the archive is read, the less the stream gains on it"
    )


def _dearest(samples: Samples, before: str, behind: str = "") -> str:
    """Return the recorded processor seconds by program, highest first."""
    costs = {
        name.removeprefix(before).removesuffix(behind): median(found)
        for name, found in samples.items()
        if name.startswith(before) and name.endswith(behind)
    }
    return ", ".join(f"{name} {costs[name]:.1f} s" for name in sorted(costs, key=lambda name: -costs[name]))


def _backup_rows(samples: Samples) -> list[Row]:
    dumped, made = samples[f"dump and gzip{PLAIN}"], samples[f"physical backup and zstd{PLAIN}"]
    sizes = samples[f"bytes of it{PLAIN}"], samples[f"bytes{PLAIN}"]
    note = (
        f"the dump took {median(dumped):.0f} s, the backup {median(made):.1f} s with low priority, two copy threads, zstd on every core; "
        f"of the processors it took {_dearest(samples, BACKUP_CPU, PLAIN)}"
    )
    more = f"{sizes[0][0] / MIB:.0f} MiB against {sizes[1][0] / MIB:.0f} MiB: only the physical one holds secondary indexes"
    time_ratio, size_ratio = against_median(dumped, made), against_median(sizes[0], sizes[1])
    return [row_of("backup", time_ratio, note), row_of("backup", size_ratio, more, number=1)]


def _idle_note(samples: Samples) -> str:
    idle = median(samples.get("worker with nothing to follow, % of a core", [0.0]))
    return f"with nothing to follow it takes {idle:.1f} % already: the scheduler runs every two seconds"


def group(size: str, rounds: int, wanted: set[str]) -> Group:
    """Measure. Raises ``Failed`` or ``LabError``."""
    with stage(size, "127.0.51", make=TableBench, say=say) as bench:
        samples = measure(bench, rounds, wanted)
        streamed = bench.bytes / MIB
    rows = tuple(row for row in rows_of(samples) if row.key in wanted)
    facts = (
        f"MariaDB, {streamed:.0f} MiB streamed, each table with three secondary indexes but where it says one. The backup tool reads "
        "past the page cache, which is warm for all else but the backup that is read; source, target and dashboard are on one machine and "
        "one disk. A restore has a buffer pool of 1 GiB."
    )
    return Group(
        "Rebuild by stream", rows, without(samples, *(name for name in samples if name.startswith("bytes"))), facts
    )
