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
        self._said("script/lab", "break", "replica-1")
        wait_for("a probe of the broken replica", self._is_broken, 60)

    def _is_broken(self) -> bool:
        return '"is_answering": false' in self._said("var/demo/dbops", "rebuild", "replica-1", "--plan", "--json")

    def _said(self, *words: str) -> str:
        ran = subprocess.run(
            words, cwd=self.checkout, env=self.environment, check=True, stdout=subprocess.PIPE, timeout=120
        )
        return ran.stdout.decode()
