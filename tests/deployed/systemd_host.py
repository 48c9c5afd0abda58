"""A host with a real systemd as process 1, in namespaces of this machine: its own processes, mounts, control groups and name.

It shares the network, so that a lab's addresses stay. Only one folder can be written; /tmp, /var/tmp and /run are empty.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.checks import search_path
from lab.hosts import LabHost
from lab.processes import children, wait_gone
from tests.stack import wait_for

SYSTEMD = Path("/lib/systemd/systemd")
#: What would change files, settings or devices of the machine.
MASKED = (
    *("systemd-tmpfiles-setup", "systemd-tmpfiles-setup-dev", "systemd-tmpfiles-clean", "systemd-random-seed"),
    *("systemd-sysctl", "systemd-udevd", "systemd-modules-load", "systemd-remount-fs", "systemd-networkd"),
)
BOOT = """
umask 022
mount --make-rprivate /
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
exec 3<"$1"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/hold
mount --bind /proc/self/fd/3 /run/hold
exec 3<&-
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mkdir -p "$1"
mount --move /run/hold "$1"
mount -o remount,bind,ro /
mount -o remount,bind,ro /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd/system /run/lock
mkdir /run/systemd/journald.conf.d
printf '[Journal]\\nReadKMsg=no\\nStorage=volatile\\n' >/run/systemd/journald.conf.d/lab.conf
shift
for unit; do ln -s /dev/null "/run/systemd/system/$unit.service"; done
cat >/run/systemd/system/lab.target <<END
[Unit]
DefaultDependencies=no
Wants=systemd-journald.service
END
exec env -i PATH="$PATH" container=lab /lib/systemd/systemd --system --unit=lab.target --log-target=journal --show-status=no
"""
#: As Debian 12 has it, but for paths and the limit of starts, and with PrivateDevices as other packages have it. (PrivateTmp would
#: hide the lab, which is in /var/tmp.)
MARIADB = """
[Unit]
Description=MariaDB database server (%i)
DefaultDependencies=no
StartLimitIntervalSec=1h
StartLimitBurst=3
[Service]
Type=notify
PrivateNetwork=false
User=mysql
Group=mysql
AmbientCapabilities=CAP_IPC_LOCK
ProtectSystem=full
ProtectControlGroups=true
ProtectHome=true
PrivateDevices=true
PrivateTmp=false
ExecStart=/usr/sbin/mariadbd --defaults-file={lab}/%i/my.cnf $MYSQLD_OPTS
SyslogIdentifier=mariadbd
KillSignal=SIGTERM
SendSIGKILL=no
Restart=on-abnormal
RestartSec=5s
UMask=007
TimeoutStartSec=900
TimeoutStopSec=900
TasksMax=99%
LimitNOFILE=32768
LimitMEMLOCK=524288
"""
#: As Debian 12 has it, but that a restart ends everything in its control group.
SSHD = """
[Unit]
DefaultDependencies=no
[Service]
Type=notify
Environment=PATH={path}
ExecStart=/usr/sbin/sshd -D -f {lab}/%i/sshd_config -E {lab}/%i/log/sshd.log
KillMode=control-group
Restart=on-failure
RuntimeDirectory=sshd
RuntimeDirectoryPreserve=yes
"""


def why_not() -> str:
    """Return why there can be no such host here; empty if there can be one."""
    if os.geteuid() != 0:
        return "only root can boot systemd in namespaces"
    if not SYSTEMD.exists():
        return f"{SYSTEMD} is not installed"
    if not control_groups():
        return "no file system of control groups, version 2, is mounted"
    words = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "true"]
    if not shutil.which("unshare") or subprocess.run(words, check=False, capture_output=True).returncode != 0:
        return "unshare may not make namespaces here"
    return ""


def control_groups() -> str:
    """Return where the version 2 of control groups is mounted, empty if nowhere."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((place for _, place, kind, *_ in mounts if kind == "cgroup2"), "")


@dataclass(frozen=True, slots=True)
class SystemdHost:
    """A booted host. ``pid`` is systemd's number on this machine."""

    pid: int

    def run(self, *words: str, check: bool = True) -> str:
        """Run a program on the host as root and return what it prints."""
        inside = ["nsenter", "-t", str(self.pid), "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--", *words]
        done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=60)
        if check and done.returncode != 0:
            raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def write(self, name: str, text: str) -> None:
        """Write a unit, or a file of its directory ``NAME.d``, and load it."""
        file = Path(f"/proc/{self.pid}/root/run/systemd/system") / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        self.run("systemctl", "daemon-reload")

    def forget(self, name: str) -> None:
        (Path(f"/proc/{self.pid}/root/run/systemd/system") / name).unlink(missing_ok=True)
        self.run("systemctl", "daemon-reload")

    def take(self, host: LabHost) -> None:
        """Move a running host of a lab here: end its processes on this machine, and start them as units."""
        host.stop_server()
        host.sshd.stop()
        self.run("systemctl", "start", f"sshd@{host.name}", f"mariadb@{host.name}")


@contextmanager
def booted(folder: Path, lab: Path) -> Iterator[SystemdHost]:
    """Boot a host for the length of the block. It can write ``folder``; ``lab`` is in it, with the files of its servers."""
    group = Path(control_groups()) / f"dbops-test-{os.getpid()}"
    group.mkdir()
    join = f'echo $$ >"{group}/cgroup.procs"; exec "$@"'
    namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]
    words = ["sh", "-c", join, "sh", *namespaces, "sh", "-e", "-c", BOOT, "sh", str(folder), *MASKED]
    outer = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    try:
        wait_for("namespaces", lambda: children(outer.pid) or outer.poll(), 10)
        assert outer.poll() is None, "systemd did not start"
        host = SystemdHost(children(outer.pid)[0])
        wait_for("systemd", lambda: "running" in host.run("systemctl", "is-system-running", check=False), 30)
        host.write("mariadb@.service", MARIADB.format(lab=lab))
        host.write("sshd@.service", SSHD.format(lab=lab, path=search_path()))
        yield host
    finally:
        inside = children(outer.pid)
        outer.kill()  # the kernel ends everything inside
        outer.wait()
        for pid in inside:
            wait_gone(pid, 20)
        wait_for("empty control groups", lambda: remove_groups(group), 20)


def remove_groups(group: Path) -> bool:
    try:
        for place, _, _ in os.walk(group, topdown=False):
            os.rmdir(place)
    except OSError:  # its last process is just ending
        return False
    return True
