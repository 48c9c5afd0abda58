"""What a source lists: servers with the values that an inventory needs. Sources are other systems, so each value is checked."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from dbops.engine.phrases import phrase, said
from dbops.engine.states import Role

#: As in the inventory.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ADDRESS = re.compile(r"[A-Za-z0-9:.\[\]_][A-Za-z0-9:.\[\]_-]{0,252}")
PATH = re.compile(r"/[^\x00-\x1f\x7f-\x9f]{0,499}")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.@\\-]{0,99}")
#: More of either is no fleet, but a mistake.
MOST_SERVERS, MOST_REMARKS = 5000, 50
ROLES = {role.value: role for role in Role} | {
    "master": Role.PRIMARY,
    "writer": Role.PRIMARY,
    "slave": Role.REPLICA,
    "reader": Role.REPLICA,
}


class BadListing(Exception):  # noqa: N818 - it is the answer, not a fault
    """A source's answer is not a listing. The text says why, without anything that the source sent but numbers."""


@dataclass(frozen=True, slots=True)
class ListedServer:
    """One server of a source. Empty: the source does not say.

    ``has_own_name``: the source names it; otherwise the name is made from the address, and proves nothing.
    """

    name: str
    address: str
    port: int = 3306
    cluster: str = ""
    role: Role | None = None
    ssh_address: str = ""
    ssh_port: int = 22
    ssh_user: str = ""
    datadir: str = ""
    defaults_file: str = ""
    systemd_unit: str = ""
    has_own_name: bool = True

    @property
    def place(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listing:
    """The servers of a source, and why other entries were skipped."""

    servers: tuple[ListedServer, ...]
    remarks: tuple[str, ...] = ()


#: The texts of an entry and the patterns that they match.
TEXTS = {
    "name": NAME,
    "address": ADDRESS,
    "cluster": NAME,
    "ssh_address": ADDRESS,
    "ssh_user": WORD,
    "datadir": PATH,
    "defaults_file": PATH,
    "systemd_unit": WORD,
}
KNOWN = frozenset(field.name for field in fields(ListedServer)) - {"has_own_name"}


def read_server(values: Mapping[str, object], *, has_own_name: bool = True) -> ListedServer:
    """Return a server of these values; absent and empty ones are unknown.

    Raises:
        ValueError: a value is wrong; the text names the field.
    """
    given = {name: str(value).strip() for name, value in values.items() if value not in ("", None)}
    texts = {}
    for name, pattern in TEXTS.items():
        text = given.get(name, "")
        if text and not pattern.fullmatch(text):
            raise ValueError(phrase("{name} has a value that is not allowed", name=name))
        texts[name] = text
    if not texts["name"] or not texts["address"]:
        raise ValueError(phrase("name or address is missing"))
    role = given.get("role", "").lower()
    if role and role not in ROLES:
        raise ValueError(phrase("role is not one of {roles}", roles=", ".join(ROLES)))
    return ListedServer(
        **texts,
        port=_port(given.get("port", "3306"), "port"),
        ssh_port=_port(given.get("ssh_port", "22"), "ssh_port"),
        role=ROLES.get(role),
        has_own_name=has_own_name,
    )


def _port(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise ValueError(phrase("{name} is not a port", name=name))
    return int(text)


def names_of(places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return names for servers that a source does not name: the first label of the host, as much more as makes it unique."""
    known = list(dict.fromkeys(places))
    labels = Counter(_label(address) for address, _ in known)
    addresses = Counter(address for address, _ in known)
    found = {}
    for address, port in known:
        name = _label(address)
        if labels[name] > 1:
            name = address if addresses[address] == 1 else f"{address[:57]}-{port}"
        found[address, port] = re.sub(r"[^A-Za-z0-9._-]", "-", name)[:63].lstrip("._-") or "server"
    return found


def _label(address: str) -> str:
    return address if re.fullmatch(r"[0-9.]+|.*:.*", address) else address.split(".")[0]


def listing_of(entries: Iterable[tuple[str, Mapping[str, object]]], *, has_own_name: bool = True) -> Listing:
    """Return the listing of these entries; each comes with its place in the source, for remarks.

    Raises:
        BadListing: there is no usable entry, or too many.
    """
    servers: dict[tuple[str, int], ListedServer] = {}
    names: set[str] = set()
    remarks: list[str] = []
    for place, values in entries:
        try:
            server = read_server(values, has_own_name=has_own_name)
        except ValueError as error:
            remarks.append(phrase("{place}: {problem}", place=place, problem=said(error)))
            continue
        key = (server.address.casefold(), server.port)
        if key in servers or server.name.casefold() in names:
            remarks.append(
                phrase("{place}: the address is listed twice", place=place)
                if key in servers
                else phrase("{place}: the name is listed twice", place=place)
            )
            continue
        servers[key] = server
        names.add(server.name.casefold())
        if len(servers) > MOST_SERVERS:
            raise BadListing(phrase("the source lists more than {most} servers", most=f"{MOST_SERVERS:,}"))
    if not servers:
        raise BadListing(
            phrase("the source lists no usable server ({remark})", remark=remarks[0])
            if remarks
            else phrase("the source lists no usable server")
        )
    if len(remarks) > MOST_REMARKS:
        remarks[MOST_REMARKS:] = [phrase("{number} more entries were skipped", number=len(remarks) - MOST_REMARKS)]
    return Listing(tuple(servers.values()), tuple(remarks))
