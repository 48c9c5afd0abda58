"""Errors of the dashboard itself: accounts, tokens, reports, audit archive, connection tests, its processes, the sample."""

from dbops.engine.catalogue.entries import NOT_SENT, NOT_WRITTEN, SAY_WHY, UNCHANGED, CatalogueSection, host, operator

KEPT_TO_SEND = "The entries stay in the log and wait."

_ACCOUNTS = (
    operator(
        "access.denied",
        "Your account may not do this.",
        UNCHANGED,
        "Ask a superuser to give you the required role or to activate your account.",
    ),
    operator(
        "account.invalid",
        "The username, group, or password isn't valid. The message lists each problem.",
        "The account was not changed.",
        "Correct it and try again. A password needs at least 12 characters and must not be a common one.",
    ),
    operator(
        "account.exists",
        "An account with this name already exists.",
        "The existing account was not changed.",
        "Choose another name, or edit the existing account.",
    ),
    operator(
        "account.stale",
        "Another user changed this account after you opened the page.",
        "Your change was not saved.",
        "Reload the page and try again.",
    ),
    operator(
        "account.self",
        "You can't deactivate your own account or remove your own superuser role.",
        "The account was not changed.",
        "Ask another superuser to do it.",
    ),
    operator(
        "account.last_superuser",
        "This is the last active superuser.",
        "The account was not changed.",
        "Make another account a superuser first. `manage.py account create` on the dashboard's machine always works.",
    ),
)

_LOGINS = (
    operator(
        "login.local_off",
        "Local logins are turned off. Only the recovery account can log in without the provider.",
        "You are not logged in.",
        "Log in with the provider. If it is unreachable, the owner of the recovery account can log in.",
    ),
    operator(
        "login.inactive",
        "The account is deactivated.",
        "You are not logged in.",
        "Ask a superuser to reactivate it.",
    ),
    operator(
        "login.stale",
        "The password or the second factors changed during this login.",
        "You are not logged in.",
        "Log in again.",
    ),
    operator(
        "login.no_group",
        "The provider names no group that has access.",
        "You are not logged in. The account keeps its audit entries and has no group.",
        "Ask the provider's administrator for a group of `DBOPS_OIDC_GROUPS`, then log in again.",
    ),
    operator(
        "login.name_taken",
        "A local account already has the name that the provider sent.",
        "You are not logged in. The existing account was not changed.",
        "If both are the same person, run `manage.py account link NAME SUBJECT`. Else rename one of them at the provider.",
    ),
    operator(
        "login.claims",
        "The provider sent a name, subject or groups that dbops can't use.",
        "You are not logged in.",
        "Ask the provider's administrator to correct the claims. sign-in.md lists the rules.",
    ),
    operator(
        "login.cancelled",
        "The login was cancelled at the provider, or the provider refused it.",
        "You are not logged in.",
        "Log in again, or ask the provider's administrator.",
    ),
    operator(
        "login.expired",
        "This answer of the provider belongs to no login of this browser, or it is older than ten minutes.",
        "You are not logged in.",
        "Log in again in one tab. The browser must accept cookies.",
    ),
    operator(
        "login.too_many",
        "Too many logins were begun from this address.",
        "You are not logged in.",
        "Wait 15 minutes. Behind a proxy, name it in `FORWARDED_ALLOW_IPS`: otherwise all people share its address.",
    ),
    host(
        "login.provider",
        "The provider did not answer, or its answer is invalid.",
        "You are not logged in. Sessions that exist continue.",
        "Try again later. In the meantime, local accounts can log in; with `DBOPS_RECOVERY_ACCOUNT`, that one alone. The web process's "
        "log has the cause.",
    ),
)

_TOKENS = (
    operator(
        "token.invalid",
        "The token can't be created: its name is invalid or in use, its expiry is out of range, or a reporting token has no cluster.",
        UNCHANGED,
        "Correct it and try again. A revoked token keeps its name.",
    ),
    operator("token.not_found", "No token has this name.", UNCHANGED, "Run `manage.py token list` to see all tokens."),
    operator(
        "token.unknown",
        "HTTP 401. The request has no valid token: missing, unknown, revoked, expired, for another purpose, or of an inactive account.",
        NOT_WRITTEN,
        "Send the header `Authorization: Bearer TOKEN`. `manage.py token list` shows all tokens.",
    ),
    operator(
        "report.invalid",
        "HTTP 400. A field of the report is invalid. The answer names the field.",
        NOT_WRITTEN,
        "Correct the field. See backup-reports.md.",
    ),
    operator(
        "report.unknown_instance",
        "HTTP 404. The token's cluster has no instance or schedule with this name.",
        NOT_WRITTEN,
        "Use the name that the dashboard shows, or a token of that instance's cluster.",
    ),
    operator(
        "report.key_taken",
        "HTTP 409. A run of another instance already has this key.",
        NOT_WRITTEN,
        "Choose a new key for each run, for example a UUID.",
    ),
    operator(
        "report.too_large",
        "HTTP 413. The request body is too large. The limit is 16 KiB.",
        NOT_WRITTEN,
        "Send only the fields described in backup-reports.md.",
    ),
    operator(
        "report.too_many",
        "HTTP 429. This token sent too many requests (300 per minute), or its address sent too many wrong tokens (100 in 15 minutes).",
        NOT_WRITTEN,
        "Wait a minute. Send one heartbeat per minute for each backup, and give each host its own token.",
    ),
    operator(
        "report.wrong_method",
        "HTTP 405. This address does not accept this HTTP method.",
        NOT_WRITTEN,
        "Send reports with POST, and ask whether a backup may start with GET. See backup-reports.md.",
    ),
)

_AUDIT = (
    operator(
        "audit.too_recent",
        "The date is less than 90 days ago.",
        "All entries are still in the database.",
        "Choose an earlier date.",
    ),
    operator(
        "audit.nothing_to_archive",
        "No entry is older than the date, or another process archived these entries.",
        "All entries are still in the database.",
        "No action is needed.",
    ),
    operator(
        "audit.not_as_written",
        "Entries were changed or removed. Archiving would hide this.",
        "All entries are still in the database. No file was written.",
        "Change nothing, and run `manage.py audit verify`.",
    ),
    operator(
        "audit.file",
        "The archive file could not be written, or its content is wrong.",
        "All entries are still in the database.",
        "Check that the folder exists, has free space and is writable for dbops. Then run the command again.",
    ),
    operator(
        "audit.sink_invalid",
        "The sink's name, address, CA or token isn't valid, or the name is in use.",
        UNCHANGED,
        "Correct it and try again. To change a sink, remove it and add it again.",
    ),
    operator(
        "audit.sink_not_found", "No sink has this name.", UNCHANGED, "Run `manage.py audit sink list` to see all sinks."
    ),
    host(
        "audit.sink_unreachable",
        "The receiver can't be reached, ended the connection, or did not take the entries in time.",
        KEPT_TO_SEND,
        "Check that the receiver runs, the address is correct, and the firewall allows every worker. dbops retries.",
    ),
    host(
        "audit.sink_certificate",
        "The receiver's certificate is not valid for this address, or its authority is not trusted.",
        KEPT_TO_SEND,
        "Correct the certificate, or remove the sink and add it again with the right CA. dbops retries.",
    ),
    host(
        "audit.sink_rejected",
        "The receiver answered with a status other than 2xx.",
        KEPT_TO_SEND,
        "Check address and token, and the receiver's log. A redirect is not followed. dbops retries.",
    ),
)

_TESTS = (
    operator(
        "test.busy",
        "A rebuild, a backup, or another stream test uses one of the two hosts.",
        NOT_SENT,
        "Wait until it has ended, then test again.",
    ),
    operator(
        "test.same_host", "Source and target of the stream test are the same host.", NOT_SENT, "Choose two hosts."
    ),
    operator(
        "test.no_facts",
        "No probe has read this host, so its ciphers are unknown.",
        NOT_SENT,
        "Test SSH, and wait for the next probe. dbops probes a host once it has an instance in the inventory.",
    ),
    host(
        "test.host_unfit",
        "SSH works, but the host lacks a program or a writable file. The message names it.",
        "SSH works. Nothing was changed.",
        "Fix this on the host or in the inventory, then test again.",
    ),
    host(
        "test.account",
        "An account lacks a privilege or could not be tested. The message shows the server's error.",
        UNCHANGED,
        "Grant the missing privileges (see accounts.md) or correct the account in the inventory. Then test again.",
    ),
    operator(
        "test.secret",
        "A stored password or private key can't be decrypted with the current keys.",
        NOT_SENT,
        "Open Admin > Credentials to see which. Add the key that encrypted it to `DBOPS_ENCRYPTION_KEY`.",
    ),
    host(
        "test.no_stream",
        "The stream test received no data, or its end is unknown.",
        "Nothing was changed. The test's key is removed again.",
        "Check that the target's host can reach SSH on the source's host: stream address, firewalls and ciphers.",
    ),
    host(
        "test.unknown",
        "The result is unknown: the worker was stopped, or no worker started the test in time.",
        "Servers and data were not changed. The key of a stream test is removed within two minutes.",
        "Test again. If it fails again, check that a worker is running.",
    ),
)

_PROCESSES = (
    host(
        "worker.away",
        "No worker has started a task for 40 seconds, or for a minute on a new installation.",
        "Jobs on hosts continue. Nothing new starts, cancellations wait, and instance data becomes stale.",
        "Start a worker (`script/run worker`) or check its log. It continues running rebuilds automatically.",
    ),
    host(
        "beat.away",
        "Beat has not ticked for 40 seconds.",
        "Jobs on hosts continue. Due backups, probes and queued rebuilds start late or not at all.",
        "Start beat (`script/run beat`) or check its log. dbops catches up on missed runs automatically.",
    ),
    host(
        "redis.away",
        "Redis does not answer the web process.",
        "Jobs on hosts continue, but workers get no tasks. Live pages refresh every few seconds instead.",
        "Start Redis (`script/run redis`) or check its log. No data is lost, and work continues automatically.",
    ),
    host(
        "redis.refuses",
        "Redis answers the web process and refuses to write: it is a read-only replica, or its memory is full.",
        "Jobs on hosts continue, but workers get no tasks. Live pages refresh every few seconds instead.",
        "Make it the primary, or point `DBOPS_REDIS_URL` to the primary or its Sentinels. Give it more memory if it is full. "
        "No data is lost, and work continues automatically.",
    ),
    host(
        "clock.stepped",
        "The clock was set back, and facts from before have times in the future.",
        "Their age is unknown, so no plan is based on them. Every instance is probed again now.",
        "Wait a few seconds. If this repeats, check the time service of the machine of the dashboard's database.",
    ),
)

_SAMPLE = (
    operator(
        "sample.read_only",
        "This is the sample (`DBOPS_SAMPLE=1`). Its history is generated and its servers don't exist.",
        UNCHANGED,
        "Use the real dashboard. In the sample you can view, filter and export everything.",
    ),
    operator(
        "sample.wrong_database",
        "Sample mode is on with a real database, or off with the sample's database.",
        "Nothing is shown, changed or connected to. Every address answers HTTP 503.",
        "Correct `DBOPS_DATABASE_URL`, `DBOPS_STATE_DIR` or `DBOPS_SAMPLE` for each process. Then start all processes again.",
    ),
)

_APPROVALS = (
    operator(
        "approval.own",
        "You can't approve or decline your own rebuild.",
        "The request stays pending.",
        "Ask another person. To withdraw the request, cancel it. The account of a command line counts as its user's.",
    ),
    operator(
        "approval.twice",
        "You have approved this rebuild. It needs the approval of more people, and each counts once.",
        UNCHANGED,
        "Ask another person. The account of a command line counts as its user's.",
    ),
    operator(
        "approval.not_waiting",
        "This rebuild doesn't wait for approval. Another user decided, or it has started, expired or been cancelled.",
        UNCHANGED,
        "Check the rebuild's page.",
    ),
    operator(
        "rebuild.ticket",
        "The change ticket is missing or doesn't match the pattern of the cluster.",
        UNCHANGED,
        "Enter the number of the change ticket.",
    ),
    operator("rebuild.reason", "The reason is missing, too short or too long.", UNCHANGED, SAY_WHY),
)

SECTIONS = (
    CatalogueSection("Accounts", _ACCOUNTS),
    CatalogueSection("Logins", _LOGINS),
    CatalogueSection("Approval and reasons", _APPROVALS),
    CatalogueSection(
        "Tokens and backup reports",
        _TOKENS,
        "The HTTP API answers with these codes in JSON. backup-reports.md describes the API.",
    ),
    CatalogueSection("Audit archive", _AUDIT),
    CatalogueSection("Connection tests", _TESTS),
    CatalogueSection(
        "Processes of dbops",
        _PROCESSES,
        "These errors appear as a bar at the top of every page, and disappear when the process is back. Jobs on hosts continue,\n"
        "but no next step starts. The guard on a source ends a copy that still reads the source after `DBOPS_GUARD_IDLE_SECONDS`\n"
        "without a worker. If replication was paused, it waits `DBOPS_GUARD_HEARTBEAT_SECONDS`.",
    ),
    CatalogueSection("Sample", _SAMPLE),
)
