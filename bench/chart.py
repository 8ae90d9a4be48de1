"""The report's picture: each panel one figure, each line one program, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.columns import key
from bench.figures import Summary, Table
from bench.reference import DIRECT, NGINX
from bench.router import OURS
from bench.rows import START

ACROSS = 3
WIDTH, MARGIN, HEADING, NAMES = 1040, 24, 44, 190
"""Pixels: of the picture, around it, for what stands above all panels, and for the programs' names."""
TITLE, LINE, AXIS, GAP = 46, 24, 26, 30
"""Pixels of height: above a panel, of one program, of the axis' numbers; between panels, both ways."""
LABEL = 46
"""Pixels at a panel's right end for the number beside a dot that stands there."""
LEAST = 0.1
"""Nothing is drawn further left: a growth of memory may be none."""
STEPS = (1, 2, 5)
"""Where an axis may begin and end within a power of ten."""
MOST_STEPS = 7
"""More gridlines than these would crowd: then only the powers of ten have one."""
HOW = "The dot is the median of the rounds, the line goes from the least to the most. Logarithmic; less is better."

STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.back { fill: #ffffff }
.heading { font-weight: 600; font-size: 16px } .title { font-weight: 600; font-size: 13px }
.quiet { fill: #59636e; font-size: 11px }
.grid { stroke: #d8dee4 } .row { fill: #f6f8fa } .dot { fill: #6e7781 } .span { stroke: #6e7781; stroke-width: 2 }
.ours .dot { fill: #0969da } .ours .span { stroke: #0969da } .ours text { fill: #0550ae; font-weight: 600 }
.limit .dot { fill: #1a7f37 } .limit .span { stroke: #1a7f37 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .back { fill: #0d1117 } .quiet { fill: #9198a1 } .grid { stroke: #30363d }
  .row { fill: #161b22 } .dot { fill: #9198a1 } .span { stroke: #9198a1 }
  .ours .dot { fill: #58a6ff } .ours .span { stroke: #58a6ff } .ours text { fill: #79c0ff }
  .limit .dot { fill: #56d364 } .limit .span { stroke: #56d364 }
}
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of all programs."""

    title: str
    unit: str
    values: dict[str, Summary]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to pixels."""

    steps: tuple[float, ...]
    """1, 2, 5, 10, 20, …: the ends of the axis and what is between."""
    left: float
    width: float

    def x(self, value: float) -> float:
        low, high = self.steps[0], self.steps[-1]
        part = math.log(max(value, low) / low) / math.log(high / low)
        return round(self.left + part * self.width, 1)

    @property
    def lines(self) -> list[float]:
        """The values that have a gridline."""
        if len(self.steps) <= MOST_STEPS:
            return list(self.steps)
        return [step for step in self.steps if math.log10(step).is_integer()]


def scale(values: Sequence[float], left: float, width: float) -> Scale:
    """The narrowest that holds all values."""
    low, high = max(LEAST, min(values)), max(LEAST, *values)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 2)
    steps = [float(f"{step}e{power}") for power in powers for step in STEPS]
    first = max(number for number, step in enumerate(steps) if step <= low)
    last = min(number for number, step in enumerate(steps) if step >= high and number > first)
    return Scale(tuple(steps[first : last + 1]), left, width)


PANELS = {
    "W0": ("W0: one small POST at a time", "latency at the median, µs"),
    "W1": ("W1: a small POST", "CPU, µs"),
    "W4": ("W4: a chunk of 200 streams", "CPU, µs"),
    "W4k": ("W4k: a chunk of 1000 streams", "CPU, µs"),
    START: ("the idle program", "memory, MiB"),
    "W7": ("W7: a client that does not read", "growth of memory, MiB"),
}


def panels(table: Table) -> list[Panel]:
    """Those of which there is something to show."""
    found = []
    for workload, (title, unit) in PANELS.items():
        column = key(workload)
        values = {
            program: value
            for program in table.programs
            if program != DIRECT.name and (value := column.summary(table, program, workload)) is not None
        }
        if values:
            found.append(Panel(title, unit, values))
    return found


def draw(table: Table) -> str:
    """The picture as SVG, legible on light and on dark."""
    shown = panels(table)
    programs = _ordered(table)
    height = TITLE + LINE * len(programs) + AXIS
    rows = math.ceil(len(shown) / ACROSS)
    whole = 2 * MARGIN + HEADING + rows * height + max(0, rows - 1) * GAP
    width = (WIDTH - 2 * MARGIN - NAMES - ACROSS * GAP) / ACROSS
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole}" role="img">',
        "<title>What each router costs</title>",
        f"<desc>{escape(_told(shown))}</desc>",
        f'<style>{STYLE}</style><rect class="back" width="{WIDTH}" height="{whole}"/>',
        f'<text class="heading" x="{MARGIN}" y="{MARGIN + 14}">What each router costs</text>',
        f'<text class="quiet" x="{MARGIN}" y="{MARGIN + 32}">{HOW}</text>',
    ]
    for row in range(rows):
        top = MARGIN + HEADING + row * (height + GAP)
        out += _names(programs, top + TITLE)
        for place, panel in enumerate(shown[row * ACROSS : (row + 1) * ACROSS]):
            left = MARGIN + NAMES + GAP / 2 + place * (width + GAP)
            out += _panel(panel, programs, left, top, width)
    return "\n".join([*out, "</svg>"]) + "\n"


def _ordered(table: Table) -> list[str]:
    """The programs by what a small POST costs them, those without that figure last."""
    cost = {program: table.summary(program, "W1", "cpu_us") for program in table.programs}
    measured = [name for name in table.programs if name != DIRECT.name]
    return sorted(measured, key=lambda name: found.median if (found := cost[name]) else math.inf)


def _told(shown: Sequence[Panel]) -> str:
    """The picture in words."""
    said = []
    for panel in shown:
        values = ", ".join(f"{name} {value.median:.1f}" for name, value in panel.values.items())
        said.append(f"{panel.title}, {panel.unit}: {values}.")
    return " ".join(said)


def _class(program: str) -> str:
    return "ours" if program in OURS else "limit" if program == NGINX.name else "other"


def _names(programs: Sequence[str], top: float) -> list[str]:
    out = []
    for number, program in enumerate(programs):
        y = top + LINE * number
        if number % 2 == 0:
            out.append(
                f'<rect class="row" x="{MARGIN}" y="{y}" width="{WIDTH - 2 * MARGIN}" height="{LINE}"/>'
            )
        name = f'<text x="{MARGIN + NAMES - 8}" y="{y + 16}" text-anchor="end">{escape(program)}</text>'
        out.append(f'<g class="{_class(program)}">{name}</g>')
    return out


def _panel(panel: Panel, programs: Sequence[str], left: float, top: float, width: float) -> list[str]:
    bottom = top + TITLE + LINE * len(programs)
    ends = [end for value in panel.values.values() for end in (value.least, value.most)]
    axis = scale(ends, left, width - LABEL)
    out = [
        f'<text class="title" x="{left:.1f}" y="{top + 18}">{escape(panel.title)}</text>',
        f'<text class="quiet" x="{left:.1f}" y="{top + 34}">{escape(panel.unit)}</text>',
    ]
    for value in axis.lines:
        x, label = axis.x(value), f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
        out.append(f'<line class="grid" x1="{x}" y1="{top + TITLE}" x2="{x}" y2="{bottom}"/>')
        out.append(f'<text class="quiet" x="{x}" y="{bottom + 16}" text-anchor="middle">{label}</text>')
    for number, program in enumerate(programs):
        y = top + TITLE + LINE * (number + 0.5)
        if program in panel.values:
            out.append(_dot(panel.values[program], program, axis, y))
        else:
            out.append(f'<text class="quiet" x="{left + 6:.1f}" y="{y + 4}">–</text>')
    return out


def _dot(value: Summary, program: str, axis: Scale, y: float) -> str:
    x, end = axis.x(value.median), axis.x(value.most)
    span = f'<line class="span" x1="{axis.x(value.least)}" y1="{y}" x2="{end}" y2="{y}"/>'
    digits = 0 if value.median >= 100 else 1
    text = f'<text x="{max(x + 5, end) + 5:.1f}" y="{y + 4}">{value.median:z.{digits}f}</text>'
    return f'<g class="{_class(program)}">{span}<circle class="dot" cx="{x}" cy="{y}" r="4.5"/>{text}</g>'
