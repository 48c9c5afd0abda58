"""Build the plan of a rebuild from facts."""

from dataclasses import replace
from datetime import datetime

from dbops.engine.backups.archives import Archive
from dbops.engine.errors import Refused
from dbops.engine.facts.instance import HostFacts, ServerFacts
from dbops.engine.facts.storage import StorageFacts
from dbops.engine.flavors import Flavor
from dbops.engine.flavors.dump_load import install_programs
from dbops.engine.flavors.pause import needs_pause
from dbops.engine.phrases import joined, phrase
from dbops.engine.planning.checks import run_checks
from dbops.engine.planning.checks.capacity import fits_beside_old_data
from dbops.engine.planning.checks.inside import inside_of
from dbops.engine.planning.checks.pair import find_tool
from dbops.engine.planning.checks.source import skips_source
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.planning.method import Method
from dbops.engine.planning.step_estimates import COPY
from dbops.engine.planning.target_replication import kept_replication
from dbops.engine.planning.upstream import intermediate_of
from dbops.engine.rebuilds.plan import Plan, PlannedInstance, PlannedStep
from dbops.engine.rebuilds.steps.base import Step
from dbops.engine.rebuilds.steps.start.relaxed_durability import choose_appliers
from dbops.engine.tuning.prepare import PrepareOptions, PrepareReason, choose
from dbops.engine.tuning.threads import StreamSide, choose_threads, threads_reason
from dbops.engine.tuning.transport import (
    NO_RESUME,
    choose_ciphers,
    choose_compression,
    cipher_reason,
)


def build_plan(inputs: PlanInputs, method: Method) -> Plan:
    """Return the plan of a rebuild. Write nothing and contact no host.

    Raises:
        Refused: facts are missing (``plan.no_facts``): source or target were never probed, or there is no primary.
    """
    inputs = inputs.by(method)
    target, source, primary = inputs.target, inputs.source, inputs.primary
    flavor, archive = inputs.flavor, inputs.archive
    asked = primary.server if primary and archive else source.server
    if not (flavor and asked and source.facts and source.facts.host and target.facts and primary):
        raise _too_little_is_known(inputs, method)
    pause, pause_reason = _pause(asked, method)
    fits = fits_beside_old_data(inputs)
    target_host = target.facts.host or source.facts.host
    preparing = _preparing(inputs, flavor, asked, target_host)
    ciphers = choose_ciphers(source.facts.host, target_host, inputs.link)
    compression = choose_compression(source.facts.host, target_host, inputs.link, _compress_problem(inputs, flavor))
    draft = Plan(
        method=method.name,
        target=target.party(),
        source=_read_from(source, archive),
        primary=primary.party(),
        flavor=flavor.name,
        findings=run_checks(inputs, method.checks),
        steps=(),
        destroys=_destroys(target, fits=fits, keep=inputs.keep_old_data),
        old_data="removed_first" if fits is False else "aside",
        aside_path="" if fits is False else _aside_path(target, inputs.run_id),
        keep_old_data=inputs.keep_old_data and fits is not False,
        pause_source=pause,
        pause_reason=pause_reason,
        cipher=ciphers,
        parallel=choose_threads(source.facts.host, _storage(source)),
        unpack_threads=choose_threads(target_host, _storage(target)),
        prepare_memory_bytes=preparing.memory_bytes,
        prepare_options=preparing.options,
        prepare_reasons=preparing.reasons,
        stream_reasons=_stream_reasons(inputs, method, ciphers, target_host, compression.reason),
        compress_threads=compression.threads if method.streams else 0,
        compresses_itself=compression.by_tool and method.streams,
        bytes_to_copy=inputs.bytes_to_copy,
        predicted_seconds=None,
        uses_gtid=asked.gtid_enabled,
        replication_user=inputs.replication_user,
        relaxes=inputs.relaxes,
        appliers=choose_appliers(target_host.cpu_count) if inputs.relaxes else 0,
        programs=_programs(inputs, flavor),
        facts_observed_at=_observed_at(target, source, primary),
        archive=archive,
        certificate_seconds=inputs.certificate_seconds,
        full_certificate=inputs.full_certificate,
        inside=inside_of(target, flavor),
        skips_source=not archive and skips_source(asked),
        replication=kept_replication(inputs, flavor, uses_gtid=asked.gtid_enabled),
        upstream=_upstream(inputs),
    )
    steps = _planned_steps(method, draft, inputs)
    known = [step.predicted_seconds for step in steps if step.predicted_seconds is not None]
    return replace(draft, steps=steps, predicted_seconds=sum(known) if len(known) == len(steps) else None)


def _upstream(inputs: PlanInputs) -> PlannedInstance | None:
    between = intermediate_of(inputs)
    return between.returns_to.party() if between and between.returns_to else None


def _observed_at(*members: KnownInstance) -> dict[str, datetime]:
    return {member.name: member.facts.observed_at for member in members if member.facts}


def _too_little_is_known(inputs: PlanInputs, method: Method) -> Refused:
    return Refused(
        "plan.no_facts",
        phrase("Planning a rebuild of {target} from {source}", target=inputs.target.name, source=inputs.source.name),
        cause=_what_is_missing(inputs, method),
    )


def _pause(asked: ServerFacts, method: Method) -> tuple[bool, str]:
    return (False, method.no_pause) if method.no_pause else needs_pause(asked)


def _stream_reasons(
    inputs: PlanInputs, method: Method, ciphers: str, target: HostFacts, compression: str
) -> tuple[str, ...]:
    source = inputs.source.facts.host if inputs.source.facts else None
    if not method.streams or source is None:
        return ()
    disks = _storage(inputs.source), _storage(inputs.target)
    return (
        cipher_reason(ciphers, source, target, inputs.link),
        threads_reason(StreamSide.SOURCE, source, disks[0]),
        threads_reason(StreamSide.TARGET, target, disks[1]),
        compression,
        NO_RESUME,
    )


def _compress_problem(inputs: PlanInputs, flavor: Flavor) -> str:
    tools = find_tool(inputs.source, flavor.backup_programs), find_tool(inputs.target, flavor.unpack_programs)
    return flavor.compress_problem(*(tool.version if tool else None for tool in tools))


def _storage(member: KnownInstance) -> StorageFacts | None:
    return member.facts.datadir.storage if member.facts and member.facts.datadir else None


def _read_from(source: KnownInstance, archive: Archive | None) -> PlannedInstance:
    """Return the party of a source whose finished backup is read: only its host counts, as its server may go down at any time."""
    party = source.party()
    if archive is None:
        return party
    return replace(party, is_answering=False, server_id=None, server_uuid="", socket="", version=archive.version)


def _preparing(inputs: PlanInputs, flavor: Flavor, source: ServerFacts, target: HostFacts) -> PrepareOptions:
    tool = find_tool(inputs.target, flavor.backup_programs)
    ground = PrepareReason(
        free_bytes=target.memory_available_bytes,
        cpu_count=target.cpu_count,
        redo_capacity_bytes=source.redo_capacity_bytes,
        redo_bytes_per_second=source.redo_bytes_per_second,
        copy_seconds=inputs.cautious_copy_seconds,
    )
    return choose(flavor.prepare_habits(tool.version if tool else None), ground)


def _planned_steps(method: Method, draft: Plan, inputs: PlanInputs) -> tuple[PlannedStep, ...]:
    planned: list[PlannedStep] = []
    for step in method.steps:
        planned.append(_planned(step, draft, inputs, _age_after(planned, inputs)))
    return tuple(planned)


def _age_after(planned: list[PlannedStep], inputs: PlanInputs) -> float | None:
    """Return the age of the data after these steps, in seconds; ``None`` if the duration of one of them is unknown.

    The age of a finished backup counts from its begin, with the rebuild starting now. The age of a running server's data counts from
    the begin of the copy, about its maximum. Past rebuilds are counted alike (``experience.PastRebuild``).
    """
    archive = inputs.archive
    copy = next((number for number, step in enumerate(planned) if step.name == COPY), len(planned))
    seconds = [step.predicted_seconds for step in planned[0 if archive else copy :]]
    known = [value for value in seconds if value is not None]
    if len(known) < len(seconds):
        return None
    return sum(known) + (max(0.0, (inputs.now - archive.taken_at).total_seconds()) if archive else 0.0)


def _planned(step: Step, draft: Plan, inputs: PlanInputs, age_seconds: float | None) -> PlannedStep:
    expected = inputs.predict(step.name, age_seconds=age_seconds)
    duration = expected.duration if expected else None
    return PlannedStep(
        name=step.name,
        title=step.title,
        commands=step.commands(draft),
        predicted_seconds=duration.p50_seconds if duration else None,
        predicted_p90_seconds=duration.p90_seconds if duration and duration.has_p90 else None,
        predicted_runs=duration.runs if duration else 0,
        is_of_others=expected is not None and expected.is_of_others,
    )


def _what_is_missing(inputs: PlanInputs, method: Method) -> str:
    missing: list[str] = []
    if method.reads.backup and inputs.archive is None:
        missing.append(
            phrase(
                "dbops has no complete {kind} backup of {source}", kind=method.reads.backup, source=inputs.source.name
            )
        )
    for member in (inputs.target, inputs.source):
        if member.facts is None:
            missing.append(phrase("{member} was never probed", member=member.name))
    facts = inputs.source.facts
    if facts and (problem := facts.host_problem or facts.server_problem):
        missing.append(
            phrase(
                "{source} does not answer: {problem} ({code})",
                source=inputs.source.name,
                problem=problem.text,
                code=problem.code,
            )
        )
    if inputs.primary is None:
        missing.append(phrase("the cluster {cluster} has no primary in the inventory", cluster=inputs.target.cluster))
    return joined(missing, "; ") or phrase("too few facts")


def _aside_path(target: KnownInstance, run_id: str) -> str:
    """Return the path for the old data. A rename must stay on its file system: beside the real directory, or inside a mount point."""
    directory = target.facts.datadir if target.facts else None
    inside = directory is not None and directory.is_mount_point
    path = target.party().datadir
    return f"{path}/.dbops-old-{run_id}" if inside else f"{path}.dbops-old-{run_id}"


def _destroys(target: KnownInstance, *, fits: bool | None, keep: bool) -> tuple[str, ...]:
    directory = target.facts.datadir if target.facts else None
    if directory is not None and (not directory.exists or directory.is_empty):
        if directory.exists:
            return (phrase("Nothing: {datadir} on {host} is empty.", datadir=target.datadir, host=target.host),)
        return (phrase("Nothing: {datadir} on {host} is missing.", datadir=target.datadir, host=target.host),)
    real = target.party().datadir
    link = phrase("{datadir} (a link to {real})", datadir=target.datadir, real=real)
    directory_name = link if real != target.datadir.rstrip("/") else target.datadir
    what = phrase("The data directory {datadir} on {host}", datadir=directory_name, host=target.host)
    if fits is None:
        return (
            phrase(
                "Unknown: the size of {datadir} on {host} or of the source was not read. The rebuild cannot start.",
                datadir=target.datadir,
                host=target.host,
            ),
        )
    if not fits:
        return (phrase("{what} is REMOVED BEFORE the copy: not enough space for both.", what=what),)
    if keep:
        return (phrase("{what} is moved aside and kept.", what=what),)
    return (phrase("{what} is moved aside and removed after the new data is verified.", what=what),)


def _programs(inputs: PlanInputs, flavor: Flavor) -> dict[str, str]:
    wanted = {
        "source.backup": (inputs.source, flavor.backup_programs),
        "source.client": (inputs.source, flavor.client_programs),
        "target.backup": (inputs.target, flavor.backup_programs),
        "target.unpack": (inputs.target, flavor.unpack_programs),
        "target.client": (inputs.target, flavor.client_programs),
        "target.server": (inputs.target, flavor.server_programs),
        "source.compress": (inputs.source, ("zstd",)),
        "target.expand": (inputs.target, ("zstd",)),
        "target.install": (inputs.target, install_programs(flavor)),
    }
    found = {key: find_tool(member, names) for key, (member, names) in wanted.items()}
    return {key: tool.path if tool else wanted[key][1][0] for key, tool in found.items()}
