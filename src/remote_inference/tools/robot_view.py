# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last seconds of one robot as sparklines: what `top --robot` shows."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.limits import shorten
from remote_inference.base.wire.qos import EXECUTED_QOS, EXECUTED_TOPIC, LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState, ExecutedAction
from remote_inference.robot.command import CommandSource
from remote_inference.tools.fleet_view import robot_as_json, show_number, state_of, troubles_of

WIDTH = 80  # of a terminal [characters]
CELLS, CELL_S = 50, 0.1
SPAN_S = CELLS * CELL_S
LABEL, NUMBER = 14, 8  # what is left of WIDTH, with two numbers [characters]
HELD = 6  # cells that show a value until the next one comes: a state does so twice a second
SILENT_S = 1.5
BARS = "▁▂▃▄▅▆▇█"
OWN = "F"  # another source: a fallback's own
LETTERS = {
    CommandSource.NONE: ".",
    CommandSource.CHUNK: "C",
    CommandSource.REPEAT_LAST: "R",
    CommandSource.ZERO: "Z",
    CommandSource.HOMING: "W",
    CommandSource.HOLD: "H",
    CommandSource.HUMAN: "P",
}


def sparkline(values: Sequence[float | None], top: float) -> str:
    """Return a bar for each value between 0 and top, which both are drawn, and a space for None."""
    scale = (len(BARS) - 1) / top if top > 0.0 else 0.0
    return "".join(
        " " if value is None else BARS[min(len(BARS) - 1, max(0, round(value * scale)))] for value in values
    )


class Trace:
    """Values of the last SPAN_S by the time [s] at which they came; one that is not finite is none."""

    def __init__(self, worst: Callable[[Sequence[Any]], Any]) -> None:
        """worst: which of several values is shown."""
        self._worst = worst
        self._samples: deque[tuple[float, Any]] = deque()

    def add(self, value: Any, now_s: float) -> None:
        if math.isfinite(value):
            self._samples.append((now_s, value))
        while self._samples and self._samples[0][0] < now_s - 2.0 * SPAN_S:
            self._samples.popleft()

    def cells(self, now_s: float) -> list[Any]:
        """Return the worst value of each cell, the newest last; None where none came for HELD cells."""
        found: list[list[Any]] = [[] for _ in range(HELD + CELLS)]
        for at_s, value in self._samples:
            if 0 <= (place := int((now_s - at_s) / CELL_S)) < len(found):
                found[-1 - place].append(value)
        shown = (reversed(found[place - HELD : place + 1]) for place in range(HELD, len(found)))
        newest = (next(filter(None, values), None) for values in shown)
        return [self._worst(values) if values else None for values in newest]


class Row(NamedTuple):
    """A line of the screen: a field of a message, its label, numbers and worst. A scale has one top."""

    name: str
    message: type[Any]
    label: str
    form: str
    scale: str
    worst: Callable[[Sequence[Any]], Any] = max


ROWS = (
    Row("action_age_s", ExecutedAction, "age s", "{:.2f}", "age"),
    Row("queue_length", ExecutedAction, "queue", "{:.0f}", "queue", min),
    Row("queue_wait_ms", ClientState, "queue wait ms", "{:.1f}", "latency"),
    Row("inference_ms", ClientState, "inference ms", "{:.1f}", "latency"),
    Row("transport_ms", ClientState, "transport ms", "{:.1f}", "latency"),
)


def _name(source: int) -> str:
    """Return the name of a source, also of one that only a newer robot knows."""
    try:
        return CommandSource(source).name
    except ValueError:
        return str(source)


def _unusual(sources: Sequence[int]) -> int:
    """Return the newest source that is no chunk, if there is one: a single tick counts."""
    others = [source for source in sources if source != CommandSource.CHUNK]
    return others[-1] if others else sources[-1]


class RobotTraces:
    """What one robot said in the last seconds. Times are of whoever listens [s]."""

    def __init__(self, robot: str) -> None:
        """robot: its namespace."""
        self.robot = robot
        self.state: ClientState | None = None  # the newest
        self._heard_s = -math.inf
        self._traces = {row.name: Trace(row.worst) for row in ROWS}
        self._sources = Trace(_unusual)

    def take(self, message: ClientState | ExecutedAction, now_s: float) -> None:
        """Add a state or a control tick."""
        self._heard_s = now_s
        for row in ROWS:
            if isinstance(message, row.message):
                self._traces[row.name].add(getattr(message, row.name), now_s)
        if isinstance(message, ClientState):
            self.state = message
        else:
            self._sources.add(message.source, now_s)

    def as_json(self, now_s: float) -> dict[str, Any]:
        """Return the state as `status --json` does, and the cells of each row, the newest last."""
        sources = [None if source is None else _name(source) for source in self._sources.cells(now_s)]
        cells = {name: trace.cells(now_s) for name, trace in self._traces.items()}
        return {
            **robot_as_json(self.robot, self.state),
            "last": {"cell_s": CELL_S, **cells, "source": sources},
        }

    def lines(self, now_s: float) -> list[str]:
        """Return the screen's lines, of WIDTH characters at most."""
        state = self.state
        if state is None:
            return [shorten(f"{self.robot}: no state yet", WIDTH)]
        notes = {
            "last change": f"{state.state_name}: {state.cause}" if state.cause else "",
            "not heard for": f"{now_s - self._heard_s:.0f} s" if now_s - self._heard_s > SILENT_S else "",
            "waiting for": ", ".join(state.stale_sources),
            **troubles_of(state),
        }
        head = [
            f"{self.robot}: {state_of(state)}",
            f"server {state.server or 'none'}, task {state.task!r}",
            *(f"{what}: {text}" for what, text in notes.items() if text),
        ]
        foot = (
            f"cycle p50 {show_number(state.latency_p50_ms)} ms, p95 {show_number(state.latency_p95_ms)} ms; "
            f"{state.requests} requests, {state.request_timeouts} timed out"
        )
        lines = [*head, "", *self._chart(now_s), "", foot]
        return [shorten(line.rstrip(), WIDTH) for line in lines]

    def _chart(self, now_s: float) -> list[str]:
        cells = {row.name: self._traces[row.name].cells(now_s) for row in ROWS}
        known = {name: [value for value in values if value is not None] for name, values in cells.items()}
        lines = [f"{'':{LABEL}}{f'{SPAN_S:g} s ago':{CELLS}}{'last':>{NUMBER}}{'worst':>{NUMBER}}"]
        for row in ROWS:
            top = max([0.0, *(value for one in ROWS if one.scale == row.scale for value in known[one.name])])
            newest, found = cells[row.name][-1], known[row.name]
            last = "-" if newest is None else row.form.format(newest)
            worst = row.form.format(row.worst(found)) if found else "-"
            drawn = sparkline(cells[row.name], top)
            lines.append(f"{row.label:{LABEL}}{drawn}{last:>{NUMBER}}{worst:>{NUMBER}}")
        sources = self._sources.cells(now_s)
        letters = "".join(" " if source is None else LETTERS.get(source, OWN) for source in sources)
        seen = sorted({source for source in sources if source is not None})
        legend = ", ".join(f"{LETTERS.get(source, OWN)} {_name(source)}" for source in seen)
        return [*lines, f"{'source':{LABEL}}{letters}", f"{'':{LABEL}}{legend}"]


class RobotWatch:
    """Listens to one robot, as `FleetWatch` does to all."""

    def __init__(self, ros: OperatorClient, robot: str, *, gathers: bool) -> None:
        """robot: its namespace. gathers: `settle` lasts for a whole SPAN_S, which one report shows."""
        self._ros = ros
        self._gathers = gathers
        self._traces = RobotTraces(robot)
        ros.subscribe(ClientState, f"{robot}/{STATE_TOPIC}", self._take, LATCHED_QOS)
        ros.subscribe(ExecutedAction, f"{robot}/{EXECUTED_TOPIC}", self._take, EXECUTED_QOS)

    def _take(self, message: ClientState | ExecutedAction) -> None:
        self._traces.take(message, time.monotonic())

    def settle(self, timeout_s: float) -> None:
        """Wait for the robot's state. Raises OperatorError after the timeout."""
        what = f"a message on {self._traces.robot}/{STATE_TOPIC}"
        self._ros.wait_for(lambda: self._traces.state is not None, what, timeout_s)
        if self._gathers:
            self._ros.spin(SPAN_S)

    def refresh(self, period_s: float) -> None:
        """Receive messages for a time."""
        self._ros.spin(period_s)

    def as_json(self) -> dict[str, Any]:
        return self._traces.as_json(time.monotonic())

    def print_tables(self) -> None:
        """Print the screen once."""
        print("\n".join(self._traces.lines(time.monotonic())), flush=True)

    def render(self) -> Any:
        """Return the screen for a terminal."""
        from rich.text import Text  # noqa: PLC0415  only where something is drawn

        return Text("\n".join(self._traces.lines(time.monotonic())), no_wrap=True)
