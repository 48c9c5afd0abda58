"""What of an option file is in the data directory, and the script that keeps it, run for real."""

import os
import subprocess
from pathlib import Path

import pytest

from dbops.engine.hosts.scripts import load
from dbops.engine.rebuilds.inside import kept_inside

DATADIR = "/var/lib/mysql"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"log_bin": "binlog", "tmpdir": "/tmp", "socket": "/var/lib/mysql/mysql.sock"}, ()),  # noqa: S108
        ({"log_bin": "/var/lib/mysql/binlogs/x"}, ("d binlogs",)),
        ({"log_bin": "logs/bin/x"}, ("d logs", "d logs/bin")),
        ({"tmpdir": "/var/lib/mysql/a:/var/lib/mysql/b"}, ("d a", "d b")),
        ({"ssl_key": "ssl/key.pem", "ssl_ca": "/etc/ca.pem"}, ("d ssl", "f ssl/key.pem")),
        ({"ssl_cert": "cert.pem"}, ("f cert.pem",)),
        ({"some_plugin_folder": "/var/lib/mysql/plug/x"}, ("d plug", "a plug/x")),
        ({"some_plugin_name": "plug/x", "basedir": "/usr"}, ()),
        ({"innodb_undo_directory": "/var/lib/mysql/undo", "datadir": "/var/lib/mysql"}, ()),
        ({"log_bin": "/var/lib/mysql/../other/x", "tmpdir": "/var/lib/mysql2/t"}, ()),
    ],
)
def test_options_name_what_is_kept(options: dict[str, str], kept: tuple[str, ...]) -> None:
    assert kept_inside(options, DATADIR) == kept


def test_certificates_that_mysql_makes_are_kept() -> None:
    assert {"f server-key.pem", "f ca.pem", "f mysqld-auto.cnf"} <= set(kept_inside({}, DATADIR, flavor="mysql"))


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    return old, new


def keep(places: tuple[Path, Path], *lines: str) -> list[str]:
    """Pack from the old directory and unpack into the new one. Return what is there."""
    old, new = places
    (old.parent / "list").write_text("".join(f"{line}\n" for line in lines))
    script = (
        f"{load('common', 'inside')}\nset -u\n"
        'owner=$(id -un); pack_inside "$1" "$owner" list packed || exit 1\nunpack_inside "$2" "$PWD/packed"\n'
        '[ ! -e packed.made ] && unpack_inside "$2" "$PWD/packed"'
    )
    done = subprocess.run(
        ["bash", "-c", script, "keep", old, new],
        cwd=old.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done
    return sorted(str(path.relative_to(new)) for path in new.rglob("*"))


def test_directories_are_kept_empty_and_files_whole(places: tuple[Path, Path]) -> None:
    old, new = places
    (old / "binlogs").mkdir(mode=0o700)
    (old / "binlogs/x.000001").write_text("old")
    (old / "ssl").mkdir()
    (old / "ssl/key.pem").write_text("key")
    (old / "ssl/key.pem").chmod(0o640)
    assert keep(places, "d binlogs", "d ssl", "f ssl/key.pem", "d gone", "d gone/deep") == [
        *("binlogs", "gone", "gone/deep", "ssl", "ssl/key.pem")
    ]
    assert (new / "ssl/key.pem").stat().st_mode & 0o777 == 0o640
    assert (new / "binlogs").stat().st_mode & 0o777 == 0o700
    assert (new / "gone").stat().st_mode & 0o777 == 0o750


def test_links_stay_links_and_are_not_followed(places: tuple[Path, Path], tmp_path: Path) -> None:
    old, new = places
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/secret").write_text("of somebody")
    (old / "ssl").symlink_to(tmp_path / "elsewhere")
    assert keep(places, "d ssl", "f ssl/secret") == ["ssl"]
    assert os.readlink(new / "ssl") == str(tmp_path / "elsewhere")


def test_large_files_and_directories_of_the_copy_stay(places: tuple[Path, Path]) -> None:
    old, new = places
    (old / "mysql").mkdir(mode=0o777)
    (new / "mysql").mkdir(mode=0o700)
    (old / "big").write_bytes(bytes(1024**2 + 1))
    assert keep(places, "d mysql", "f big", "a big") == ["mysql"]
    assert (new / "mysql").stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pack as another user")
def test_file_that_the_owner_cannot_read_is_an_error(places: tuple[Path, Path], tmp_path: Path) -> None:
    for path in (places[0], *list(places[0].parents)[:3]):
        path.chmod(0o755)
    (places[0] / "key.pem").touch(0o600)
    (tmp_path / "list").write_text("f key.pem\n")
    script = f'{load("common", "inside")}\npack_inside "$1" daemon list packed'
    words = ["bash", "-c", script, "keep", places[0]]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=60).returncode != 0


def test_nothing_to_keep_leaves_nothing(places: tuple[Path, Path]) -> None:
    assert keep(places, "f ca.pem") == []


PERSISTED = "mysqld-auto.cnf"


def test_persisted_settings_are_the_targets_and_never_the_sources(places: tuple[Path, Path]) -> None:
    old, new = places
    (new / PERSISTED).write_text("of the source")
    assert keep(places, f"f {PERSISTED}") == []
    (old / PERSISTED).write_text("of the target")
    (new / PERSISTED).write_text("of the source")
    assert keep(places, f"f {PERSISTED}") == [PERSISTED]
    assert (new / PERSISTED).read_text() == "of the target"


@pytest.mark.parametrize(("is_quiet", "is_packed"), [(False, False), (False, True), (True, False)])
def test_persisted_settings_of_a_copy_that_never_started_are_the_sources(
    places: tuple[Path, Path], is_quiet: bool, is_packed: bool
) -> None:
    old, new = places
    mark = old / ".dbops-0123456789abcdef"
    mark.touch()
    (old / PERSISTED).write_text("of the target")
    if is_packed:
        subprocess.run(["tar", "-c", "-f", f"{mark}.inside", PERSISTED], cwd=old, check=True, timeout=60)
    if not is_quiet:
        (old / PERSISTED).write_text("of the source")
    else:
        mark.with_name(f"{mark.name}.quieted").touch()
    found = keep(places, f"f {PERSISTED}")
    assert found == ([PERSISTED] if is_quiet or is_packed else [])
    assert not found or (new / PERSISTED).read_text() == "of the target"


RUN = ".dbops-0123456789abcdef"


def pack_earlier(old: Path, **files: str) -> None:
    """Leave a copy with the packed file of its swap."""
    kept = old.parent / "kept"
    kept.mkdir()
    for name, text in files.items():
        (kept / name).write_text(text)
    (old / RUN).touch()
    subprocess.run(["tar", "-c", "-f", old / f"{RUN}.inside", "-C", kept, "."], check=True, timeout=60)


@pytest.mark.parametrize("sign", ["auto.cnf", "multi-master.info", f"{RUN}.unpacked", f"{RUN}.quieted"])
def test_files_of_a_copy_that_was_used_since_are_todays(places: tuple[Path, Path], sign: str) -> None:
    old, new = places
    pack_earlier(old, key="of an earlier day")
    (old / sign).touch()
    (old / "key").write_text("of today")
    (old / "binlogs").mkdir()
    assert keep(places, "d binlogs", "f key") == ["binlogs", "key"]
    assert (new / "key").read_text() == "of today"


@pytest.mark.parametrize("is_unpacked", [True, False])
def test_persisted_settings_of_a_copy_that_ran_are_the_targets_or_none(
    places: tuple[Path, Path], is_unpacked: bool
) -> None:
    """A server that dbops starts on the copy to load it, and one that a person starts on what the source persisted."""
    old, _ = places
    pack_earlier(old)
    (old / "auto.cnf").touch()
    (old / PERSISTED).write_text("of the target" if is_unpacked else "of the source")
    if is_unpacked:
        (old / f"{RUN}.unpacked").touch()
    assert keep(places, f"f {PERSISTED}") == ([PERSISTED] if is_unpacked else [])


def test_packed_file_that_is_taken_over_gets_the_directories_of_today(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = places
    (tmp_path / "kept/logs").mkdir(parents=True)
    (tmp_path / "kept/logs").chmod(0o700)
    (tmp_path / "kept/ssl").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "kept/ca.pem").write_text("kept")
    (old / RUN).touch()
    subprocess.run(
        ["tar", "-c", "-f", old / f"{RUN}.inside", "-C", tmp_path / "kept", "./logs", "./ssl", "ca.pem"],
        check=True,
        timeout=60,
    )
    lines = ["d logs", "d logs/bin", "d ssl", "d ssl/deep", "d temp", "f ca.pem", "f other.pem"]
    assert keep(places, *lines) == ["ca.pem", "logs", "logs/bin", "ssl", "temp"]
    assert (new / "ssl").is_symlink()
    assert not (tmp_path / "elsewhere").exists()
    assert (new / "logs").stat().st_mode & 0o777 == 0o700


def test_packed_file_beyond_any_size_that_was_packed_is_refused(places: tuple[Path, Path], tmp_path: Path) -> None:
    old, _ = places
    pack_earlier(old)
    os.truncate(old / f"{RUN}.inside", 2**27)
    (tmp_path / "list").write_text("d logs\n")
    script = f'{load("common", "inside")}\npack_inside "$1" "$(id -un)" list packed'
    words = ["bash", "-c", script, "keep", str(old)]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, timeout=60).returncode == 1
    assert (tmp_path / "packed").stat().st_size <= 2**26 + 1
