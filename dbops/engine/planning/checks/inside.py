"""Check what the target's option file names inside its data directory."""

from collections.abc import Iterator
from posixpath import isabs, join, normpath

from dbops.engine.flavors import Flavor
from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import ok, refusal
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.inside import kept_inside
from dbops.engine.rebuilds.plan import Finding

#: Options with the place of data files. A copy has all of them in the data directory itself.
PLACES = ("aria_log_dir_path", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory")


def inside_of(target: KnownInstance, flavor: Flavor | None) -> tuple[str, ...]:
    """Return what a rebuild keeps of the target's old data directory, as ``kept_inside``."""
    facts = target.facts
    if facts is None or facts.config is None or facts.datadir is None:
        return ()
    return kept_inside(facts.config.options, facts.datadir.path, flavor=flavor.name if flavor else "")


def named_files_are_kept(inputs: PlanInputs) -> Iterator[Finding]:
    """Name what is kept: the server does not start without these directories, or starts with other certificates."""
    code, title = "target.inside", phrase("Directories and files in the option file")
    if inputs.target.facts is None:
        return
    kept = [line.partition(" ")[2] for line in inside_of(inputs.target, None)]
    yield ok(
        code,
        title,
        phrase("In the new data directory too: {kept}.", kept=", ".join(kept))
        if kept
        else phrase("None is in the data directory."),
    )


def data_files_lie_together(inputs: PlanInputs) -> Iterator[Finding]:
    """Refuse a subdirectory for data files: the copy has them in the data directory, where the server would not look."""
    code, title, facts = (
        "target.data_places",
        phrase("Data directories in the option file"),
        inputs.target.facts,
    )
    if facts is None or facts.config is None or facts.datadir is None:
        return
    root = normpath(facts.datadir.path)
    options = {name: facts.config.options[name] for name in PLACES if facts.config.options.get(name)}
    wrong = [
        f"{name} = {value}"
        for name, value in options.items()
        if normpath(value if isabs(value) else join(root, value)).startswith(f"{root}/")
    ]
    if wrong:
        advice = phrase("Remove the option: dbops puts all data files into the data directory itself.")
        yield refusal(code, title, f"{'; '.join(wrong)}.", advice)
    else:
        yield ok(code, title, phrase("None in {datadir}.", datadir=root))


CHECKS = (named_files_are_kept, data_files_lie_together)
#: For a dump: its server makes the files where its option file says.
OF_A_DUMP = (named_files_are_kept,)
