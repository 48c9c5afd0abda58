"""Hosts and processes on them: sshd restarted, power lost, servers, backups and jobs killed, stopped or terminated."""

import os
import signal
import time
from contextlib import ExitStack
from typing import ClassVar

from lab.breaking import power_off
from lab.errors import LabError
from lab.hosts import LabHost
from tests.e2e.host_state import replicate_again
from tests.faults.injectors import hosts
from tests.faults.matrix import ON_TARGET, Expected, Fault, register
from tests.faults.scene import SOURCE, TARGET, Scene
from tests.slow_process import worker_of

#: steps that are one detached job on the target
JOB_STEPS = ("swap-datadir", "stream", "prepare", "set-ownership", "start")
#: steps in which the new server runs
SERVER_STEPS = ("catch-up", "repoint", "verify")
DOWN_SECONDS = 5.0


class OnHost(Fault):
    steps = ("stream",)
    brake = 0.1
    name_of_host: ClassVar[str] = TARGET
    codes: ClassVar[tuple[str, ...]] = ()
    status: ClassVar[tuple[str, ...]] = ("failed",)

    def host(self, scene: Scene) -> LabHost:
        return scene.stack.lab.host(self.name_of_host)

    def expect(self, scene: Scene) -> Expected:
        touched = frozenset({self.name_of_host} - {TARGET})
        return Expected(self.status, self.codes, touched=touched)


@register
class TargetSshdRestarted(OnHost):
    name = "target-sshd-restarted"
    title = "the target's sshd and all its sessions end, and it is back after 5 s"
    steps = ON_TARGET
    status = ("succeeded",)

    def inject(self, scene: Scene) -> None:
        hosts.restart_sshd(self.host(scene), DOWN_SECONDS)

    def heal(self, scene: Scene) -> None:
        self.host(scene).sshd.start()


@register
class SourceSshdRestarted(TargetSshdRestarted):
    """The stream is one of the sessions."""

    name = "source-sshd-restarted"
    title = "the source's sshd and all its sessions end, and it is back after 5 s"
    steps = ("open-access", "swap-datadir", "stream", "release")
    name_of_host = SOURCE

    def expect(self, scene: Scene) -> Expected:
        if scene.step != "stream":
            return Expected()
        return Expected(("failed",), ("transport.lost", "stream.killed", "stream.broken_pipe"))


@register
class SourceSshdAlone(OnHost):
    """As a package upgrade does: the listener is new, the sessions live on."""

    name = "source-sshd-listener-restarted"
    title = "the source's sshd is restarted, its sessions live on"
    name_of_host = SOURCE
    status = ("succeeded",)

    def inject(self, scene: Scene) -> None:
        hosts.restart_listener(self.host(scene), DOWN_SECONDS)

    def heal(self, scene: Scene) -> None:
        self.host(scene).sshd.start()


class PowerLost(OnHost):
    """Processes die at once; sshd and server come back after some seconds, as after a boot. The boot id stays: see the injector."""

    def inject(self, scene: Scene) -> None:
        power_off(self.host(scene))
        time.sleep(DOWN_SECONDS)

    def heal(self, scene: Scene) -> None:
        host = self.host(scene)
        host.sshd.start()
        try:
            host.start_server()
        except LabError:
            pass  # what was copied so far is no server's data, and half of it may be gone


@register
class TargetPowerLost(PowerLost):
    name = "target-power-lost"
    title = "every process of the target is killed, then its sshd and server start"
    steps = (*JOB_STEPS, *SERVER_STEPS)

    def expect(self, scene: Scene) -> Expected:
        if scene.step in SERVER_STEPS:
            return Expected(("succeeded", "failed"), starts=2)
        return Expected(("failed",), ("host.vanished", "host.refused", "stream.killed"))


@register
class SourcePowerLost(PowerLost):
    name = "source-power-lost"
    title = "every process of the source is killed, then its sshd and server start"
    name_of_host = SOURCE
    codes = ("transport.lost", "stream.killed", "stream.failed", "stream.broken_pipe", "backup.connect")


@register
class SourcePausedPowerLost(PowerLost):
    name = "paused-source-power-lost"
    title = "the same while the source is paused: its guard is gone too"
    name_of_host = SOURCE
    pauses = True
    codes = SourcePowerLost.codes


@register
class SourceServerKilled(OnHost):
    name = "source-server-killed"
    title = "the source's server is killed with -9, and started again after 5 s"
    name_of_host = SOURCE
    codes = ("backup.connect",)

    def inject(self, scene: Scene) -> None:
        hosts.wait_for_backup(scene.source, scene.uid)
        hosts.kill_server(self.host(scene))
        time.sleep(DOWN_SECONDS)

    def heal(self, scene: Scene) -> None:
        self.host(scene).start_server()
        replicate_again(scene.stack, SOURCE)


@register
class TargetServerKilled(OnHost):
    """Relaxed settings of MariaDB 10.11 let every commit reach the kernel, so the copy is as good as before and may continue."""

    name = "target-server-killed"
    title = "the new server on the target is killed with -9, and started again after 5 s"
    steps = SERVER_STEPS
    telling = "catch-up"

    def inject(self, scene: Scene) -> None:
        hosts.kill_server(self.host(scene))
        time.sleep(DOWN_SECONDS)

    def expect(self, scene: Scene) -> Expected:
        return Expected(("succeeded", "failed"), starts=2)

    def heal(self, scene: Scene) -> None:
        if not scene.is_final:
            self.host(scene).start_server()


class BackupHit(OnHost):
    """A signal to the backup process on the source, once it sends."""

    number: ClassVar[int]

    def inject(self, scene: Scene) -> None:
        os.kill(hosts.wait_for_backup(scene.source, scene.uid), self.number)


@register
class BackupKilled(BackupHit):
    name = "backup-killed"
    title = "the backup is killed with -9"
    number = signal.SIGKILL
    codes = ("stream.killed",)

    def after(self, scene: Scene) -> None:
        result = scene.stream_result()
        assert result is not None
        assert result["exit_statuses"]["source backup"] == 137, result["exit_statuses"]


@register
class UnpackKilled(OnHost):
    name = "unpack-killed"
    title = "the unpacking program on the target is killed with -9"
    only_full = True
    codes = ("stream.killed",)

    def inject(self, scene: Scene) -> None:
        pid = worker_of(scene.target, "stream/unpack")
        assert pid is not None, "the copy has ended before"
        os.kill(pid, signal.SIGKILL)


@register
class BackupTerminated(BackupHit):
    """mariadb-backup ignores SIGTERM: nothing happens."""

    name = "backup-terminated"
    title = "the backup receives SIGTERM"
    number = signal.SIGTERM
    status = ("succeeded",)


@register
class BackupInterrupted(BackupHit):
    name = "backup-interrupted"
    title = "the backup receives SIGINT"
    number = signal.SIGINT


@register
class BackupStopped(OnHost):
    name = "backup-stopped-20s"
    title = "the backup is held with SIGSTOP for 20 s"
    status = ("succeeded",)

    def __init__(self) -> None:
        self.parts = ExitStack()

    def inject(self, scene: Scene) -> None:
        self.parts.enter_context(hosts.stopped(hosts.wait_for_backup(scene.source, scene.uid)))

    def during(self, scene: Scene) -> None:
        time.sleep(20)

    def heal(self, scene: Scene) -> None:
        self.parts.close()


@register
class BackupStoppedForGood(BackupStopped):
    """A stall is no silence that is normal: with the setting it is ended after 15 s without a byte."""

    name = "backup-stopped-for-good"
    title = "the backup is held with SIGSTOP and stays so"
    status = ("failed",)
    codes = ("host.stalled",)
    settings: ClassVar[dict[str, str]] = {"DBOPS_STALL_STREAM_SECONDS": "15"}

    def during(self, scene: Scene) -> None:
        scene.wait_final(120)


@register
class GuardKilled(OnHost):
    name = "guard-killed"
    title = "the guard on the source is killed with -9"
    steps = ("swap-datadir", "stream")
    status = ("succeeded",)

    def inject(self, scene: Scene) -> None:
        guard = hosts.guard_process(scene.source, scene.uid)
        assert guard is not None, "there is no guard"
        hosts.kill_all([guard])


@register
class JobKilled(OnHost):
    name = "job-killed"
    title = "the step's job on the target is killed with -9, all of its processes"
    steps = JOB_STEPS

    def inject(self, scene: Scene) -> None:
        deadline = time.monotonic() + 5
        while not (found := hosts.job_processes(scene.target, scene.uid, scene.step)):
            assert time.monotonic() < deadline, "the job was not seen"
        hosts.kill_all(found)

    def expect(self, scene: Scene) -> Expected:
        return Expected(("failed",), ("host.vanished",))
