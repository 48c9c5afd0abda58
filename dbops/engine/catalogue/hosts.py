"""Errors of SSH, servers and jobs on a host."""

from dbops.engine.catalogue.entries import NOT_RUN, NOT_SENT, REPORT, UNCHANGED, CatalogueSection, host, operator, ours

_OUTCOME = "The outcome shows the current state."
_RUNNING = "The command may still be running on the host."

_KEPT = "The password was not sent."

_SSH = (
    host(
        "ssh.unreachable",
        "The SSH connection failed.",
        "The state of the host is unknown. Jobs on the host may still be running.",
        "dbops tries again. Check that the host is up, sshd is running, the port in the inventory is correct, "
        "and the firewall allows the dashboard.",
    ),
    host(
        "ssh.timeout",
        "The host did not answer the command in time.",
        _RUNNING,
        "dbops tries again. If the error persists, check the host's load, file systems and network.",
    ),
    host(
        "ssh.lost",
        "The SSH connection ended before the answer was complete.",
        _RUNNING,
        "dbops tries again. If the error persists, check the network and the host's sshd.",
    ),
    host(
        "ssh.jump_unreachable",
        "The connection to a jump host failed.",
        "The state of the hosts behind the jump host is unknown. Jobs on them are still running.",
        "dbops tries again. Check that the named jump host is up and its sshd is running. Its firewall must allow the dashboard "
        "or the jump host before it. To use another jump host, change the address in its row of the inventory.",
    ),
    operator(
        "ssh.jump_refused",
        "A jump host does not forward connections.",
        NOT_SENT,
        "Allow it in the jump host's sshd: `AllowTcpForwarding local`, and in `PermitOpen`, if it is set, the SSH and MySQL ports of the "
        "hosts. A key in `authorized_keys` with `restrict` also needs `port-forwarding`.",
    ),
    operator(
        "ssh.host_key_unknown",
        "You have not accepted a host key for this host.",
        NOT_SENT,
        "Compare the fingerprint on the host's console (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`). "
        "Then accept the key on the host's page.",
    ),
    operator(
        "ssh.host_key_changed",
        "The host's key differs from the accepted key.",
        NOT_SENT,
        "Find out why before you accept the new key: a new installation, a wrong address, or an attack.",
    ),
    operator(
        "ssh.bad_host_key",
        "The pinned host key is invalid.",
        UNCHANGED,
        "Read the key from the host again on its page and accept it.",
    ),
    operator(
        "ssh.auth_failed",
        "The host rejects the dashboard's SSH key for this user.",
        NOT_RUN,
        "Add the public key to the user's `authorized_keys`, or correct the user. "
        "Check `AllowUsers` and `PermitRootLogin` in sshd.",
    ),
    operator(
        "ssh.sudo_refused",
        "The SSH user can't run commands as root without a password.",
        NOT_RUN,
        "Install what `manage.py host gate NAME` and `manage.py host sudoers NAME` print. Or log in as root and disable `sudo` "
        "in the inventory.",
    ),
    operator(
        "ssh.gate_refused",
        "The gate on the host refuses the dashboard's command.",
        NOT_RUN,
        "Install what `manage.py host gate NAME` prints now, and `openssl` on the host.",
    ),
    operator(
        "ssh.gate_needless",
        "Root needs no gate and no sudoers file.",
        UNCHANGED,
        "Set the host's SSH user to an account for dbops, or disable `sudo` in the inventory.",
    ),
    operator(
        "ssh.key_file",
        "The private key file on the dashboard's machine can't be read.",
        UNCHANGED,
        "Correct the path in the inventory, or allow the dashboard's user to read the file.",
    ),
    operator(
        "ssh.bad_certificate",
        "The SSH certificate beside the key file can't be used.",
        NOT_SENT,
        "Issue a certificate of a user for this key, as `KEY_FILE-cert.pub`, or remove the file.",
    ),
    operator(
        "ssh.certificate_expired",
        "The SSH certificate is not valid at this time.",
        NOT_SENT,
        "Issue a new certificate, or repair what renews it. dbops reads the file again for each connection.",
    ),
    operator(
        "ssh.host_certificate",
        "The host's certificate proves nothing: another CA, another name, another time, or another kind of certificate.",
        "No key was accepted.",
        "Issue a new host certificate, or add its CA to the file of `DBOPS_SSH_HOST_CA_FILE`. Or compare the key on the host.",
    ),
    operator(
        "ssh.host_not_proven",
        "The host has no certificate that proves it: none, an expired one, one of another CA or name, or one with a revoked key.",
        "Nothing was sent to the host. Jobs that run there continue. The pinned key was not tried instead.",
        "Find out whether another machine answers at this address. Else issue a new host certificate and reload sshd. Or correct the "
        "certificate name on the host's page or the file of `DBOPS_SSH_HOST_CA_FILE`. See ssh-certificates.md.",
    ),
    operator(
        "ssh.host_ca_file",
        "The file with the CAs of host certificates can't be read.",
        "No key was accepted, and nothing was sent to hosts with a certificate name.",
        "Set `DBOPS_SSH_HOST_CA_FILE` for every process of dbops, or correct the file. It has one public key a line.",
    ),
    operator(
        "ssh.bad_key",
        "The private key can't be used: it has a passphrase, or is not Ed25519, ECDSA or RSA.",
        UNCHANGED,
        "Use an OpenSSH private key without a passphrase.",
    ),
    operator(
        "ssh.nul_byte", "A name or path contains a NUL byte.", NOT_RUN, "Correct the name or path in the inventory."
    ),
    ours("ssh.command_too_long", "A command is longer than an argument may be.", NOT_RUN, REPORT),
)

_SERVERS = (
    host(
        "mysql.access_denied",
        "The server rejects the dashboard's account.",
        UNCHANGED,
        "Correct the account in the inventory, or its password and host part on the server. See accounts.md.",
    ),
    host(
        "mysql.login_method",
        "The server asks for a login method that would reveal the password.",
        _KEPT,
        "Check what listens at this address. If it is your server, give the account another method. See accounts.md.",
    ),
    host(
        "mysql.unproven",
        "The server asks for the whole password, but it isn't proven to be the server on that host.",
        _KEPT,
        "Check what listens at this address. If it is your server, restart it after a change of its certificate, or set "
        "`ssl_cert` in its option file. See accounts.md.",
    ),
    host(
        "mysql.certificate",
        "The server's certificate isn't signed by the cluster's CA, isn't for this address, or the server offers no TLS.",
        _KEPT,
        "Check what listens at this address. If it is your server, correct its certificate or the CA of the cluster. See accounts.md.",
    ),
    host(
        "mysql.unreachable",
        "The server doesn't answer, or the connection was lost.",
        "It is unknown whether the last statement took effect. A rebuild checks this before it repeats a statement.",
        "Check that the server is running and that the dashboard can reach its port.",
    ),
    host(
        "mysql.error",
        "The server rejected a statement.",
        "The server did not complete the statement.",
        "Fix what the server's error names and try again. See accounts.md for missing privileges.",
    ),
    host(
        "mysql.not_text",
        "An account's name or password, or a statement, contains a character that no server accepts.",
        NOT_SENT,
        "Enter the account's name and password again.",
    ),
    operator(
        "flavor.unknown",
        "The version is neither MySQL nor MariaDB.",
        UNCHANGED,
        "Check `SELECT @@version, @@version_comment`, and correct a version that was set manually.",
    ),
    operator(
        "flavor.unsupported",
        "The server is older than MariaDB 10.3 or MySQL 5.7.",
        UNCHANGED,
        "Rebuild this server manually.",
    ),
    operator(
        "flavor.tidb",
        "The server is a TiDB node. TiDB replicates its data itself, and has no data directory that dbops could copy.",
        UNCHANGED,
        "Give the instance the role `tidb`. Replace its nodes with TiUP or TiDB Operator, and back it up with BR. See tidb.md.",
    ),
    operator(
        "flavor.not_tidb",
        "The instance has the role `tidb`, but its server is not TiDB.",
        UNCHANGED,
        "Correct the role, or the address and port.",
    ),
    host(
        "gtid.unreadable",
        "A GTID position has an unknown format.",
        UNCHANGED,
        "Read the position on the server. If the server shows the same text, please report it.",
    ),
    operator(
        "credentials.shared",
        "An account with the password of the whole cluster can't log in on a host of MySQL.",
        _KEPT,
        "Use `auth_socket` for this account, or give the instance an account of its own. See accounts.md.",
    ),
    operator(
        "credentials.unwritable",
        "A name or password contains a line break or is too long for an option file.",
        UNCHANGED,
        "Give the account a shorter name or password without line breaks.",
    ),
)

_JOBS = (
    operator(
        "host.refused",
        "The final check on the host failed: something differs from the plan.",
        UNCHANGED,
        "Check the host. Then wait for the next probe and plan again.",
    ),
    operator(
        "host.fenced",
        "Another worker has taken over this instance.",
        "Nothing was changed. The other worker continues.",
        "If this happens often, check that no second dashboard uses this host.",
    ),
    operator(
        "host.other_dashboard",
        "Another dashboard works on this instance.",
        "Nothing was changed. The other dashboard's job continues.",
        "Wait until that job has ended. Manage each instance from one dashboard only.",
    ),
    host(
        "host.guarded",
        "Another command for this instance is still running on the host.",
        UNCHANGED,
        "dbops tries again. If the error persists, check the host for a hung command.",
    ),
    host(
        "host.busy",
        "Another dbops job has locked this instance on the host.",
        "Nothing was changed. The other job continues.",
        "Wait for the other job to end, or stop it. `fuser` shows which process holds a lock in "
        "`WORK_DIR/instances/NAME/`.",
    ),
    host("host.tool_missing", "The host lacks a required program.", UNCHANGED, "Install the program on the host."),
    host(
        "host.start_failed",
        "The job could not start on the host.",
        UNCHANGED,
        "Check free space, permissions of the work directory and process limits on the host. Then try again.",
    ),
    operator(
        "host.work_directory",
        "Another account can write in the work directory on the host, or exchange it.",
        UNCHANGED,
        "Give the named directory to dbops's SSH account, without write permission for others. Or set another `work_dir`.",
    ),
    host(
        "host.fence_damaged",
        "The file with the instance's fencing number is damaged.",
        UNCHANGED,
        "Check the file. Remove it when no rebuild of this instance is running.",
    ),
    host(
        "host.vanished",
        "The job ended without an exit status: it was killed, or the host restarted.",
        _OUTCOME,
        "Check the host's system log for the OOM killer or a restart. Then rebuild again.",
    ),
    host(
        "host.journal_ahead",
        "The host's journal has jobs of this rebuild that the database does not know: an older copy of it was put back.",
        "The target was stopped and its data moved before. dbops ended the jobs that it found. " + _OUTCOME,
        "Roll back, or rebuild again.",
    ),
    host(
        "host.stalled",
        "The job made no progress: no data and no log line until the timeout.",
        "dbops stopped the job. " + _OUTCOME,
        "Check both hosts for a hung disk, process, or network. Timeouts: `DBOPS_STALL_*`.",
    ),
    host(
        "host.not_ended",
        "The processes of a job did not exit after SIGKILL.",
        "They may still run and write. Both instances stay held.",
        "Check the host's disks and network file systems. dbops asks again until the processes are gone.",
    ),
    host(
        "host.job",
        "A job on the host failed. The message shows its last line, and the server's own last errors if a start failed.",
        _OUTCOME,
        "Fix the problem on the host. After a failed start the copy is complete: resume. Otherwise rebuild again.",
    ),
    host(
        "host.script",
        "A command on the host failed. The message shows its output.",
        "The command may have taken effect in part.",
        "Fix what the output names, then try again.",
    ),
    host(
        "host.probe_failed",
        "The script that reads the host's data failed.",
        UNCHANGED,
        "Log in as the SSH user and run `sh -c true`. Check shell start-up files that end the session.",
    ),
    host(
        "host.unexpected_answer",
        "The host's answer has an unknown format.",
        _RUNNING,
        "Check the SSH user's login shell and start-up files, and the work directory's file system.",
    ),
    ours(
        "probe.fault",
        "dbops could not read an instance because of a fault in dbops.",
        UNCHANGED,
        "Please report this error with the worker's log.",
    ),
    ours("host.bad_request", "dbops used an invalid name or path.", UNCHANGED, REPORT),
)

SECTIONS = (
    CatalogueSection(
        "SSH from the dashboard",
        _SSH,
        "Before a rebuild changes the target, a host that doesn't answer ends the rebuild. Afterwards jobs continue on the hosts\n"
        "and dbops tries again. After `DBOPS_LOST_AFTER_SECONDS` the rebuild is `lost`. It continues when the host answers.",
    ),
    CatalogueSection("Servers", _SERVERS),
    CatalogueSection("Jobs on a host", _JOBS),
)
