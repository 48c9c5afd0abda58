"""Check what protects the target's pages after the rebuild: no option file is copied, so the target's own decides."""

from collections.abc import Iterator

from dbops.engine.flavors.run_time_settings import after_restart
from dbops.engine.phrases import phrase
from dbops.engine.planning.checks.findings import ok, warning
from dbops.engine.planning.inputs import KnownInstance, PlanInputs
from dbops.engine.rebuilds.plan import Finding
from dbops.engine.tuning.doublewrite import Standing, judge_doublewrite, repairs, storage_of

NAME = "innodb_doublewrite"
#: How an option file says OFF without a value.
SKIPS = ("skip_innodb_doublewrite", "disable_innodb_doublewrite")


def after_rebuild(target: KnownInstance) -> str | None:
    """Return ``innodb_doublewrite`` of the target's next server process, ``None`` if neither server nor option file was read.

    The server knows what it began with, also from its command line; a statement may have changed that since. MySQL's
    ``SET PERSIST`` counts: a rebuild keeps the target's ``mysqld-auto.cnf``.
    """
    config = target.facts.config if target.facts else None
    options = dict(config.options) if config else {}
    if any(options.get(name, "0") != "0" for name in SKIPS):
        options.setdefault(NAME, "OFF")
    server = target.server
    if server and server.doublewrite:
        changed = next((item for item in server.set_at_run_time or () if item.name == NAME), None)
        return (after_restart(changed, options) or "ON") if changed else server.doublewrite
    return options.get(NAME, "ON") if config else None


def doublewrite_is_known(inputs: PlanInputs) -> Iterator[Finding]:
    """Warn if the target will protect its pages in another way than source and primary, or not at all without a reason."""
    code, title, target = (
        "target.doublewrite",
        phrase("Torn page repair on the target"),
        inputs.target,
    )
    setting = after_rebuild(target)
    if setting is None:
        return
    others = {
        member.name: member.server.doublewrite
        for member in (inputs.source, inputs.primary)
        if member and member.server and member.server.doublewrite
    }
    beside = "".join(f", {name} {value}" for name, value in others.items())
    seen = phrase(
        "{target} will have {name} = {setting}{beside}. A rebuild copies no option file: the target's own decides.",
        target=target.name,
        name=NAME,
        setting=setting,
        beside=beside,
    )
    unlike = [name for name, value in others.items() if repairs(value) is not repairs(setting)]
    if not repairs(setting) and not _may_be_off(inputs):
        advice = phrase(
            "Set {name} = ON in {defaults_file}, or attest the storage on the page of {target}.",
            name=NAME,
            defaults_file=target.defaults_file,
            target=target.name,
        )
        yield warning(
            code, title, phrase("{seen} Nothing shows that its storage writes whole pages.", seen=seen), advice
        )
    elif unlike:
        advice = phrase(
            "Use one setting in the whole cluster: any instance may become the primary. Edit {defaults_file}.",
            defaults_file=target.defaults_file,
        )
        yield warning(code, title, seen, advice)
    else:
        yield ok(code, title, seen)


def _may_be_off(inputs: PlanInputs) -> bool:
    """Whether evidence or an attestation allows the target's storage to go without. While its server is down, only the storage counts."""
    target, today = inputs.target, inputs.now.date()
    if target.facts is None:
        return False
    if target.server is None:
        attested = target.attestation
        return attested is not None and attested.standing(storage_of(target.facts), today) is Standing.VALID
    advice = judge_doublewrite(target.name, {target.name: target.facts}, target.attestation, today)
    return advice is not None and advice.may_be_off


CHECKS = (doublewrite_is_known,)
