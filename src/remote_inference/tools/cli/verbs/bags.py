# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that check bags and make other files of them: `verify` and `export`."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import EXIT_NO, EXIT_OK, Arguments, VerbParser, print_json, say

if TYPE_CHECKING:
    from remote_inference.bags.checks.check import Verification

EXAMPLES = {
    "verify": ("run_1", "run_1 --json", "run_1 --quiet", "run_1 --repair run_1_repaired"),
    "export": (
        "bag --lerobot-v3 data/picks",
        "bag_1 bag_2 --lerobot-v3 data/picks --resample --drop paused failed",
        "bag --parquet ticks.parquet",
        "bag --csv ticks.csv --json",
    ),
}
# What an export makes, by its format; the class that writes it, and the packages that this needs.
OUTPUTS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "lerobot-v3": (
        "FOLDER",
        "a data set to train from with LeRobot, layout 3.0",
        "lerobot_v3:LeRobotDataSet",
        ("pyarrow", "av"),
    ),
    "parquet": ("FILE", "a flat table, one row per control tick", "format:ParquetTable", ("pyarrow",)),
    "csv": ("FILE", "the same as text", "format:CsvTable", ()),
}


def add_verify(parser: VerbParser) -> None:
    parser.add("bag BAG", "folder of the bag, which stays as it is")
    parser.add("--repair OUT", "recover what is whole into this folder, which must not exist")
    shape = (
        '{"bag", "intact", "files", "bytes", "messages", "topics", "start_ns", "end_ns", "links", "digest", '
        '"findings"}, each finding {"level", "check", "text"}; with --repair {"out", "files", "messages", '
        '"lost"}, "out" null when there was nothing to repair'
    )
    parser.add_output(shape, quiet="print nothing but problems")


def run_verify(arguments: Arguments) -> int:
    if arguments.repair:
        _repair(arguments)
        return EXIT_OK
    from remote_inference.bags.checks.verification import verify  # noqa: PLC0415
    from remote_inference.bags.storage.mcap_records import bag_size  # noqa: PLC0415

    with arguments.show_bytes("verifying", bag_size(arguments.bag)) as report:
        result = verify(arguments.bag, report)
    if arguments.json:
        print_json(result.to_json())
    else:
        _print(result, is_quiet=arguments.quiet)
    return EXIT_OK if result.is_intact else EXIT_NO


def _repair(arguments: Arguments) -> None:
    """Recover the bag. Raises BagError when nothing can be recovered."""
    from remote_inference.bags.checks.repair import repair  # noqa: PLC0415
    from remote_inference.bags.storage.mcap_records import bag_size  # noqa: PLC0415

    with arguments.show_bytes("reading", bag_size(arguments.bag)) as report:
        result = repair(arguments.bag, arguments.repair, report)
    outcome = f"{arguments.bag}: whole, there is nothing to repair"
    if result.is_needed:
        outcome = f"{result.out}: {result.messages} messages in {result.files} files"
    arguments.print_result(result.to_json(), *result.lost, outcome)


def _print(result: Verification, *, is_quiet: bool) -> None:
    from remote_inference.bags.checks.check import Level  # noqa: PLC0415

    if not is_quiet:
        duration_s = (result.end_ns - result.start_ns) * 1e-9
        say(
            f"{result.path}: {result.files} files, {result.size / 1e6:.1f} MB, "
            f"{result.counts.total()} messages of {len(result.counts)} topics, {duration_s:.1f} s"
        )
        if result.links:
            say(f"digests: {result.links} links fit; the last digest is {result.digest}")
    for finding in result.findings:
        if not is_quiet or finding.level is Level.PROBLEM:
            say(f"{finding.level.value}: {finding.check}: {finding.text}")
    if not is_quiet:
        problems, missing = len(result.of(Level.PROBLEM)), len(result.of(Level.MISSING))
        if problems:
            say(f"not intact: {problems} problem{'' if problems == 1 else 's'}")
        else:
            say("intact, with what is named missing above" if missing else "intact")


def add_export(parser: VerbParser) -> None:
    parser.add("bags BAG", "folders of bags of robots of one kind", nargs="+")
    add_format = parser.add_choice()
    for name, (place, text, *_) in OUTPUTS.items():
        add_format(f"--{name} {place}", f"write {text}", dest=name)
    parser.add_namespace("the only robot's in each bag")
    parser.add("--contract CONTRACT", "the robot's contract (default: the one in the bags)")
    text = "one frame per period of the contract's fps: late ticks are moved, missing ones repeated"
    parser.add("--resample", text)
    parser.add(
        "--drop",
        "leave out the time in which the robot was paused, and episodes that failed: by --outcomes, or "
        "because they ended without actions",
        nargs="+",
        choices=("paused", "failed"),
        default=(),
    )
    parser.add(
        "--outcomes FILE",
        'which episodes of the bag succeeded: a JSON file with {"episode_results": [{"episode_id", '
        '"success"}]}, as the demo\'s summary.json is',
    )
    parser.add("--no-images", "leave the cameras out")
    parser.add_output('{"path", "episodes", "ticks", "left_out", "notes"}')


def run_export(arguments: Arguments) -> None:
    format_name, out = next((name, path) for name in OUTPUTS if (path := getattr(arguments, name)))
    if out.exists():
        raise UserError(f"--{format_name}: {out} exists, expected a new path")
    place = next(path for path in out.absolute().parents if path.exists())  # the others are made
    if not place.is_dir():
        raise UserError(f"--{format_name}: {place} is no folder, expected one for {out.name}")
    if arguments.outcomes and len(arguments.bags) > 1:
        raise UserError(f"--outcomes: found {len(arguments.bags)} bags, expected one: episodes count in each")
    from remote_inference.bags.export.export import export, find_contract  # noqa: PLC0415
    from remote_inference.bags.export.format import Selection  # noqa: PLC0415

    outcomes = _read_outcomes(arguments.outcomes) if arguments.outcomes else None
    contract = find_contract(arguments.bags, arguments.load_contract())
    selection = Selection(
        resample=arguments.resample,
        drop_paused="paused" in arguments.drop,
        drop_failed="failed" in arguments.drop,
    )
    with TemporaryDirectory(dir=place, prefix=f".{out.name}_") as scratch:
        unfinished = Path(scratch) / out.name
        with _find_format(format_name)(unfinished, contract, images=not arguments.no_images) as target:
            export(
                arguments.bags,
                target,
                selection,
                namespace=arguments.namespace,
                outcomes=outcomes,
                show_progress=arguments.show_bag,
            )
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        unfinished.rename(out)
    written = target.written
    arguments.print_result(
        {"path": str(out), **written.as_json()},
        f"{out}: {written.episodes} episodes, {written.ticks} ticks",
        *(f"left out: {ticks} ticks, {reason}" for reason, ticks in written.left_out.items()),
        *(f"note: {note}" for note in written.notes),
    )


def _find_format(name: str) -> Any:
    *_, place, needs = OUTPUTS[name]
    for package in needs:
        if not find_spec(package):
            raise UserError(
                f"--{name}: {package} is not installed, expected {' and '.join(needs)}: "
                "pip install 'ros-remote-inference[export]'"
            )
    return resolve_name(f"remote_inference.bags.export.{place}")


def _read_outcomes(path: Path) -> dict[int, bool]:
    """Return by episode_id whether it succeeded. Raises UserError when the file does not say."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))["episode_results"]
        return {int(result["episode_id"]): bool(result["success"]) for result in results}
    except OSError as error:
        raise UserError(f"--outcomes: {path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        expected = '{"episode_results": [{"episode_id", "success"}]}'
        raise UserError(f"--outcomes: {path}: found {error}, expected JSON like {expected}") from error
