"""Programs that the sessions of a lab's host find, and scripts in their place."""

from pathlib import Path

from lab.checks import find_program
from lab.hosts import LabHost

#: Ending of the link to a program that only this host has, while a script is in its place.
ASIDE = ".real"


def is_mysql(host: LabHost) -> bool:
    return host.settings.flavor.startswith("mysql")


def backup_tool(host: LabHost) -> str:
    return "xtrabackup" if is_mysql(host) else "mariadb-backup"


def unpack_tool(host: LabHost) -> str:
    return "xbstream" if is_mysql(host) else "mbstream"


def program_of(host: LabHost, name: str) -> str:
    """Return the path of the program that the host's sessions run, also while a script is in its place."""
    own = host.sshd.programs / name
    link = own.with_name(own.name + ASIDE)
    found = next((str(path.readlink()) for path in (link, own) if path.is_symlink()), None) or find_program(name)
    assert found, f"there is no {name}"
    return found


def put_before(host: LabHost, name: str, text: str) -> Path:
    """Put a script in the place of a program of the host's sessions. A link there is kept aside: it leads to the program itself."""
    place = host.sshd.programs / name
    place.parent.mkdir(exist_ok=True)
    if place.is_symlink():
        place.rename(place.with_name(name + ASIDE))
    place.write_text(text)
    place.chmod(0o755)
    return place


def give_back(host: LabHost, name: str) -> None:
    """Let the host's sessions find the program again."""
    place = host.sshd.programs / name
    place.unlink(missing_ok=True)
    link = place.with_name(name + ASIDE)
    if link.is_symlink():
        link.rename(place)
