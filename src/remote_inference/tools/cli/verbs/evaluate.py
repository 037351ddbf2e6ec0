# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference evaluate`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.common import EXIT_NO, EXIT_OK, Arguments, VerbParser, print_json, say

if TYPE_CHECKING:
    from remote_inference.learn.evaluation.document import EpisodeKey, Evaluation
    from remote_inference.learn.evaluation.episode_ledger import Tally
    from remote_inference.learn.evaluation.report import Findings
    from remote_inference.learn.evaluation.results import EpisodeResult, ResultsFolder
    from remote_inference.learn.evaluation.run import Shard

EXAMPLES = {
    "evaluate": (
        "belt_arm.evaluation.yaml --out results",
        "my_policy.evaluation.yaml --out results --require 'success>=0.9'",
        "my_policy.evaluation.yaml --out results --save data",
        "my_policy.evaluation.yaml --out part_3 --shard 3/16",
        "my_policy.evaluation.yaml --out all --merge part_1 part_2 part_3",
    ),
}


def add_evaluate(parser: VerbParser) -> None:
    add = parser.add
    add("evaluation EVALUATION", "EVALUATION.yaml")
    text = "where the results are, and go; a run that was broken off goes on from there"
    add("--out FOLDER", text, required=True)
    add("--shard N/COUNT", "play one part of the episodes (default all)", default="1/1")
    add("--merge FOLDER", "add the results of shards, and play nothing", nargs="+", default=[])
    text = "write what was seen and executed in the episodes played now to a new LeRobot data set"
    add("--save FOLDER", text)
    add("--reveal", "show the names of the policies of a blind evaluation")
    add(
        "--require BOUND",
        "exit with 1 unless every condition keeps a bound such as success>=0.9 or, by the mean, "
        "total_reward>5; may be given several times",
        action="append",
        default=[],
    )
    parser.add_output('{"summary", "troubles", "unplayed", "warnings", "broken_requirements"}')


def run_evaluate(arguments: Arguments) -> int:
    from remote_inference.learn.evaluation.blinding import HIDDEN, open_names, show_key, show_reason  # noqa: PLC0415
    from remote_inference.learn.evaluation.document import load_evaluation  # noqa: PLC0415
    from remote_inference.learn.evaluation.episode_ledger import Tally  # noqa: PLC0415
    from remote_inference.learn.evaluation.report import REPORT, write_report  # noqa: PLC0415
    from remote_inference.learn.evaluation.results import ResultsFolder, merge_folders  # noqa: PLC0415
    from remote_inference.learn.evaluation.run import Shard  # noqa: PLC0415
    from remote_inference.learn.evaluation.statistics import Requirement  # noqa: PLC0415

    shard = Shard.parse(arguments.shard)
    requirements = [Requirement.parse(text) for text in arguments.require]
    if arguments.merge and shard.count > 1:
        raise UserError("--merge: found with --shard, expected one of them")
    if arguments.merge and arguments.save:
        raise UserError("--merge: found with --save, expected one of them: it plays nothing")
    evaluation = load_evaluation(arguments.evaluation)
    if arguments.reveal and not evaluation.blind:
        raise UserError(f"--reveal: expected `blind: true` in {arguments.evaluation}")
    if evaluation.blind and shard.count > 1:
        raise UserError(
            "--shard: found with `blind: true`, expected one of them: each shard would draw letters"
        )
    with ResultsFolder(arguments.out, evaluation) as folder:
        names = open_names(folder.folder, evaluation) if evaluation.blind and not arguments.reveal else {}
        if arguments.merge:
            merge_folders(arguments.merge, folder, evaluation)
            tally = Tally()
        else:
            tally = _play(arguments, evaluation, folder, shard, names)
            if names and tally.warnings:  # they name policies
                tally.warnings = [f"{len(tally.warnings)} more notes: {HIDDEN}"]
        findings = write_report(evaluation, folder, arguments.evaluation.name, names)
    problems = [each.find_problem(one) for each in requirements for one in findings.summaries]
    if requirements and not findings.summaries:
        problems.append(f"found no episode, expected {requirements[0]}")
    broken = [problem for problem in problems if problem]
    if arguments.json:
        unplayed = [
            {**vars(key.condition), "seed": key.seed, "why": show_reason(why, names)}
            for key, why in ((show_key(one, names), why) for one, why in tally.unplayed.items())
        ]
        said = {"summary": findings.to_json(), "troubles": dict(tally.failures), "unplayed": unplayed}
        print_json({**said, "warnings": tally.warnings, "broken_requirements": broken})
    elif not arguments.quiet:
        _print(findings, tally, broken, arguments.out / REPORT)
    is_whole = shard.count > 1 or findings.played == findings.asked
    return EXIT_OK if is_whole and not tally.unplayed and not broken else EXIT_NO


def _play(
    arguments: Arguments,
    evaluation: Evaluation,
    folder: ResultsFolder,
    shard: Shard,
    names: Mapping[str, str],
) -> Tally:
    from remote_inference.learn.evaluation.run import Run  # noqa: PLC0415

    save = None
    if arguments.save:
        from remote_inference.learn.evaluation.saving import SavedEpisodes  # noqa: PLC0415  imports pyarrow
        from remote_inference.learn.rollouts.saving import require_new  # noqa: PLC0415

        require_new(arguments.save)
        save = partial(SavedEpisodes, arguments.save)
    home = arguments.evaluation.absolute().parent
    count = len(shard.pick(evaluation.keys("")))
    with _show_progress(arguments, count, len(folder.results), names) as report:
        return Run(evaluation, home, folder, shard=shard, report=report, save=save).run()


@contextmanager
def _show_progress(
    arguments: Arguments, count: int, done: int, names: Mapping[str, str]
) -> Iterator[Callable[[EpisodeKey, EpisodeResult | None, str], None]]:
    """Show a bar; yield what takes each episode's end. Failures are always shown."""
    from remote_inference.learn.evaluation.blinding import show_key, show_reason  # noqa: PLC0415

    with arguments.show_bars() as bars:
        if bars is not None:
            shown = bars.add_task("episodes", total=count, completed=min(done, count))

        def report(key: EpisodeKey, result: EpisodeResult | None, why: str) -> None:
            if bars is not None:
                bars.advance(shown)
            if result is None:
                say(f"not played: {show_key(key, names)}: {show_reason(why, names)}", file=sys.stderr)

        yield report


def _print(findings: Findings, tally: Tally, broken: list[str], report: Path) -> None:
    from remote_inference.tools.tables import Table, print_table  # noqa: PLC0415

    tasks = {one.condition.task for one in findings.summaries}
    heads = ("policy", "mode", "latency", "success", "95 % interval", "steps", *(["task"] * (len(tasks) > 1)))
    rows = []
    for one in findings.summaries:
        at = one.condition
        cells = (
            at.policy,
            at.mode,
            at.latency,
            f"{one.rate:.0%} ({one.successes} of {one.episodes})",
            f"{one.low:.1%} to {one.high:.1%}",
            f"{one.steps.mean:.4g}",
            at.task,
        )
        rows.append(cells[: len(heads)])
    print_table(Table("", heads, rows, ("steps",)))
    say(f"{tally.played} episodes played now, {findings.played} of {findings.asked} in all")
    for warning in tally.warnings:
        say(f"note: {warning}")
    if tally.failures:
        say("errors: " + ", ".join(f"{kind} {count}" for kind, count in tally.failures.items()))
    if tally.unplayed:
        say(f"{len(tally.unplayed)} episodes could not be played; run again to try them again")
    for problem in broken:
        say(f"not kept: {problem}")
    say(f"report: {report}")
