"""Convert rows of instances and hosts for the engine."""

from dbops.engine.errors import Refused
from dbops.engine.hosts.host_keys import fingerprint_of
from dbops.engine.planning.inputs import KnownInstance
from dbops.models import Host, Instance

SYSTEMCTL = "/usr/bin/systemctl"


def service_commands(instance: Instance) -> tuple[str, str]:
    """Return the start and stop commands."""
    if instance.systemd_unit:
        return f"{SYSTEMCTL} start {instance.systemd_unit}", f"{SYSTEMCTL} stop {instance.systemd_unit}"
    return instance.start_command, instance.stop_command


def shown_fingerprint(host: Host) -> str:
    """Return what proves the host: the name in its certificate, or the fingerprint of the pinned key.

    An unreadable key of one host must not break plans of others.
    """
    if host.certificate_name:
        return f"certificate for {host.certificate_name}"
    try:
        return fingerprint_of(host.host_key) if host.host_key else ""
    except Refused:
        return "unreadable"


def member_of(instance: Instance) -> KnownInstance:
    """Convert an instance for the engine; uses the row's ``state``, ``host`` and ``cluster``."""
    start, stop = service_commands(instance)
    state = getattr(instance, "state", None)
    host = instance.host
    return KnownInstance(
        name=instance.name,
        cluster=instance.cluster.name,
        role=instance.role,
        host=host.name,
        host_key_fingerprint=shown_fingerprint(host),
        ssh_address=host.ssh_address,
        ssh_port=host.ssh_port,
        ssh_user=host.ssh_user,
        address=instance.address,
        port=instance.port,
        datadir=instance.datadir,
        defaults_file=instance.defaults_file,
        os_user=instance.os_user,
        start_command=start,
        stop_command=stop,
        facts=state.facts() if state else None,
        group_suffix=instance.group_suffix,
        certificate_name=host.certificate_name,
        replication_tls=instance.replication_tls,
        replication_tls_ca=instance.replication_tls_ca,
        replication_delay_seconds=instance.replication_delay_seconds,
    )
