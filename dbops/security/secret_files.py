"""Read secrets from files that other accounts cannot read."""

import grp
import os
import pwd
import stat
from pathlib import Path

READ, SEARCH = 0o4, 0o1
CHANGE_BY_OTHERS = 0o022


def read_secret(file: Path) -> str:
    """Return the content of a file without blanks around it.

    A file of this process's own account must have mode 0600 or less. What systemd, Docker or Kubernetes delivers belongs to
    root, or is on a mount that cannot be written. It may have more readers, if nothing but this account reaches it.

    Raises:
        PermissionError: Other accounts can read or change the file, or this account cannot read it.
    """
    try:
        with file.open() as handle:
            found = os.fstat(handle.fileno())
            content = handle.read().strip()
    except PermissionError:
        raise PermissionError(_foreign(file)) from None
    if problem := _problem(file.resolve(), found):
        raise PermissionError(f"{file} {problem}")
    return content


def refuse_root_of_other_state(folder: Path) -> None:
    """Refuse to run as root on the state of another account: that account could not write root's files.

    Raises:
        PermissionError: This process is root's, and the folder is not.
    """
    if os.geteuid() == 0 and folder.is_dir() and (owner := folder.stat().st_uid) != 0:
        raise PermissionError(
            f"{folder} belongs to {_name(owner)}, and this process is root's. Files of root would lock {_name(owner)} out. "
            f"Run the command as {_name(owner)} (docs/how-to/install.md, First login and fleet)."
        )


def _problem(file: Path, found: os.stat_result) -> str:
    """Return what is wrong with the access to a file, and the fix; "" if nothing is."""
    # Docker and Kubernetes mount what they deliver for one container, beside its root file system; its modes cannot change.
    is_delivered = bool(os.statvfs(file).f_flag & os.ST_RDONLY) and found.st_dev != Path("/").stat().st_dev
    if is_delivered:
        return ""
    if found.st_uid == os.geteuid():
        return f"can be read by other users. Run: chmod 600 {file}" if found.st_mode & 0o077 else ""
    if found.st_mode & CHANGE_BY_OTHERS:
        return f"can be changed by other users. Run as {_name(found.st_uid)}: chmod go-w {file}"
    if _is_closed(found, READ) or any(_is_closed(folder.stat(), SEARCH) for folder in file.parents):
        return ""
    return (
        f"can be read by other users (mode {stat.S_IMODE(found.st_mode):04o}, owner {_name(found.st_uid)}). Run as "
        f"{_name(found.st_uid)}: chmod o-rwx {file}, and give it a group that {_name(os.geteuid())} alone is in"
    )


def _is_closed(found: os.stat_result, access: int) -> bool:
    """Whether a file or directory gives this kind of access to no account besides its owner, root and this process."""
    if found.st_mode & access:
        return False
    return not found.st_mode & access << 3 or not _others_in_group(found.st_gid)


def _others_in_group(gid: int) -> set[str]:
    users = pwd.getpwall()
    ours = {user.pw_name for user in users if user.pw_uid in (0, os.geteuid())}
    members = {user.pw_name for user in users if user.pw_gid == gid}
    try:
        members |= set(grp.getgrgid(gid).gr_mem)
    except KeyError:  # Kubernetes gives groups that have no name
        pass
    return members - ours


def _foreign(file: Path) -> str:
    me = _name(os.geteuid())
    # The folder, because the file may lie where this account cannot even look.
    return (
        f"{file} cannot be read by {me}. If another account started dbops first, give the files back. "
        f"Run as root: chown -R {me} {file.parent}"
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
