"""From facts to a plan."""

from dataclasses import replace

from dbops.engine.checks import run_checks
from dbops.engine.checks.capacity import fits_beside_old_data
from dbops.engine.checks.pair import find_tool
from dbops.engine.errors import Refused
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.pause import needs_pause
from dbops.engine.methods import METHODS
from dbops.engine.pipeline import choose_ciphers, choose_parallel, choose_prepare_memory
from dbops.engine.plan import Plan, PlannedStep
from dbops.engine.situation import Member, Situation


def build_plan(situation: Situation, method: str = "xbstream") -> Plan:
    """Return what a rebuild would do now. Pure: nothing is written, no host is asked.

    Raises:
        Refused: too little is known to say anything (``plan.no_facts``): source or target were never read, or there is no primary.
    """
    target, source, primary = situation.target, situation.source, situation.primary
    flavor = source.flavor
    if not (flavor and source.server and source.facts and source.facts.host and target.facts and primary):
        raise Refused(
            "plan.no_facts",
            f"Planning a rebuild of {target.name} from {source.name}",
            found=_what_is_missing(situation),
            left="Nothing was changed.",
            next_step="Wait for a probe that succeeds, or mend what stops it.",
        )
    pause, pause_reason = needs_pause(source.server)
    beside = fits_beside_old_data(situation)
    target_host = target.facts.host or source.facts.host
    draft = Plan(
        method=method,
        target=target.party(),
        source=source.party(),
        primary=primary.party(),
        flavor=flavor.name,
        findings=run_checks(situation),
        steps=(),
        destroys=_destroys(target, beside=beside, keep=situation.keep_old_data),
        old_data="aside" if beside else "removed_first",
        aside_path=_aside_path(target, situation.run_id) if beside else "",
        keep_old_data=situation.keep_old_data and beside,
        pause_source=pause,
        pause_reason=pause_reason,
        cipher=choose_ciphers(source.facts.host, target_host),
        parallel=choose_parallel(source.facts.host),
        prepare_memory_bytes=choose_prepare_memory(target_host, source.server.redo_capacity_bytes),
        bytes_to_copy=situation.bytes_to_copy,
        predicted_seconds=None,
        uses_gtid=source.server.gtid_enabled,
        replication_user=situation.replication_user,
        programs=_programs(situation, flavor),
        facts_observed_at={
            member.name: member.facts.observed_at for member in (target, source, primary) if member.facts
        },
    )
    steps = tuple(
        PlannedStep(step.name, step.title, step.commands(draft), situation.predict(step.name))
        for step in METHODS[method].steps
    )
    known = [step.predicted_seconds for step in steps if step.predicted_seconds is not None]
    return replace(draft, steps=steps, predicted_seconds=sum(known) if len(known) == len(steps) else None)


def _what_is_missing(situation: Situation) -> str:
    missing = []
    for member in (situation.target, situation.source):
        if member.facts is None:
            missing.append(f"{member.name} was never read")
    facts = situation.source.facts
    if facts and (problem := facts.host_problem or facts.server_problem):
        missing.append(f"{situation.source.name} does not answer: {problem.text} ({problem.code})")
    if situation.primary is None:
        missing.append(f"the cluster {situation.target.cluster} has no primary in the inventory")
    return "; ".join(missing) or "not enough is known"


def _aside_path(target: Member, run_id: str) -> str:
    """A rename must stay on its file system: beside the directory, or inside it where it is a mount point."""
    directory = target.facts.datadir if target.facts else None
    inside = directory is not None and directory.is_mount_point
    return f"{target.datadir}/.dbops-old-{run_id}" if inside else f"{target.datadir.rstrip('/')}.dbops-old-{run_id}"


def _destroys(target: Member, *, beside: bool, keep: bool) -> tuple[str, ...]:
    directory = target.facts.datadir if target.facts else None
    if directory is not None and (not directory.exists or directory.is_empty):
        return (f"Nothing: {target.datadir} on {target.host} is {'empty' if directory.exists else 'missing'}.",)
    what = f"The data directory {target.datadir} on {target.host}"
    if not beside:
        return (f"{what} is REMOVED BEFORE the copy: there is no room for both.",)
    if keep:
        return (f"{what} is moved aside and kept.",)
    return (f"{what} is moved aside, and removed after the new data is verified.",)


def _programs(situation: Situation, flavor: Flavor) -> dict[str, str]:
    wanted = {
        "source.backup": (situation.source, flavor.backup_programs),
        "source.client": (situation.source, flavor.client_programs),
        "target.backup": (situation.target, flavor.backup_programs),
        "target.unpack": (situation.target, flavor.unpack_programs),
        "target.client": (situation.target, flavor.client_programs),
    }
    found = {key: find_tool(member, names) for key, (member, names) in wanted.items()}
    return {key: tool.path if tool else wanted[key][1][0] for key, tool in found.items()}
