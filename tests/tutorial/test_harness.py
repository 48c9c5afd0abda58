"""A lesson that does not work as it is written fails, whatever is wrong with it."""

import os
from pathlib import Path

import pytest

from .lessons import Lesson, steps_of

FENCE = "```"


def learn(folder: Path, text: str, **typed: str) -> Lesson:
    (folder / "page.md").write_text(text)

    class OfPage(Lesson):
        page = folder / "page.md"

        def wave(self) -> None:
            (self.checkout / "waved").touch()

    (folder / "checkout").mkdir()
    with OfPage(folder / "checkout", dict(os.environ)).reading() as lesson:
        lesson.typed |= typed
        lesson.learn()
    return lesson


def sh(commands: str) -> str:
    return f"{FENCE}sh\n{commands}\n{FENCE}\n"


def text(lines: str) -> str:
    return f"\n{FENCE}text\n{lines}\n{FENCE}\n"


WAVE = "<!-- do: wave -->\n"


def test_commands_share_one_terminal_and_follow_what_is_done(tmp_path: Path) -> None:
    page = sh("name=world; greet() { echo hello $name; }") + WAVE + sh("ls waved\ngreet") + text("waved\nhel… wor…")
    assert learn(tmp_path, page).printed == "waved\nhello world\n"


def test_reader_types_what_is_given(tmp_path: Path) -> None:
    page = WAVE + "<!-- given: word -->\n" + sh("read -r word") + sh("echo $word") + text("a b")
    assert learn(tmp_path, page, word="a b").printed == "a b\n"


def test_reader_repeats_until_it_is_as_shown(tmp_path: Path) -> None:
    page = WAVE + "<!-- repeat -->\n" + sh("echo x >>lines; wc -l <lines") + text("3")
    assert learn(tmp_path, page).printed == "3\n"


def test_reader_waits_for_another_terminal_and_interrupts_it(tmp_path: Path) -> None:
    page = WAVE + "<!-- terminal: other until: ready -->\n" + sh("bash -c 'echo $$ >pid; echo ready; sleep 60'")
    lesson = learn(tmp_path, page + sh("kill -0 $(cat pid)"))
    assert not Path(f"/proc/{(lesson.checkout / 'pid').read_text().strip()}/exe").exists()


@pytest.mark.parametrize(
    "page",
    [
        WAVE + sh("false\necho later"),
        WAVE + sh("(exit 3)"),
        WAVE + sh("no-such-command"),
        WAVE + sh("echo b; echo a") + text("a\nb"),
        WAVE + sh("echo a") + text("b"),
        sh("echo the page asks for nothing"),
        "<!-- do: jump -->\n" + WAVE,
        WAVE + "<!-- terminal: other until: ready -->\n" + sh("echo gone"),
        WAVE + "<!-- given: word -->\n" + sh("read -r word"),
        WAVE + f"{FENCE}python\nprint()\n{FENCE}\n",
    ],
)
def test_lesson_that_does_not_work_fails(tmp_path: Path, page: str) -> None:
    with pytest.raises((AssertionError, AttributeError, KeyError)):
        learn(tmp_path, page)


def test_indented_commands_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(f"1. Do this:\n\n   {FENCE}sh\n   echo a\n     echo b\n   {FENCE}\n")
    assert [step.commands for step in steps_of(tmp_path / "page.md")] == ["echo a\n  echo b\n"]
