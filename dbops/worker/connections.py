"""Open connections with the stored credentials of the inventory; no other module does."""

from contextlib import closing

from django.conf import settings

from dbops.drivers.jobs import HostJobs
from dbops.drivers.mysql import MysqlAddress, MysqlDatabase
from dbops.drivers.mysql_login import ServerProof
from dbops.drivers.server_proof import read_proof
from dbops.drivers.ssh import SshShell
from dbops.drivers.ssh_transport import SshAddress
from dbops.engine.hosts.access import Endpoint
from dbops.engine.ports import Jobs, Shell
from dbops.loaders.accounts import account_of
from dbops.loaders.host_authorities import authorities_of
from dbops.loaders.ssh_addresses import jump_of, ssh_address_of
from dbops.models import Cluster, Host, Instance
from dbops.security.permissions import sample_refusal


def open_shell(host: Host) -> SshShell:
    """Return a shell on a host; it connects with its first command.

    Raises:
        Refused: as ``ssh_address_of``, or there is no host (``sample.read_only``).
    """
    _not_in_the_sample(host.name)
    return SshShell(ssh_address_of(host))


def endpoint_of(host: Host, local_address: str, jobs: Jobs) -> Endpoint:
    """Return a host as one end of a connection between hosts. ``local_address``: the address that it connects from, as probed."""
    return Endpoint(
        name=host.name,
        ssh_address=host.ssh_address,
        ssh_port=host.ssh_port,
        ssh_user=host.ssh_user,
        stream_address=host.stream_address or host.ssh_address,
        local_address=local_address,
        host_key=host.host_key,
        authorized_keys_file=host.authorized_keys_file,
        sudo=host.sudo,
        jobs=jobs,
        certificate_name=host.certificate_name,
        authorities=authorities_of(host),
    )


def jobs_on(host: Host, shell: Shell, *, instance_key: str, run_id: str, token: int) -> HostJobs:
    """Return the jobs of one run on a host. Arguments as of ``HostJobs``."""
    return HostJobs(
        shell,
        work_dir=host.work_dir,
        instance_key=instance_key,
        run_id=run_id,
        token=token,
        dashboard=settings.DASHBOARD,
    )


def open_database(
    instance: Instance, *, read_timeout_seconds: float = 10.0, connect_timeout_seconds: float = 5.0
) -> MysqlDatabase:
    """Return a connection of the dashboard's account to an instance; it connects with its first statement.

    It goes through the jump hosts of the instance's host. Raises as ``open_shell``.
    """
    _not_in_the_sample(f"{instance.address}:{instance.port}")
    account = account_of(instance, "admin")
    return MysqlDatabase(
        MysqlAddress(
            host=instance.address,
            port=instance.port,
            user=account.user,
            password=account.password,
            jump=jump_of(instance.host),
            tls_ca=instance.cluster.tls_ca,
        ),
        connect_timeout_seconds=connect_timeout_seconds,
        read_timeout_seconds=read_timeout_seconds,
        prove=lambda: proof_of(instance),
    )


def connect_to(address: str, port: int, cluster: Cluster, *, read_timeout_seconds: float) -> MysqlDatabase:
    """Return a connection of the dashboard's account to a cluster's instance; it connects with its first statement.

    An instance that is no longer in the inventory gets the cluster's account, and no host can vouch for it.
    """
    found = Instance.objects.select_related("host", "cluster").filter(cluster=cluster, address=address, port=port)
    if instance := found.first():
        return open_database(instance, read_timeout_seconds=read_timeout_seconds)
    return connect_with(
        address,
        port,
        cluster.admin_user,
        cluster.admin_password,
        tls_ca=cluster.tls_ca,
        connect_timeout_seconds=5.0,
        read_timeout_seconds=read_timeout_seconds,
    )


def proof_of(instance: Instance) -> ServerProof:
    """Return what an instance's server must show, read over SSH. Raises as ``open_shell`` and ``read_proof``."""
    with closing(open_shell(instance.host)) as shell:
        return read_proof(
            shell,
            datadir=instance.datadir,
            defaults_file=instance.defaults_file,
            group_suffix=instance.group_suffix,
        )


def connect_with(
    address: str,
    port: int,
    user: str,
    password: str,
    *,
    connect_timeout_seconds: float,
    read_timeout_seconds: float,
    jump: SshAddress | None = None,
    tls_ca: str = "",
) -> MysqlDatabase:
    """Return a connection of any account to an address, for which no host vouches; it connects with its first statement.

    ``jump``: the jump host on the way. ``tls_ca``: as of ``MysqlAddress``.
    """
    _not_in_the_sample(f"{address}:{port}")
    return MysqlDatabase(
        MysqlAddress(host=address, port=port, user=user, password=password, jump=jump, tls_ca=tls_ca),
        connect_timeout_seconds=connect_timeout_seconds,
        read_timeout_seconds=read_timeout_seconds,
    )


def _not_in_the_sample(place: str) -> None:
    """Refuse to connect in the sample: its made-up machine names may be those of real ones."""
    if settings.SAMPLE:
        raise sample_refusal(f"Connecting to {place}")
