"""What `docs/tutorial/first-cluster.md` asks its reader to do, with the lab as the cluster."""

import shutil
import subprocess
from pathlib import Path

from tests.stack import ROOT, wait_for

from .lessons import Lesson

PASSWORD = "horse correct staple battery"


class FirstCluster(Lesson):
    """``dbops`` is the command line of a demo that runs."""

    page = ROOT / "docs" / "tutorial" / "first-cluster.md"

    def __init__(self, checkout: Path, environment: dict[str, str]) -> None:
        demo = checkout / "var" / "demo"
        super().__init__(checkout, environment | {"PATH": f"{demo}:{environment['PATH']}"})
        self.typed["password"] = PASSWORD
        shutil.copy(Path(environment["LAB_PARENT"]) / "demo" / "fleet.yaml", checkout)

    def lose_a_disk(self) -> None:
        self._ran("script/lab", "break", "replica-1").check_returncode()
        wait_for("a probe of the broken replica", self._is_broken, 120)

    def _is_broken(self) -> bool:
        """Whether the last probe says so. In between a plan can be refused: the server was there when the probe began."""
        return (
            b'"is_answering": false' in self._ran("var/demo/dbops", "rebuild", "replica-1", "--plan", "--json").stdout
        )

    def _ran(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words, cwd=self.checkout, env=self.environment, stdout=subprocess.PIPE, timeout=120, check=False
        )
