"""Shell completion of commands and options, written from the parser."""

import argparse

BASH = """_dbops() {{
    local words="{commands}"
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _dbops dbops
"""


def options_of(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Return the commands of a parser with their options and choices."""
    commands = next(one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    found = {}
    for name, command in commands.choices.items():
        words = [word for action in command._actions for word in action.option_strings]
        words += [
            str(word) for action in command._actions if not action.option_strings for word in action.choices or ()
        ]
        found[name] = sorted(words)
    return found


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """Return the completion for ``bash``, ``zsh`` or ``fish``."""
    known = options_of(parser)
    if shell == "fish":
        lines = [f"complete -c dbops -f -n __fish_use_subcommand -a '{' '.join(known)}'"]
        for name, words in known.items():
            lines.append(f"complete -c dbops -f -n '__fish_seen_subcommand_from {name}' -a '{' '.join(words)}'")
        return "\n".join(lines) + "\n"
    cases = "\n".join(
        f'        {name}) [ "$COMP_CWORD" -lt 2 ] || words="{" ".join(words)}" ;;' for name, words in known.items()
    )
    text = BASH.format(commands=" ".join(known), cases=cases)
    return text if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{text}"
