"""Read one backup on the source and send it to several targets. Runs on the source host with Python 3.6, without other modules.

    shared_read.py send STALL_SECONDS WAIT_SECONDS BUFFER_BYTES NAME...    in the leader's run directory
    shared_read.py take DIRECTORY NAME                                     the forced command of each target

Each taker passes its standard output to the sender, which writes the backup into it, and waits for the end. One buffer holds
the bytes that the slowest target still needs; a target can be BUFFER_BYTES behind. A target that disconnects, or accepts no
byte for STALL_SECONDS, is dropped, and the others continue. Without targets, the backup is ended.

The bytes are not interpreted: if the command of ``backup.argv`` compresses, that happens once, and each target decompresses.

``tee`` is unsuitable: one stalled target stops all (and a target with a shared, non-blocking output makes tee fail).
"""

import array
import base64
import fcntl
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import deque

CHUNK_BYTES = 1 << 18
PIPE_BYTES = 1 << 20
SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux; Python has the constant since 3.10
SOCKET = "shared_read.sock"
#: Prefix of files with names that will not connect.
GONE = "gone."
CHECK_SECONDS = 0.5
LISTENS_WITHIN_SECONDS = 20
#: Exit status of a dropped taker, which the target sees as the status of its ssh. 75 is "not ready".
DROPPED, NOT_READY = 74, 75
#: Directory of the tool's account in the run directory (``tool_account.sh``).
TOOL = "tool"
FILE_NAME = re.compile(rb"[a-z_]+\Z")
READ = """cd -P -- ./*/lsn && for name in *; do
    [ ! -f "$name" ] || [ -L "$name" ] || printf "%s %s\\n" "$name" "$(head -c 262144 -- "$name" | base64 -w0)"
done"""


class Buffer:
    """Chunks that not all targets have taken, by position."""

    def __init__(self) -> None:
        self.chunks = deque()  # type: deque[tuple[int, bytes]]
        self.end = 0

    def add(self, chunk: bytes) -> None:
        self.chunks.append((self.end, chunk))
        self.end += len(chunk)

    def at(self, place: int) -> memoryview:
        """Return the rest of the chunk at a position."""
        low, high = 0, len(self.chunks) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.chunks[middle][0] <= place else (low, middle - 1)
        begin, chunk = self.chunks[low]
        return memoryview(chunk)[place - begin :]

    def forget_before(self, place: int) -> None:
        while self.chunks and self.chunks[0][0] + len(self.chunks[0][1]) <= place:
            self.chunks.popleft()


class Member:
    """One target: its position, and the two connections to it."""

    def __init__(self, name: str, directory: str, control: socket.socket, out: int) -> None:
        self.name, self.directory, self.control, self.out = name, directory, control, out
        self.place, self.moved_at = 0, time.monotonic()
        os.set_blocking(out, False)
        widen(out)

    def take(self, buffer: Buffer) -> None:
        """Write as much as possible now. Raises ``OSError`` if the target has disconnected."""
        while self.place < buffer.end:
            try:
                self.place += os.write(self.out, buffer.at(self.place)[:CHUNK_BYTES])
            except BlockingIOError:
                return
            self.moved_at = time.monotonic()

    def end(self, line: str) -> None:
        """Close the stream, then report the result, which must not arrive before the last byte."""
        os.close(self.out)
        try:
            self.control.sendall(line.encode() + b"\n")
        except OSError:
            pass
        self.control.close()


class Sender:
    """The backup tool's output and its targets."""

    def __init__(self, tool: int, members: "list[Member]", stall_seconds: float, buffer_bytes: int) -> None:
        self.tool, self.members = tool, members
        self.stall_seconds, self.buffer_bytes = stall_seconds, buffer_bytes
        self.buffer, self.is_over = Buffer(), False
        self.selector = selectors.DefaultSelector()
        self.watched = set()  # type: set[int]

    def run(self) -> None:
        """Send until all output is taken or no target is left."""
        for member in self.members:
            self.selector.register(member.control, selectors.EVENT_READ, member)
        while self.members and not (self.is_over and self.slowest() == self.buffer.end):
            self.choose()
            for key, _ in self.selector.select(CHECK_SECONDS):
                self.serve(key)
            self.drop_stalled()

    def slowest(self) -> int:
        return min((member.place for member in self.members), default=self.buffer.end)

    def choose(self) -> None:
        """Read while the buffer has space, and write to targets that are behind; do not poll the others."""
        has_room = self.buffer.end - self.slowest() < self.buffer_bytes
        self.watch(self.tool, selectors.EVENT_READ, None, wanted=has_room and not self.is_over)
        for member in self.members:
            self.watch(member.out, selectors.EVENT_WRITE, member, wanted=member.place < self.buffer.end)

    def watch(self, descriptor: int, event: int, data: "Member | None", *, wanted: bool) -> None:
        if wanted and descriptor not in self.watched:
            self.selector.register(descriptor, event, data)
            self.watched.add(descriptor)
        elif not wanted and descriptor in self.watched:
            self.selector.unregister(descriptor)
            self.watched.remove(descriptor)

    def serve(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            self.read()
        elif key.data in self.members and key.fileobj is key.data.control:
            self.drop(key.data, "its connection has ended")
        elif key.data in self.members:
            self.write(key.data)

    def read(self) -> None:
        chunk = os.read(self.tool, PIPE_BYTES)
        if not chunk:
            self.is_over = True
            return
        for member in self.members:
            if member.place == self.buffer.end:  # a target that waited for us has not stalled
                member.moved_at = time.monotonic()
        self.buffer.add(chunk)
        for member in list(self.members):
            self.write(member)

    def write(self, member: Member) -> None:
        try:
            member.take(self.buffer)
        except OSError as error:
            self.drop(member, f"its connection broke: {error.strerror}")
        self.buffer.forget_before(self.slowest())

    def drop_stalled(self) -> None:
        for member in list(self.members):
            silent = time.monotonic() - member.moved_at
            if member.place < self.buffer.end and silent > self.stall_seconds:
                self.drop(member, f"it took no byte for {silent:.0f} s")

    def drop(self, member: Member, why: str) -> None:
        self.members.remove(member)
        self.watch(member.out, selectors.EVENT_WRITE, member, wanted=False)
        self.selector.unregister(member.control)
        say(f"{member.name} is dropped after {member.place} bytes: {why}")
        member.end(f"dropped after {member.place} bytes: {why}")


def say(text: str) -> None:
    try:
        print(text, flush=True)
    except OSError:
        pass  # a full disk must not affect the other targets


def widen(descriptor: int) -> None:
    """Enlarge a pipe; ignore other file types and system limits."""
    try:
        fcntl.fcntl(descriptor, SET_PIPE_SIZE, PIPE_BYTES)
    except OSError:
        pass


def gather(listener: socket.socket, names: "set[str]", seconds: float) -> "list[Member]":
    """Return the ``names`` that connect within ``seconds``. Do not wait for targets that the dashboard has dropped."""
    members = []  # type: list[Member]
    until = time.monotonic() + seconds
    while True:
        missing = names - {member.name for member in members}
        left = until - time.monotonic()
        if left <= 0 or all(os.path.exists(GONE + name) for name in missing):
            break
        listener.settimeout(min(CHECK_SECONDS, max(0.05, left)))
        try:
            control, _ = listener.accept()
        except OSError:  # socket.timeout is not a TimeoutError before Python 3.10
            continue
        member = admit(control, names, {member.name for member in members})
        if member:
            members.append(member)
    for name in sorted(missing):
        say(f"{name} is dropped after 0 bytes: it did not come")
    return members


def admit(control: socket.socket, names: "set[str]", known: "set[str]") -> "Member | None":
    """Return the member that has just connected, ``None`` if it is not expected."""
    control.settimeout(5)
    try:
        said, ancillary, _, _ = control.recvmsg(4096, socket.CMSG_SPACE(4))
        name, directory = said.decode().split("\0")
        out = array.array("i", ancillary[0][2][:4])[0]
    except (OSError, ValueError, IndexError):
        control.close()
        return None
    control.setblocking(True)
    if name not in names or name in known:
        os.close(out)
        try:
            control.sendall(b"dropped: no target of this name is expected\n")
        except OSError:
            pass
        control.close()
        return None
    say(f"{name} is here.")
    return Member(name, directory, control, out)


def start_tool() -> "subprocess.Popen[bytes]":
    """Start the backup like ``serve``: in its own process group, with log and pid in the run directory."""
    with open("backup.argv", "rb") as file:
        command = file.read().split(b"\0")[:-1]
    with open("backup.log", "wb") as log:
        tool = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd="/", start_new_session=True
        )
    with open(f"/proc/{tool.pid}/stat") as file:
        started = file.read().rpartition(")")[2].split()[19]
    replace("backup.pid", f"{tool.pid} {started}")
    return tool


def tool_files() -> "dict[str, bytes]":
    """Return what the tool wrote beside its stream, read as the tool's account: root would follow its links."""
    owner = os.stat(TOOL)

    def drop() -> None:
        if owner.st_uid != os.geteuid():
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)

    read = subprocess.run(["sh", "-c", READ], cwd=TOOL, preexec_fn=drop, stdout=subprocess.PIPE)
    lines = (line.partition(b" ") for line in read.stdout.splitlines())
    return {name.decode(): base64.b64decode(data) for name, _, data in lines if FILE_NAME.match(name)}


def replace(path: str, text: str) -> None:
    with open(path + ".tmp", "w") as file:
        file.write(text + "\n")
    os.rename(path + ".tmp", path)


def end_tool(tool: "subprocess.Popen[bytes]") -> None:
    """End the tool after its output or the last target has ended: SIGINT, then SIGKILL (mariadb-backup ignores SIGTERM)."""
    for number, seconds in ((signal.SIGINT, 2), (signal.SIGKILL, 5)):
        try:
            os.killpg(tool.pid, number)
            tool.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def status_of(tool: "subprocess.Popen[bytes]") -> int:
    """Return the exit status in a shell's form."""
    code = tool.wait()
    return 128 - code if code < 0 else code


def hand_over_evidence(members: "list[Member]", status: int) -> None:
    """Write the files for checking the copy to each target's directory: the leader's is emptied when its own copy is done."""
    here = os.getcwd()
    files = tool_files() if os.path.isdir(TOOL) else {}
    for member in members:
        try:
            hand_over_to(member, here, files, status)
        except OSError as error:  # without its check files this target fails; the others have theirs
            say(f"{member.name} has no check files of its copy: {error}")


def hand_over_to(member: Member, here: str, files: "dict[str, bytes]", status: int) -> None:
    directory = os.path.join(member.directory, "lsn")
    shutil.rmtree(directory, ignore_errors=True)
    os.mkdir(directory)
    for name, data in files.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)
    if os.path.realpath(member.directory) != os.path.realpath(here):
        log = os.path.join(member.directory, "backup.log")
        if os.path.islink(log):
            os.unlink(log)
        shutil.copyfile("backup.log", log)
        replace(os.path.join(member.directory, "backup.status"), str(status))


def send(stall_seconds: int, wait_seconds: int, buffer_bytes: int, names: "list[str]") -> int:
    """Wait for the takers, run the backup and send it to all. Return 0 if a target has the complete backup."""
    os.umask(0o077)
    if os.path.exists("backup.pid"):
        say("This run has already sent its backup.")
        return NOT_READY
    if os.path.exists(SOCKET):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(SOCKET)
    listener.listen(len(names))
    try:
        members = gather(listener, set(names), wait_seconds)
    finally:
        listener.close()
        os.unlink(SOCKET)
    if not members:
        say("No target came.")
        return NOT_READY
    tool = start_tool()
    assert tool.stdout is not None  # noqa: S101 - a pipe was requested
    widen(tool.stdout.fileno())
    sender = Sender(tool.stdout.fileno(), members, stall_seconds, buffer_bytes)
    sender.run()
    if not sender.members:
        end_tool(tool)
    status = status_of(tool)
    replace("backup.status", str(status))
    hand_over_evidence(sender.members, status)
    for member in sender.members:
        member.end(f"status {status}")
    say(f"The backup has ended with status {status}; {len(sender.members)} of {len(names)} targets have it.")
    return 0 if sender.members and not status else 1


def take(directory: str, name: str) -> int:
    """Pass our standard output to the sender and wait for the end. Return the backup's status, or ``DROPPED``."""
    here = os.getcwd()
    if os.path.realpath(directory) != os.path.realpath(here) and not os.path.lexists("backup.log"):
        os.symlink(os.path.join(directory, "backup.log"), "backup.log")
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.chdir(directory)  # a socket's path is limited in length, a directory's is not
    until = time.monotonic() + LISTENS_WITHIN_SECONDS
    while True:
        try:
            control.connect(SOCKET)
            break
        except OSError as error:
            if os.path.exists("backup.pid"):
                print("dbops: dropped after 0 bytes: it came when the backup was being sent already", file=sys.stderr)
                return DROPPED
            if time.monotonic() > until:
                print(f"dbops: the backup is not being sent: {error.strerror}", file=sys.stderr)
                return NOT_READY
        time.sleep(0.2)  # the sender is starting
    handed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))]
    control.sendmsg([f"{name}\0{here}".encode()], handed)
    os.close(1)
    word, _, rest = control.recv(4096).decode().strip().partition(" ")
    if word == "status":
        return int(rest)
    said = f"{word} {rest}".strip() or "the sender is gone"
    print(f"dbops: {said}", file=sys.stderr)
    return DROPPED


if __name__ == "__main__":
    if sys.argv[1] == "send":
        stall, wait, size = (int(word) for word in sys.argv[2:5])
        sys.exit(send(stall, wait, size, sys.argv[5:]))
    sys.exit(take(*sys.argv[2:4]))
