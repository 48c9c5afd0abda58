"""Read connection tests and their results."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from dbops.models import ConnectionTest, Host, Instance

SHOWN = 50
Kinds = ConnectionTest.Kinds


@dataclass(frozen=True, slots=True)
class HostTests:
    """The last tests of a host, and the possible sources of a stream test."""

    ssh: ConnectionTest | None
    stream: ConnectionTest | None
    others: tuple[str, ...]


def tests() -> QuerySet[ConnectionTest]:
    """Return tests with their subjects, but without any host's key."""
    rows = ConnectionTest.objects.select_related("host", "source_host", "instance")
    return rows.defer("host__ssh_private_key", "source_host__ssh_private_key")


def latest() -> list[ConnectionTest]:
    """Return the newest tests. One query."""
    return list(tests()[:SHOWN])


def of_host(host: Host) -> HostTests:
    """Return the last tests of a host, including stream tests with it as source. Three queries."""
    return HostTests(
        ssh=tests().filter(kind=Kinds.SSH, host=host).first(),
        stream=tests().filter(Q(host=host) | Q(source_host=host), kind=Kinds.STREAM).first(),
        others=tuple(Host.objects.exclude(pk=host.pk).values_list("name", flat=True)),
    )


def of_instance(instance: Instance) -> ConnectionTest | None:
    """Return the last test of an instance. One query."""
    return tests().filter(kind=Kinds.MYSQL, instance=instance).first()
