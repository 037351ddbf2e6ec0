# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws the picture of the safety states from the table that the robot uses."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path as Outline

from remote_inference.bags.report.style import STATE_COLOURS
from remote_inference.robot.safety.state_machine import DESCRIPTIONS, TRANSITIONS, Event, State

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "state_machine.png"

Point = tuple[float, float]
Arrows = Mapping[tuple[State, State], tuple[Event, ...]]

# The layout [px], y downwards; drawn at twice this size for sharp screens.
SIZE = (930, 472)
SCALE = 2
NAME_PX, TEXT_PX = 13.0, 11.5
BAND = 26.0  # height of a state's name
LINE = 16.0  # of its description
INK, EDGE = "#222222", "#6A6A6A"


@dataclass(frozen=True)
class Box:
    """A state's place and the number of characters in which its description wraps."""

    left: float
    top: float
    width: float
    height: float
    wrap: int


@dataclass(frozen=True)
class Route:
    """An arrow's corners from border to border, and the words beside it.

    The words are those of its events; they stand here because only the layout knows where to break them.
    """

    words: str
    at: Point
    corners: tuple[Point, ...]
    align: Literal["left", "center", "right"] = "center"


TOP, BOTTOM = 190.0, 280.0  # of the row of four
PLACES: Mapping[State, Box] = {
    State.RECONNECTING: Box(52, 18, 858, 56, 120),
    State.CONNECTING: Box(52, TOP, 134, 90, 20),
    State.STREAMING: Box(262, TOP, 134, 90, 20),
    State.DEGRADED: Box(472, TOP, 134, 90, 20),
    State.STALLED: Box(682, TOP, 134, 90, 20),
    State.DEAD: Box(56, 400, 850, 50, 120),  # leaves room for the second line around it
}
START: Point = (26, 235)
UP, DOWN = 74.0, 396.0  # borders of RECONNECTING and DEAD towards the row
OVER, UNDER = 152.0, 318.0  # the ways around DEGRADED
ROUTES: Mapping[tuple[State, State], Route] = {
    (State.CONNECTING, State.STREAMING): Route("chunk\nmerged", (224, 214), ((186, 235), (262, 235))),
    (State.STREAMING, State.DEGRADED): Route("chunks\nlate", (434, 200), ((396, 221), (472, 221))),
    (State.DEGRADED, State.STREAMING): Route("chunk\nmerged", (434, 268), ((472, 249), (396, 249))),
    (State.DEGRADED, State.STALLED): Route("nothing\nto execute", (644, 213), ((606, 235), (682, 235))),
    (State.STREAMING, State.STALLED): Route(
        "nothing to execute", (458, 140), ((376, TOP), (376, OVER), (704, OVER), (704, TOP))
    ),
    (State.STALLED, State.STREAMING): Route(
        "chunk merged", (458, 330), ((704, BOTTOM), (704, UNDER), (376, UNDER), (376, BOTTOM))
    ),
    (State.CONNECTING, State.RECONNECTING): Route(
        "session lost", (125, 112), ((119, TOP), (119, UP)), "left"
    ),
    (State.RECONNECTING, State.STREAMING): Route(
        "chunk\nmerged", (286, 112), ((292, UP), (292, TOP)), "right"
    ),
    (State.STREAMING, State.RECONNECTING): Route("session lost", (335, 112), ((329, TOP), (329, UP)), "left"),
    (State.DEGRADED, State.RECONNECTING): Route("session lost", (545, 112), ((539, TOP), (539, UP)), "left"),
    (State.STALLED, State.RECONNECTING): Route("session lost", (755, 112), ((749, TOP), (749, UP)), "left"),
    (State.CONNECTING, State.DEAD): Route(
        "contract violated", (125, 357), ((119, BOTTOM), (119, DOWN)), "left"
    ),
    (State.STREAMING, State.DEAD): Route(
        "contract violated", (335, 357), ((329, BOTTOM), (329, DOWN)), "left"
    ),
    (State.DEGRADED, State.DEAD): Route(
        "contract violated", (545, 357), ((539, BOTTOM), (539, DOWN)), "left"
    ),
    (State.STALLED, State.DEAD): Route("contract violated", (755, 357), ((749, BOTTOM), (749, DOWN)), "left"),
    (State.RECONNECTING, State.DEAD): Route(
        "offline\ntoo long,\ncontract\nviolated", (884, 235), ((890, UP), (890, DOWN)), "right"
    ),
}


def arrows() -> Arrows:
    """Return the events that lead from one state to another, for each pair of states, in the enums' order."""
    found: dict[tuple[State, State], tuple[Event, ...]] = {}
    for before in State:
        for event in Event:
            if (after := TRANSITIONS.get((before, event))) is not None:
                found[before, after] = (*found.get((before, after), ()), event)
    return found


def picture_source() -> str:
    """Return in words what the picture shows; the PNG carries it, so that a stale one is found out."""
    states = [f"{state.name}: {DESCRIPTIONS[state]}" for state in State]
    lines = [
        f"{before.name} -> {after.name}: {_words(events)}" for (before, after), events in arrows().items()
    ]
    return "\n".join([*states, *lines])


def check_layout() -> None:
    """Raise LookupError unless the layout has a place for every state and arrow, and words for its events."""
    if missing := [state.name for state in State if state not in PLACES]:
        raise LookupError(f"PLACES: no place for {', '.join(missing)}")
    for state, box in PLACES.items():
        if len(_description(state)) * LINE > box.height - BAND:
            raise LookupError(f"PLACES: the description of {state.name} is too long for its box")
    drawn, wanted = ROUTES.keys(), arrows()
    for before, after in sorted(wanted.keys() ^ drawn):
        problem = "no route for" if (before, after) in wanted else "a route, but no transition, for"
        raise LookupError(f"ROUTES: {problem} {before.name} -> {after.name}")
    for (before, after), events in wanted.items():
        found, expected = " ".join(ROUTES[before, after].words.split()), _words(events)
        if found != expected:
            raise LookupError(f"ROUTES: {before.name} -> {after.name} says {found!r}, expected {expected!r}")


def draw_states(path: Path) -> None:
    """Draw the state machine to a PNG file. Raises LookupError for what has no place in the layout."""
    check_layout()
    figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100 * SCALE, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, SIZE[0]), ylim=(SIZE[1], 0), frame_on=False)
    axes.set_axis_off()
    first = PLACES[State.CONNECTING]
    _draw_arrow(axes, (START, (first.left, START[1])), INK)
    axes.add_patch(Circle(START, 6, color=INK))
    for (_, after), route in ROUTES.items():
        _draw_arrow(axes, route.corners, _darker(STATE_COLOURS[after.name]))
        axes.text(*route.at, route.words, ha=route.align, va="center_baseline", color=INK, **_font(TEXT_PX))
    for state, box in PLACES.items():
        _draw_box(axes, state, box)
    # Without matplotlib's version a picture changes only when what it shows does.
    figure.savefig(path, metadata={"Description": picture_source(), "Software": None})


def _draw_box(axes: Any, state: State, box: Box) -> None:
    colour = STATE_COLOURS[state.name]
    terminal = not any(before is state for before, _ in TRANSITIONS)
    ink, paper, edge = ("white", colour, colour) if terminal else (INK, "white", EDGE)
    outline = _frame(box, 0.0, facecolor=paper, edgecolor=edge, linewidth=_pt(1.2))
    axes.add_patch(outline)
    band = Rectangle((box.left, box.top), box.width, BAND, color=colour, linewidth=0)
    axes.add_patch(band)
    band.set_clip_path(outline)
    if terminal:  # two lines around it, as in UML
        axes.add_patch(_frame(box, -4.0, facecolor="none", edgecolor=edge, linewidth=_pt(1.2)))
    style = {"ha": "center", "va": "center", "color": ink}
    middle, below = box.left + box.width / 2, (box.height - BAND) / 2
    axes.text(middle, box.top + BAND / 2, state.name, weight="bold", **style, **_font(NAME_PX))
    axes.text(middle, box.top + BAND + below, "\n".join(_description(state)), **style, **_font(TEXT_PX))


def _description(state: State) -> list[str]:
    return textwrap.wrap(DESCRIPTIONS[state], PLACES[state].wrap)


def _frame(box: Box, inset: float, **style: Any) -> FancyBboxPatch:
    corner = (box.left + inset, box.top + inset)
    shape = f"round,pad=0,rounding_size={7 - inset / 2}"
    return FancyBboxPatch(corner, box.width - 2 * inset, box.height - 2 * inset, boxstyle=shape, **style)


def _draw_arrow(axes: Any, corners: Sequence[Point], colour: str | tuple[float, float, float]) -> None:
    """Draw an arrow with rounded corners; its white rim lets it pass over another one."""
    line = _rounded(corners, 9.0)
    axes.add_patch(PathPatch(line, facecolor="none", edgecolor="white", linewidth=_pt(8.0), capstyle="butt"))
    style = {"color": colour, "linewidth": _pt(1.7), "joinstyle": "miter", "capstyle": "butt"}
    head = "-|>,head_length=7,head_width=3.2"
    axes.add_patch(FancyArrowPatch(path=line, arrowstyle=head, mutation_scale=_pt(1.0), **style))


def _rounded(corners: Sequence[Point], radius: float) -> Outline:
    points, codes = [corners[0]], [Outline.MOVETO]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        points += [_towards(corner, before, radius), corner, _towards(corner, after, radius)]
        codes += [Outline.LINETO, Outline.CURVE3, Outline.CURVE3]
    return Outline([*points, corners[-1]], [*codes, Outline.LINETO])


def _towards(start: Point, end: Point, distance: float) -> Point:
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]))  # all lines are level or upright
    return tuple(a + (b - a) * distance / length for a, b in zip(start, end, strict=True))


def _darker(colour: str) -> tuple[float, ...]:
    """Return a colour that carries a thin line on white; yellow alone would not."""
    return tuple(0.8 * part for part in to_rgb(colour))


def _font(size_px: float) -> dict[str, Any]:
    return {"family": "DejaVu Sans", "size": _pt(size_px), "linespacing": 1.25}


def _pt(size_px: float) -> float:
    return size_px * 0.72  # 100 px are an inch


def _words(events: Sequence[Event]) -> str:
    return ", ".join(event.value for event in events)
