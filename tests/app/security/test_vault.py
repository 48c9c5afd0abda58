"""Secrets from a real OpenBao: logins, refusals, outages, and what this process keeps."""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hvac
import pytest

from dbops.engine.errors import DbopsError, NoAccess, Unreachable
from dbops.security import vault as module
from dbops.security.vault import Vault
from dbops.security.vault_paths import VaultPath
from dbops.security.vault_settings import VaultSettings, read_vault
from tests.app.audit.receivers import make_certificates
from tests.token_reviews import Reviewer, jwt, reviewing
from tests.vault_server import POLICY, OpenBao, until

ADMIN = VaultPath("clusters/shop#admin")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Reviewer]:
    with reviewing(tmp_path / "cluster") as found:
        yield found


@pytest.fixture
def shop(bao: OpenBao) -> OpenBao:
    bao.write("clusters/shop", admin="s3cret of shop", number=7, empty="")
    return bao


def code_of(vault: Vault, path: VaultPath = ADMIN, **options: Any) -> str:
    with pytest.raises(DbopsError) as found:
        vault.read(path, **options)
    assert "s3cret" not in str(found.value)
    return found.value.code


def aged(vault: Vault, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let time pass for what is kept."""
    now = time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: now() + seconds)


class TestLogins:
    def test_a_token_from_a_file(self, shop: OpenBao) -> None:
        assert Vault(shop.settings()).read(ADMIN) == "s3cret of shop"

    def test_an_approle_whose_token_ends_logs_in_again(self, shop: OpenBao) -> None:
        role, file = shop.approle(token_ttl="1s", token_max_ttl="2s")
        vault = Vault(shop.settings(role_id=role, secret_id_file=file, cache_seconds=0))
        for _ in range(5):
            assert vault.read(ADMIN) == "s3cret of shop"
            time.sleep(0.7)

    def test_a_token_is_renewed_in_time(self, shop: OpenBao) -> None:
        token = shop.token(ttl="2s", explicit_max_ttl="1m")
        vault = Vault(shop.settings(token_file=shop.token_file(token), cache_seconds=0))
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            assert vault.read(ADMIN) == "s3cret of shop"
            time.sleep(0.4)

    def test_a_token_file_that_was_replaced_is_read_again(self, shop: OpenBao) -> None:
        first = shop.token()
        vault = Vault(shop.settings(token_file=shop.token_file(first), cache_seconds=0))
        assert vault.read(ADMIN)
        shop.root.auth.token.revoke(first)
        shop.token_file()
        assert vault.read(ADMIN) == "s3cret of shop"

    def test_a_revoked_token_is_refused_and_what_was_kept_is_forgotten(
        self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token = shop.token()
        vault = Vault(shop.settings(token_file=shop.token_file(token)))
        assert vault.read(ADMIN)
        shop.root.auth.token.revoke(token)
        aged(vault, monkeypatch, 301)
        assert code_of(vault) == "vault.login"
        aged(vault, monkeypatch, 310)
        shop.hang()
        assert code_of(vault) == "vault.unreachable", "nothing is kept of it"

    @pytest.mark.parametrize("content", ["s3cret-no-token", None])
    def test_a_wrong_token_or_none(self, shop: OpenBao, content: str | None, tmp_path: Path) -> None:
        file = tmp_path / "token"
        if content:
            file.touch(0o600)
            file.write_text(content)
        assert code_of(Vault(shop.settings(token_file=str(file)))) == "vault.login"

    def test_a_token_file_that_others_can_read(self, shop: OpenBao) -> None:
        file = Path(shop.token_file())
        file.chmod(0o644)
        assert code_of(Vault(shop.settings(token_file=str(file)))) == "vault.login"

    def test_a_wrong_mount_of_the_login_is_told_of_the_login(self, shop: OpenBao) -> None:
        role, file = shop.approle()
        for values in ({"auth_mount": "elsewhere"}, {"namespace": "nowhere"}):
            assert code_of(Vault(shop.settings(role_id=role, secret_id_file=file, **values))) == "vault.login"

    def test_a_wrong_secret_id(self, shop: OpenBao) -> None:
        role, file = shop.approle()
        Path(file).write_text("s3cret-wrong")
        assert code_of(Vault(shop.settings(role_id=role, secret_id_file=file))) == "vault.login"

    def test_a_service_account_of_kubernetes(self, shop: OpenBao, cluster: Reviewer, tmp_path: Path) -> None:
        root = shop.root
        if "kubernetes/" not in root.sys.list_auth_methods()["data"]:
            root.sys.enable_auth_method("kubernetes")
        root.auth.kubernetes.configure(
            cluster.address,
            kubernetes_ca_cert=cluster.ca,
            token_reviewer_jwt=jwt("reviewer"),
            disable_local_ca_jwt=True,
        )
        root.auth.kubernetes.create_role("dbops", ["dbops"], ["db"], policies=["dbops"])
        (tmp_path / "token").write_text(jwt("dbops"))
        values = {"kubernetes_role": "dbops", "kubernetes_token_file": str(tmp_path / "token")}
        assert Vault(shop.settings(**values)).read(ADMIN) == "s3cret of shop"
        cluster.refuses = True
        assert code_of(Vault(shop.settings(**values))) == "vault.login"


class TestPaths:
    def test_version_1_of_kv(self, shop: OpenBao) -> None:
        shop.root.secrets.kv.v1.create_or_update_secret("dbops/one", secret={"admin": "old"}, mount_point="kv1")
        assert Vault(shop.settings(mount="kv1", kv_version=1)).read(VaultPath("one#admin")) == "old"

    def test_a_namespace(self, shop: OpenBao) -> None:
        root = shop.root
        root._adapter.put("/v1/sys/namespaces/team", json={})
        inside = hvac.Client(url=shop.address, token=root.token, verify=str(shop.ca_file), namespace="team")
        inside.session.trust_env = False
        inside.sys.enable_secrets_engine("kv", path="secret", options={"version": "2"})
        until(
            lambda: shop.works(
                lambda: inside.secrets.kv.v2.create_or_update_secret("dbops/clusters/shop", {"admin": "of team"})
            )
        )
        inside.sys.create_or_update_policy("dbops", POLICY)
        token = inside.auth.token.create(policies=["dbops"])["auth"]["client_token"]
        assert Vault(shop.settings(namespace="team", token_file=shop.token_file(token))).read(ADMIN) == "of team"
        assert code_of(Vault(shop.settings(token_file=shop.token_file(token)))) == "vault.denied"

    @pytest.mark.parametrize(
        ("path", "code"),
        [
            ("clusters/bank#admin", "vault.missing"),
            ("clusters/shop#backup", "vault.missing"),
            ("clusters/shop#number", "vault.bad_value"),
            ("clusters/shop#empty", "vault.bad_value"),
        ],
    )
    def test_what_is_not_there(self, shop: OpenBao, path: str, code: str) -> None:
        assert code_of(Vault(shop.settings()), VaultPath(path)) == code

    def test_a_deleted_version_is_missing(self, shop: OpenBao) -> None:
        shop.write("clusters/gone", admin="s3cret")
        shop.root.secrets.kv.v2.delete_latest_version_of_secret(f"{'dbops'}/clusters/gone", mount_point="secret")
        assert code_of(Vault(shop.settings()), VaultPath("clusters/gone#admin")) == "vault.missing"

    def test_the_policy_refuses_what_is_beside_the_prefix(self, shop: OpenBao) -> None:
        shop.root.secrets.kv.v2.create_or_update_secret("other/x", secret={"admin": "s3cret"}, mount_point="secret")
        assert code_of(Vault(shop.settings(prefix="other")), VaultPath("x#admin")) == "vault.denied"

    def test_a_refused_path_brings_no_new_login_each_time(self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch) -> None:
        role, file = shop.approle()
        vault = Vault(shop.settings(role_id=role, secret_id_file=file, prefix="other"))
        logins: list[object] = []
        log_in = vault._login._log_in
        monkeypatch.setattr(vault._login, "_log_in", lambda: logins.append(None) or log_in())
        for number in range(3):
            aged(vault, monkeypatch, number * 10)
            assert code_of(vault) == "vault.denied"
        assert len(logins) == 1

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "",
                "clusters/shop",
                "#admin",
                "../other/x#admin",
                "clusters/../../other/x#admin",
                "./x#a",
                "/x#a",
                "x//y#a",
            ),
            *(
                "x/#a",
                "x#",
                "x#a#b",
                "x#a b",
                "x?version=1#a",
                "x%2e%2e/y#a",
                "x\n#a",
                "x#a\n",
                "x" * 300 + "#a",
                "ü#a",
            ),
        ],
    )
    def test_no_path_leaves_the_prefix(self, text: str) -> None:
        with pytest.raises(ValueError, match="DBOPS_VAULT_PREFIX"):
            VaultPath.parse(text)

    def test_a_path_and_its_parts(self) -> None:
        path = VaultPath.parse("clusters/shop-1#id_ed25519")
        assert (path.path, path.field) == ("clusters/shop-1", "id_ed25519")
        assert (VaultPath.of_column(path.column), VaultPath.of_column("gAAAAAB")) == (path, None)


class TestOutages:
    def test_a_kept_secret_is_used_without_asking(self, shop: OpenBao) -> None:
        vault = Vault(shop.settings())
        assert vault.read(ADMIN) == "s3cret of shop"
        shop.write("clusters/shop", admin="changed")
        assert (vault.read(ADMIN), vault.read(ADMIN, is_fresh=True)) == ("s3cret of shop", "changed")
        shop.stop()
        assert vault.read(ADMIN) == "changed"

    @pytest.mark.parametrize(
        ("outage", "code"), [("seal", "vault.sealed"), ("hang", "vault.unreachable"), ("stop", "vault.unreachable")]
    )
    def test_a_rebuild_s_secrets_survive_an_outage_and_no_longer(
        self, shop: OpenBao, outage: str, code: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vault, cold = Vault(shop.settings()), Vault(shop.settings())
        assert vault.read(ADMIN) == "s3cret of shop"
        getattr(shop, outage)()
        assert code_of(cold) == code, "a process without it"
        aged(vault, monkeypatch, 3500)
        assert vault.read(ADMIN) == "s3cret of shop"
        assert code_of(vault, is_fresh=True) == code, "a test is no use of what is kept"
        aged(vault, monkeypatch, 101)
        assert code_of(vault) == code

    def test_vault_that_is_back_is_asked_again(self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch) -> None:
        vault = Vault(shop.settings())
        shop.seal()
        assert code_of(vault) == "vault.sealed"
        shop.unseal()
        assert code_of(vault) == "vault.sealed", "it rests"
        aged(vault, monkeypatch, module.REST_SECONDS)
        assert vault.read(ADMIN) == "s3cret of shop"

    def test_a_silent_vault_costs_one_timeout_not_one_a_secret(self, shop: OpenBao) -> None:
        vault = Vault(shop.settings(timeout_seconds=1))
        shop.hang()
        began = time.monotonic()
        codes = {code_of(vault, VaultPath(f"clusters/c{number}#admin")) for number in range(20)}
        assert (codes, time.monotonic() - began < 4) == ({"vault.unreachable"}, True)

    def test_a_secret_that_was_deleted_is_not_used_from_memory(
        self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        vault, gone = Vault(shop.settings()), VaultPath("clusters/left#admin")
        shop.write("clusters/left", admin="s3cret")
        assert vault.read(gone)
        shop.root.secrets.kv.v2.delete_metadata_and_all_versions("dbops/clusters/left", mount_point="secret")
        aged(vault, monkeypatch, 301)
        assert code_of(vault, gone) == "vault.missing"
        shop.stop()
        aged(vault, monkeypatch, 310)
        assert code_of(vault, gone) == "vault.unreachable"

    def test_errors_say_who_must_act(self, shop: OpenBao) -> None:
        with pytest.raises(NoAccess):
            Vault(shop.settings()).read(VaultPath("nothing/here#x"))
        given = shop.settings()
        shop.stop()
        with pytest.raises(Unreachable) as found:
            Vault(given).read(ADMIN)
        assert (found.value.who, isinstance(found.value, NoAccess)) == ("host", False)


class TestConnection:
    def test_the_certificate_is_always_verified(self, shop: OpenBao, tmp_path: Path) -> None:
        make_certificates(tmp_path)
        other = replace(shop.settings(), ca_file=str(tmp_path / "ca.pem"))
        none = replace(shop.settings(), ca_file="")
        assert (code_of(Vault(other)), code_of(Vault(none))) == ("vault.certificate", "vault.certificate")

    def test_the_environment_changes_nothing(self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "VAULT_TOKEN": "s3cret-of-somebody",
            "VAULT_ADDR": "https://127.0.0.1:1",
            "VAULT_NAMESPACE": "elsewhere",
            "HTTPS_PROXY": "http://127.0.0.1:1",
            "REQUESTS_CA_BUNDLE": "/nowhere",
        }.items():
            monkeypatch.setenv(name, value)
        assert Vault(shop.settings()).read(ADMIN) == "s3cret of shop"

    def test_what_is_kept_is_never_shown(self, shop: OpenBao) -> None:
        vault = Vault(shop.settings())
        vault.read(ADMIN)
        assert "s3cret" not in repr(vars(vault))
        with pytest.raises(TypeError):
            pickle.dumps(vault)

    def test_a_child_process_has_its_own(self, shop: OpenBao, settings: Any) -> None:
        settings.VAULT = shop.settings()
        ours = module.vault()
        assert ours.read(ADMIN)
        assert module.vault() is ours
        reading, writing = os.pipe()
        if not (child := os.fork()):
            theirs = module.vault()
            os.write(writing, str(int(theirs is not ours and theirs.read(ADMIN) == "s3cret of shop")).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 1) == b"1"
        assert ours.read(ADMIN, is_fresh=True) == "s3cret of shop"

    def test_processes_without_a_vault_do_not_load_the_client(self) -> None:
        code = "import sys, django; django.setup(); import dbops.models.secret; sys.exit('hvac' in sys.modules)"
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "dbops.settings", "DBOPS_VAULT_ADDRESS": ""}
        assert subprocess.run([sys.executable, "-c", code], env=env, timeout=60, check=False).returncode == 0

    def test_threads_ask_once(self, shop: OpenBao, monkeypatch: pytest.MonkeyPatch) -> None:
        vault, asked = Vault(shop.settings()), []
        ask = vault._ask
        monkeypatch.setattr(vault, "_ask", lambda path, **options: asked.append(path) or ask(path, **options))
        threads = [threading.Thread(target=vault.read, args=(ADMIN,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert asked == ["clusters/shop"]

    def test_without_settings(self, settings: Any) -> None:
        settings.VAULT = VaultSettings()
        with pytest.raises(NoAccess) as found:
            module.vault()
        assert found.value.code == "vault.off"


class TestSettings:
    @pytest.mark.parametrize("address", ["https://:s3cret@vault:8200", "https://vault:port"])
    def test_an_address_has_a_port_and_no_password(self, address: str) -> None:
        with pytest.raises(ValueError, match="DBOPS_VAULT_ADDRESS") as found:
            read_vault({"DBOPS_VAULT_ADDRESS": address, "DBOPS_VAULT_TOKEN_FILE": "/x"})
        assert "s3cret" not in str(found.value)

    GOOD = {"DBOPS_VAULT_ADDRESS": "https://vault.example:8200", "DBOPS_VAULT_TOKEN_FILE": "/run/token"}

    def test_none(self) -> None:
        assert not read_vault({})

    def test_values(self) -> None:
        found = read_vault({**self.GOOD, "DBOPS_VAULT_CACHE_SECONDS": "60", "DBOPS_VAULT_PREFIX": "a/b"})
        assert (found.login, found.cache_seconds, found.prefix, found.kv_version) == ("token", 60, "a/b", 2)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"DBOPS_VAULT_ADDRESS": "http://vault.example"},
            {"DBOPS_VAULT_ADDRESS": "https://user@vault.example"},
            {"DBOPS_VAULT_TOKEN_FILE": ""},
            {"DBOPS_VAULT_ROLE_ID": "x"},
            {"DBOPS_VAULT_ROLE_ID": "x", "DBOPS_VAULT_SECRET_ID_FILE": "/y"},
            {"DBOPS_VAULT_PREFIX": "../x"},
            {"DBOPS_VAULT_PREFIX": "/"},
            {"DBOPS_VAULT_KV_VERSION": "3"},
            {"DBOPS_VAULT_CACHE_SECONDS": "five"},
            {"DBOPS_VAULT_TIMEOUT_SECONDS": "0"},
            {"DBOPS_VAULT_CA_FILE": "/no/such.pem"},
        ],
    )
    def test_wrong_ones(self, wrong: dict[str, str]) -> None:
        with pytest.raises(ValueError, match="DBOPS_VAULT_"):
            read_vault({**self.GOOD, **wrong})
