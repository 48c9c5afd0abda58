"""What `docs/tutorial/first-cluster.md` asks its reader to do, with the lab as the cluster."""

import shutil
import subprocess
from pathlib import Path

from tests.stack import ROOT

from .lessons import Lesson

PASSWORD = "horse correct staple battery"


class FirstCluster(Lesson):
    """``dbops`` is the command line of a demo that runs."""

    page = ROOT / "docs" / "tutorial" / "first-cluster.md"

    def __init__(self, checkout: Path, environment: dict[str, str]) -> None:
        demo = checkout / "var" / "demo"
        super().__init__(checkout, environment | {"PATH": f"{demo}:{environment['PATH']}"})
        self.typed["password"] = f"{PASSWORD}\n{PASSWORD}"
        shutil.copy(Path(environment["LAB_PARENT"]) / "demo" / "fleet.yaml", checkout)

    def lose_a_disk(self) -> None:
        words = ["script/lab", "break", "replica-1"]
        subprocess.run(words, cwd=self.checkout, env=self.environment, check=True, capture_output=True, timeout=120)
