"""The options of script/demo. Standard library only: `--help` works before anything is installed."""

import argparse
import sys


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="script/demo",
        description="Start a lab of real database servers and dbops. Ctrl-C stops everything.",
        epilog="Environment: LAB_PARENT, the folder of the lab (default /var/tmp/dbops-lab); LAB_NETWORK, the first three octets of "
        "its addresses (default 127.0.1).",
    )
    parser.add_argument("--once", action="store_true", help="no browser: break, rebuild and check a replica, then exit")
    parser.add_argument("--size", metavar="SIZE", help="data on each host, e.g. 1G (default 256M)")
    parser.add_argument(
        "--fresh", action="store_true", help="first remove the lab and database of an earlier demonstration"
    )
    parser.add_argument("--no-sample", action="store_true", help="do not start the sample fleet")
    parser.add_argument("--settings", metavar="FILE", help="more settings of dbops: lines of NAME=VALUE")
    parser.add_argument("--keep", action="store_true", help="keep the lab's servers running at the end")
    parser.add_argument("--json", action="store_true", help="with --once: print a JSON object as the last line")
    parser.add_argument("--port", type=int, help="port of the web address (default: the first free one from 8000)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    parse(sys.argv[1:])
