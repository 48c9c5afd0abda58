"""Every page in a language of marks: what people read is inside of them, or it is a name, a value, or a stored text."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.utils.translation import trans_real

from tests.app.factories import STEPS
from tests.app.web.test_roles_of_urls import addresses, client_of, numbers

__all__ = ["numbers"]

BEGIN, END = "⟦", "⟧"
#: Not read by people, or in English in every language.
SKIPPED = ("script", "style", "code", "pre", "kbd", "svg", "time", "option", "textarea")
READ = ("aria-label", "title", "placeholder", "alt", "data-label", "data-title")
#: Names of the test's rows, what programs call themselves, and units.
KNOWN = re.compile(
    r"\b(?:dbops|English|shop|away|tests|tester|olga|maker|somebody|nightly|disks|the disk of the replica died|before the move"
    r"|MariaDB|mariadb-backup|mariadb|mbstream|bash|flock|setsid|setpriv|ssh-keygen|sshd|ssh|xbstream|clone|archive|dump|point-select"
    r"|GTID|SSH|UTC|JSON|CSV|IO Yes, SQL Yes|[KMGT]iB|threads|single sign-on|preferred_username|openid, profile|localhost"
    r"|testserver|BACKUP STAGE START|STATE_DIR"
    r"|Discord|Google Chat|Gotify|Mattermost|Microsoft Teams|Workflows|Opsgenie|PagerDuty|Rocket\.Chat|Slack|Telegram|Webex"
    r"|Zulip|ntfy)\b"
    # addresses, paths, numbers, hashes and names with one, codes
    r"|[\w-]+@[\w.:-]+|/[\w./-]+|\S*\d\S*|\(check\.\w+\)|load_test\.\w+"
)
#: Stored when something happened, and shown as it was; commands, values of settings, and names of details in audit entries.
STORED = re.compile(
    r"Requested by maker: before the move|log of a rebuild|evidence of rebuild \d+|done|10\.11\.19 on both"
    r"|8 GiB for 3 GiB of redo log: .+|GTID positions and InnoDB alone: .+|The data directory \S+ on \S+ is moved aside\."
    r"|/usr/bin/systemctl stop mariadb\.service; /usr/bin/systemctl start mariadb\.service"
    r"|root|secret|plain|yes|groups|fingerprint|generator host|path|plan sha256|pool bytes|profile|request sha256|rounds|warnings"
    r"|Buffer pool of \d+ MiB, as requested\.|Redo log of \d+ MiB; .+|" + "|".join(title for _, title in STEPS)
)
WORD = re.compile(r"[A-Za-z]{3,}")


class Texts(HTMLParser):
    """The texts of a page that people read or hear."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SKIPPED:
            self.skipped.append(tag)
        self.found += [value or "" for name, value in attrs if name in READ]

    def handle_endtag(self, tag: str) -> None:
        if self.skipped and self.skipped[-1] == tag:
            self.skipped.pop()

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            self.found.append(data)


def unmarked(html: str) -> Iterator[str]:
    """Yield what texts of a page have outside of all marks."""
    reader = Texts()
    reader.feed(html)
    depth = 0
    for text in reader.found:
        outside = ""
        for letter in text:
            depth += (letter == BEGIN) - (letter == END)
            outside += letter if depth == 0 and letter != END else " "
        if not STORED.fullmatch(" ".join(text.split())) and WORD.search(KNOWN.sub(" ", outside)):
            yield " ".join(text.split())


@pytest.fixture
def _marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mark the texts of the Japanese catalogue; a text that is not in it stays bare, as it would stay English."""
    known = trans_real.translation("ja")._catalog  # type: ignore[attr-defined]

    def one(_: Any, text: str) -> str:
        return f"{BEGIN}{text}{END}" if text in known else text

    def several(_: Any, text: str, more: str, number: int) -> str:
        return f"{BEGIN}{text if number == 1 else more}{END}" if (text, 0) in known else text

    monkeypatch.setattr(trans_real.DjangoTranslation, "gettext", one)
    monkeypatch.setattr(trans_real.DjangoTranslation, "ngettext", several)


@pytest.mark.usefixtures("_marks")
def test_pages_have_no_text_without_a_mark(numbers: dict[str, int]) -> None:  # noqa: F811
    client = client_of("superuser")
    found: dict[str, set[str]] = {}
    pages = 0
    for name, address in addresses(numbers).items():
        if name.startswith("api") or name in ("rebuild-events", "metrics"):
            continue
        answer = client.get(address)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            pages += 1
            for text in unmarked(answer.content.decode()):
                found.setdefault(text, set()).add(name)
    assert pages > 60
    assert found == {}


def test_text_outside_of_marks_is_found() -> None:
    assert list(unmarked(f"<p>{BEGIN}Marked{END} <b>left</b> <code>left</code> shop</p><i title='left out'></i>")) == [
        "left",
        "left out",
    ]
