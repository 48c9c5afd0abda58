"""Text that tries to be something else: for every place where text reaches a shell, an option file or a line of a format."""

from hypothesis import strategies as st

CANARY = "canary"
#: what would leave a file named ``canary`` in the working directory if any shell read it as more than text
PAYLOADS = (
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"; touch {CANARY} ;",
    f"' ; touch {CANARY} ; '",
    f'" ; touch {CANARY} ; "',
    f"\n touch {CANARY}\n",
    f"|touch {CANARY}&",
    f"\\'; touch {CANARY} #",
    f"$'\\n'touch {CANARY}",
    f"${{IFS}}touch${{IFS}}{CANARY}",
    f'\\"; touch {CANARY} #',
    f">{CANARY}",
)
PIECES = (
    *PAYLOADS,
    *"'\"\\$`*?[]{}()<>|&;!#~= \t\n\r-",
    "--",
    "%s",
    "${HOME}",
    "é",
    "\u2028",
    "\U0001f5a5",
    "\x01",
    "\x7f",
)

#: any text that a command line can carry
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
)
one_line = texts.map(lambda text: "".join(character for character in text if character not in "\n\r"))
#: a part of a path as the inventory accepts it: no control characters, no separators
names = texts.map(lambda text: "".join(c for c in text if c.isprintable() and c != "/")[:50].strip()).filter(
    lambda text: text not in ("", ".", "..")
)
