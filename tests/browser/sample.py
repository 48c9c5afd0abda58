"""The sample as its own dashboard: no lab, no worker, no Redis, and one person who looks at it."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.networks import answers, free_port
from tests.run_folder import new_folder
from tests.stack import ROOT, VIEWER, VIEWER_PASSWORD, wait_for


@contextmanager
def running_sample(*, weeks: int = 8, rights: tuple[str, ...] = ("--group", "viewer"), then: str = "") -> Iterator[str]:
    """Fill a database of its own and show it; yield the address.

    Args:
        rights: words of ``account create``.
        then: Python that changes the rows before anybody looks at them.
    """
    folder, port = new_folder("sample"), free_port()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("DBOPS_")},
        "DBOPS_STATE_DIR": str(folder),
        "DBOPS_WEB_PORT": str(port),
        "DBOPS_SAMPLE": "1",
    }

    def run(*words: str, stdin: str = "") -> None:
        subprocess.run(words, env=environment, cwd=ROOT, input=stdin.encode(), check=True, capture_output=True)

    try:
        manage = (str(ROOT / ".venv" / "bin" / "python"), "manage.py")
        run("script/run", "migrate")
        run(*manage, "sample", "--weeks", str(weeks))
        run(*manage, "account", "create", VIEWER, *rights, "--password-stdin", stdin=VIEWER_PASSWORD)
        if then:
            run(*manage, "shell", "--no-imports", "-c", then)
        with (folder / "web.log").open("wb") as log:
            web = subprocess.Popen(
                [ROOT / "script" / "run", "web"], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for("the sample's web process", lambda: answers(f"http://127.0.0.1:{port}/healthz/"))
            yield f"http://127.0.0.1:{port}"
        finally:
            web.send_signal(signal.SIGTERM)
            web.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
