"""The options of script/demo. Standard library only: `--help` answers before anything is installed."""

import argparse
import sys


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/demo",
        description="Starts a lab of real database servers and the dashboard over it. Ctrl-C ends all that it started.",
    )
    parser.add_argument("--once", action="store_true", help="no browser: break a replica, rebuild it, check it, end")
    parser.add_argument("--size", metavar="SIZE", help="data on each host, for example 1G (default 256M)")
    parser.add_argument("--fresh", action="store_true", help="remove an earlier demonstration's lab and database first")
    parser.add_argument("--keep", action="store_true", help="leave the lab's servers running at the end")
    parser.add_argument("--json", action="store_true", help="with --once: print one JSON object as the last line")
    parser.add_argument("--port", type=int, help="the web address's port (default: the first free from 8000 on)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    parse(sys.argv[1:])
