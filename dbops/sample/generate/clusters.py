"""The five clusters of the sample's fleet. Names and addresses are reserved for examples."""

from dataclasses import dataclass

GIB = 1024**3
MIB = 1024**2


@dataclass(frozen=True, slots=True)
class SampleSchedule:
    """A backup schedule. ``hours`` is a run's duration, ``share`` its size relative to the data, ``origin`` the reporter of its runs."""

    name: str
    instance: str
    method: str
    origin: str
    cron: str
    zone: str
    hours: float
    share: float

    @property
    def run_by(self) -> str:
        return "dbops" if self.origin == "managed" else "external"


@dataclass(frozen=True, slots=True)
class SampleCluster:
    """A cluster. ``rate`` is its copy rate in bytes per second, ``growth`` its weekly data growth as a share."""

    name: str
    flavor: str
    version: str
    tool: str
    replicas: int
    sources: int
    data_bytes: int
    rate: int
    growth: float
    wanted: int | None
    schedules: tuple[SampleSchedule, ...]

    @property
    def instances(self) -> dict[str, str]:
        """Instance names with roles."""
        sources = {f"{self.name}-b{number}": "backup" for number in range(1, self.sources + 1)}
        replicas = {f"{self.name}-r{number}": "replica" for number in range(1, self.replicas + 1)}
        return {f"{self.name}-p1": "primary", **sources, **replicas}


BERLIN, UTC = "Europe/Berlin", "UTC"

CLUSTERS = (
    SampleCluster(
        *("billing", "mysql", "8.0.42", "8.0.35-33", 2, 1, 2870 * GIB, 305 * MIB, 0.006, None),
        schedules=(SampleSchedule("billing-dump", "billing-b1", "dump", "reported", "0 20 * * *", UTC, 15.8, 0.19),),
    ),
    SampleCluster(
        *("crm", "mariadb", "10.6.22", "10.6.22", 1, 1, 184 * GIB, 165 * MIB, 0.004, None),
        schedules=(SampleSchedule("crm-nightly", "crm-b1", "physical", "reported", "0 3 * * *", BERLIN, 0.42, 0.38),),
    ),
    SampleCluster(
        *("search", "mysql", "8.4.5", "8.4.0-3", 3, 2, 421 * GIB, 348 * MIB, 0.011, 3),
        schedules=(
            SampleSchedule("search-nightly", "search-b1", "physical", "managed", "15 2 * * *", UTC, 0.72, 0.36),
            SampleSchedule("search-weekly-dump", "search-b2", "dump", "observed", "0 4 * * 0", UTC, 3.1, 0.2),
        ),
    ),
    SampleCluster(
        *("sessions", "mariadb", "11.4.7", "11.4.7", 1, 1, 58 * GIB, 214 * MIB, 0.002, None),
        schedules=(SampleSchedule("sessions-dump", "sessions-b1", "dump", "managed", "5 */6 * * *", UTC, 0.23, 0.21),),
    ),
    SampleCluster(
        *("shop", "mariadb", "10.11.13", "10.11.13", 2, 1, 1440 * GIB, 282 * MIB, 0.009, 3),
        schedules=(
            SampleSchedule("shop-nightly", "shop-b1", "physical", "managed", "30 1 * * *", BERLIN, 2.15, 0.37),
            SampleSchedule("shop-weekly-dump", "shop-b1", "dump", "managed", "0 9 * * 6", BERLIN, 4.6, 0.2),
        ),
    ),
)

#: Accounts: name and group.
PEOPLE = {"anna.keller": "operator", "jonas.meyer": "operator", "priya.nair": "operator"} | {
    "eva.lindqvist": "viewer",
    "tom.fischer": "viewer",
}

#: Free space of an instance whose disk is almost full; the others have room for a second copy of the data.
ALMOST_FULL = {"billing-p1": 164 * GIB}


def free_bytes_of(cluster: SampleCluster, name: str) -> int:
    """Return the free space of an instance's file system."""
    return ALMOST_FULL.get(name, int(cluster.data_bytes * 1.6) + 128 * GIB)
