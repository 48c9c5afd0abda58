"""Draw a cluster's topology as SVG: boxes for servers, arrows with lag and the state of the replication threads.

X values are percent, y values are pixels, as in ``web.charts.timeline``. There are two drawings: rows of boxes for wide screens,
and one box in each row for narrow ones; app.css shows one of them. Screen readers read a list with the same content instead.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from dbops.engine.facts.summary import LAG_IS_HIGH_SECONDS
from dbops.engine.states import Role
from dbops.engine.topology.layout import Graph, PlacedNode, Route, lay_out
from dbops.queries.topology import Drawn, ReplicationRow
from dbops.web.charts.timeline import percent
from dbops.web.figures import duration
from dbops.web.templatetags.dbops import ICONS, SPRITE, clean
from dbops.web.templatetags.phrases import translated

#: Pixels: a lane of a gap and the space around all lanes, a line of an arrow's text, a box, and its further line.
LANE, GAP, LABEL, BOX, NOTE = 8, 10, 18, 44, 17
#: Shares of a box's width: positions of the first incoming arrow, of the next one, and of outgoing arrows.
ENTRY, NEXT_ENTRY, EXIT, EXIT_NARROW = 0.06, 0.06, 0.5, 0.03
#: The styles of an arrow and their icons, the worst first.
ICON_OF = {
    "error": "circle-x",
    "stopped": "player-stop",
    "unknown": "info-circle",
    "lagging": "hourglass",
    "running": "player-play",
}
WORST_FIRST = tuple(ICON_OF)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The start of each row in pixels: the gap above it, the texts of its arrows, its boxes. ``height`` is the total."""

    gaps: tuple[int, ...]
    labels: tuple[int, ...]
    boxes: tuple[int, ...]
    box: int
    height: int


def drawing(trees: Sequence[Drawn]) -> SafeString:
    """Return both drawings and the list for screen readers."""
    servers = {server.key: server for server in _flat(trees)}
    if not servers:
        return mark_safe("")
    sources = {key: server.sources for key, server in servers.items()}
    tops = [key for key, server in servers.items() if server.role == Role.PRIMARY]
    keys = list(servers)
    wide = _svg("topo-wide", lay_out(keys, sources, tops), servers)
    narrow = _svg("topo-narrow", lay_out(keys, sources, tops, is_narrow=True), servers)
    return format_html(
        '{}{}<ul class="visually-hidden" aria-label="{}">{}</ul>',
        wide,
        narrow,
        _("Topology"),
        format_html_join("", "<li>{}</li>", ((describe_server(server),) for server in servers.values())),
    )


def describe_server(server: Drawn) -> str:
    """Return one server with its arrows as a sentence."""
    kind = _("not in the inventory")
    if server.kind != "outside":
        role = translated(server.role) or _("role unknown")
        kind = f"{role}, {translated(server.state)}"
    said = _("from %(source)s: %(state)s")
    arrows = [
        said % {"source": arrow.source, "state": label(arrow)} if arrow.source else translated(arrow.text)
        for arrow in server.arrows
    ]
    return clean(f"{server.name}: {'; '.join([kind, *arrows, *_notes(server)])}.")


def label(arrow: ReplicationRow) -> str:
    """Return the state of an arrow's threads and its lag: ``running · lag 4.2 s``."""
    if not arrow.source:
        return translated(arrow.text)
    if arrow.threads != "running":
        return translated(arrow.threads)
    if arrow.lag_seconds is None:
        return _("running · lag unknown")
    return _("running · lag %(lag)s") % {"lag": duration(arrow.lag_seconds)}


def style(arrow: ReplicationRow) -> str:
    """Return the style of an arrow: the state of its threads, or running with lag."""
    is_late = arrow.threads == "running" and (arrow.lag_seconds or 0) > LAG_IS_HIGH_SECONDS
    return "lagging" if is_late else arrow.threads


def _flat(trees: Iterable[Drawn]) -> Iterator[Drawn]:
    for server in trees:
        yield server
        yield from _flat(server.below)


def _notes(server: Drawn) -> list[str]:
    held = translated(server.held)
    if server.running:
        values = {"number": server.running.pk, "status": translated(server.running.status)}
        if server.running.percent is None:
            return [_("rebuild %(number)s %(status)s") % values]
        return [
            _("rebuild %(number)s %(status)s, %(percent)s %%") % {**values, "percent": f"{server.running.percent:.0f}"}
        ]
    if server.held_by:
        return [_("held as %(use)s by rebuild %(number)s") % {"use": held, "number": server.held_by}]
    return [_("held as %(use)s") % {"use": held}] if server.held else []


def _rows(graph: Graph[str], servers: dict[str, Drawn]) -> _Rows:
    """Return the pixels of each row: its height fits the box with the most arrows or notes."""
    box = BOX + NOTE * any(_notes(server) for server in servers.values())
    arrows = [0] * graph.rows
    for node in graph.nodes:
        arrows[node.row] = max(arrows[node.row], len(servers[node.key].arrows))
    gaps, labels, boxes, y = [], [], [], 0
    for row in range(graph.rows):
        gaps.append(y)
        y += GAP * (row > 0 or graph.gaps[row] > 0) + LANE * graph.gaps[row]
        labels.append(y)
        y += LABEL * arrows[row]
        boxes.append(y)
        y += box + 1
    gaps.append(y)
    y += GAP + LANE * graph.gaps[-1] if graph.gaps[-1] else 0
    return _Rows(tuple(gaps), tuple(labels), tuple(boxes), box, y)


def _svg(css: str, graph: Graph[str], servers: dict[str, Drawn]) -> SafeString:
    rows = _rows(graph, servers)
    places = {node.key: node for node in graph.nodes}
    styles = {route: _style_of(route, servers[route.target]) for route in graph.routes}
    of_source: dict[str, set[str]] = defaultdict(set)
    for route, seen in styles.items():
        of_source[route.source].add(seen)
    parts = [f'<svg class="topo-graph {css}" width="100%" height="{rows.height}" aria-hidden="true" focusable="false">']
    for route, seen in styles.items():
        points = _points(route, graph, rows, places)
        parts.append(_route(route, points, seen, is_mixed=len(of_source[route.source]) > 1))
    for node in graph.nodes:
        parts.append(_arrow_texts(node, rows, servers[node.key]))
        parts.append(_box(node, rows, servers[node.key]))
    return mark_safe("".join([*parts, "</svg>"]))  # noqa: S308 - every text went through format_html, all else is numbers


def _style_of(route: Route[str], server: Drawn) -> str:
    """Return the worst style of the connections between two servers."""
    arrows = [arrow for arrow, key in zip(server.arrows, server.sources, strict=False) if key == route.source]
    return min(map(style, arrows), key=WORST_FIRST.index, default="unknown")


def _points(
    route: Route[str], graph: Graph[str], rows: _Rows, places: dict[str, PlacedNode[str]]
) -> list[tuple[float, int]]:
    """Return the corners of an arrow: down, across, along the gutter if it skips rows, down into the box."""
    source, target = places[route.source], places[route.target]
    leave_at = EXIT_NARROW if graph.rows == len(graph.nodes) else EXIT
    out, into = source.left + source.width * leave_at, _entry(target, route.entry)
    leaves, enters = _lane(rows, route.gap, route.lane), _lane(rows, route.into_gap, route.into_lane)
    points = [(out, rows.boxes[source.row] + rows.box), (out, leaves)]
    if route.gutter is not None:
        room = min(node.left for node in graph.nodes)
        x = room * (route.gutter + 0.5) / graph.gutters
        points += [(x, leaves), (x, enters)]
    return [*points, (into, enters), (into, rows.boxes[target.row])]


def _route(route: Route[str], points: list[tuple[float, int]], seen: str, *, is_mixed: bool) -> SafeString:
    """Draw one arrow. ``is_mixed``: arrows of different styles share the path, which is neutral except for the last part."""
    lines = [
        f'<line x1="{percent(x1)}" y1="{y1}" x2="{percent(x2)}" y2="{y2}"></line>'
        for (x1, y1), (x2, y2) in pairwise(points)
        if (x1, y1) != (x2, y2)
    ]
    shared = "".join(lines[:-1])
    x, y = points[-1]
    head = f'<svg x="{percent(x)}" y="{y}" overflow="visible"><path d="M-4 -7L0 0L4 -7z"></path></svg>'
    return format_html(
        '<g class="topo-line is-{}" data-source="{}" data-target="{}" data-threads="{}">{}{}</g>',
        seen,
        clean(route.source),
        clean(route.target),
        "running" if seen == "lagging" else seen,
        mark_safe(f'<g class="is-shared">{shared}</g>' if is_mixed else shared),  # noqa: S308 - numbers
        mark_safe(lines[-1] + head),  # noqa: S308 - numbers
    )


def _lane(rows: _Rows, gap: int, lane: int) -> int:
    return rows.gaps[gap] + GAP // 2 + LANE * lane + LANE // 2


def _entry(node: PlacedNode[str], number: int) -> float:
    return node.left + node.width * (ENTRY + NEXT_ENTRY * number)


def _arrow_texts(node: PlacedNode[str], rows: _Rows, server: Drawn) -> SafeString:
    """Write the state of each arrow beside its end, one a line, with the source's name if there are several."""
    shift = max(0, len(server.arrows) - 1) * NEXT_ENTRY + ENTRY if node.sources else 0.0
    x, width = node.left + node.width * shift, node.width * (1 - shift)
    first = rows.boxes[node.row] - LABEL * len(server.arrows)
    return format_html_join(
        "",
        '<svg x="{}" y="{}" width="{}" height="{}" class="topo-label is-{}"><title>{}</title>{}'
        '<text x="24" y="13">{}</text></svg>',
        (
            (
                percent(x),
                first + LABEL * number,
                percent(width),
                LABEL,
                style(arrow),
                clean(translated(arrow.text)),
                _icon(ICON_OF[style(arrow)], 7, 2),
                clean(f"{label(arrow)} · {arrow.source}" if len(server.arrows) > 1 else label(arrow)),
            )
            for number, arrow in enumerate(server.arrows)
        ),
    )


def _box(node: PlacedNode[str], rows: _Rows, server: Drawn) -> SafeString:
    is_outside = server.kind == "outside"
    second = _("not in the inventory")
    if not is_outside:
        second = " · ".join(filter(None, [translated(server.role), translated(server.state)]))
    notes = _notes(server)
    return format_html(
        '<svg x="{}" y="{}" width="{}" height="{}" class="topo-box topo-{} state-{}" data-node="{}">'
        '<title>{}</title><rect class="topo-frame" width="100%" height="100%" rx="5"></rect>'
        '<rect class="topo-stripe" width="5" height="100%"></rect>'
        '<text class="topo-title" x="13" y="19">{}</text>{}<text x="31" y="36">{}</text>{}</svg>',
        percent(node.left),
        rows.boxes[node.row],
        percent(node.width),
        rows.box,
        server.kind,
        server.state,
        clean(node.key),
        clean(
            " · ".join(
                filter(None, [server.name, second, translated(server.state_text), *map(translated, server.lines)])
            )
        ),
        clean(server.name),
        _icon("external-link" if is_outside else ICONS.get(server.state, "info-circle"), 13, 25),
        clean(second),
        format_html('<text class="topo-held" x="13" y="53">{}</text>', capfirst(notes[0])) if notes else "",
    )


def _icon(name: str, x: int, y: int) -> SafeString:
    return format_html(
        '<svg class="topo-icon" x="{}" y="{}" width="14" height="14"><use href="{}#{}"></use></svg>',
        x,
        y,
        static(SPRITE),
        name,
    )
