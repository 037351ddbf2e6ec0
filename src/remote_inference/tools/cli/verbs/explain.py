# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference explain`: a picture of a run, one motion walked back, or a page to scrub through."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import Arguments, VerbParser, bounded

if TYPE_CHECKING:
    from remote_inference.base.contract.contract import Contract

EXAMPLES = {
    "explain": (
        "bag",
        "bag --from 12 --to 20 --out stall.png",
        "bag --at 13.7",
        "bag --at 2026-11-22T15:04:29.5Z --request-log requests.jsonl --json",
        "bag --command 412",
        "bag --html run.html --from 10 --to 70",
        "bag --json",
        "bag --namespace /robot_1 --contract robot.contract.yaml",
    ),
}
PICTURE = Path("report.png")
LONGEST_S = 1e9  # 30 years: nanoseconds of more may be no number of a bag
JSON_SHAPE = (
    '{"picture", "duration_s", "requests", "requests_unanswered", "latency_ms", "actions", "age_s", '
    '"states", "paused_s", "longest_hold", "shadow", "clock_jumps", "interventions", "chunks", "seams", '
    '"jerk", "behind_plan_s"}, of the whole run; with --at or --command a motion, as '
    'docs/reference/provenance.md lists it; with --html also {"page", "ticks", "images", "left_out"}'
)


def add_explain(parser: VerbParser) -> None:
    add = parser.add
    second = bounded(float, lambda value: abs(value) <= LONGEST_S, "seconds since the run's beginning")
    add("bag BAG", "folder of the bag")
    parser.add_namespace("the only robot's in the bag")
    add_motion = parser.add_choice(required=False)
    add_motion(
        "--at TIME",
        "walk back the motion of an instant: seconds of the run, seconds since 1970, or a time with its "
        "zone as 2026-11-22T15:04:29.5Z",
    )
    add_motion("--command N", "walk back the motion of control tick N, as `executed` counts", type=int)
    add("--request-log FILE", "the server's request log, to show its lines")
    add("--html FILE", "write a page that explains each command at a cursor")
    add("--out FILE", f"picture of the run to write: PNG, PDF or SVG, by its ending (default: {PICTURE})")
    add("--force", "replace the picture or the page if it exists")
    add(
        "--from SECONDS",
        "show the run from this second on in every panel; 0 alone: all of it (default: all of it, but "
        "of the joints the first seconds of motion)",
        dest="from_s",
        type=second,
    )
    add("--to SECONDS", "show the run up to this second (default: its end)", dest="to_s", type=second)
    add("--contract CONTRACT", "the robot's contract (default: the one in the bag)")
    parser.add_output(JSON_SHAPE)


def run_explain(arguments: Arguments) -> None:
    is_motion = arguments.at is not None or arguments.command is not None
    if arguments.out and (is_motion or arguments.html):
        raise UserError(
            "--out: the picture is of the whole run, expected no --at, --command or --html with it"
        )
    if arguments.request_log and not (is_motion or arguments.html):
        raise UserError("--request-log: expected --at, --command or --html, which show its lines")
    if is_motion and not arguments.html and (arguments.from_s is not None or arguments.to_s is not None):
        raise UserError("--from, --to: expected none with --at or --command, which name one instant")
    contract = arguments.load_contract()
    if not (is_motion or arguments.html):
        _draw(arguments, contract)
        return
    if arguments.html:
        arguments.require_new(arguments.html, "--html")
    from remote_inference.bags.provenance.text import motion_lines  # noqa: PLC0415  needs rosbags

    motion = _explain(arguments, contract) if is_motion else None
    page = _write_page(arguments, contract, motion) if arguments.html else {}
    lines = motion_lines(motion) if motion else []
    if page:
        counts = f"{page['ticks']} control ticks, {page['images']} observations with images"
        lines += [f"page: {page['page']}, {counts}", *(f"left out: {text}" for text in page["left_out"])]
    arguments.print_result({**(motion.to_json() if motion else {}), **page}, *lines)


def _draw(arguments: Arguments, contract: Contract | None) -> None:
    out = arguments.out or PICTURE
    arguments.require_new(out, "--out")
    from remote_inference.bags.report.report import draw_report  # noqa: PLC0415  needs matplotlib
    from remote_inference.bags.report.summary import describe, summarise  # noqa: PLC0415
    from remote_inference.bags.timeline.timeline_reader import load_timeline  # noqa: PLC0415

    with arguments.show_bag("reading the run", arguments.bag) as report:
        timeline = load_timeline(arguments.bag, arguments.namespace, contract, on_progress=report)
    draw_report(timeline, out, f"{arguments.bag.name}, {timeline.namespace}", _window_s(arguments))
    numbers = summarise(timeline)
    lines = (*describe(timeline.namespace, numbers), f"picture: {out}")
    arguments.print_result({"picture": str(out), **numbers}, *lines)


def _window_s(arguments: Arguments) -> tuple[float, float] | None:
    if arguments.from_s is None and arguments.to_s is None:
        return None
    return arguments.from_s or 0.0, math.inf if arguments.to_s is None else arguments.to_s


def _explain(arguments: Arguments, contract: Contract | None) -> Any:
    from remote_inference.bags.provenance.explanation import explain_motion  # noqa: PLC0415

    with arguments.show_bag("looking for the command", arguments.bag) as report:
        return explain_motion(
            arguments.bag,
            arguments.namespace,
            contract,
            tick=arguments.command,
            at=arguments.at or "",
            request_log=arguments.request_log,
            on_progress=report,
        )


def _write_page(arguments: Arguments, contract: Contract | None, motion: Any) -> dict[str, Any]:
    from remote_inference.bags.provenance.page.page import write_page  # noqa: PLC0415

    with arguments.show_bag("reading the run", arguments.bag) as report:
        written = write_page(
            arguments.bag,
            arguments.html,
            arguments.namespace,
            contract,
            window_s=_window_s(arguments),
            cursor_s=motion.command.t_s if motion else None,
            request_log=arguments.request_log,
            on_progress=report,
        )
    return written.to_json()
