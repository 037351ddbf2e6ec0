# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference replay --policy` and `--server`: answers compared with a bag, as tables and a picture."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from functools import partial
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from string import ascii_uppercase
from typing import TypeVar

from remote_inference.bags.timeline.robot_bag import open_robot
from remote_inference.base.clients.operator_client import OperatorClient
from remote_inference.base.clients.server_session import ServerSession, SessionRefusedError
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import ChunkStatus, SessionOffer, no_rows
from remote_inference.base.wire.arrays import WireError, read_message
from remote_inference.learn.open_loop.evaluation import (
    Answer,
    Answerer,
    ErrorSums,
    Evaluation,
    JointErrors,
    PolicyIdentity,
    ReplayError,
    evaluate,
    find_offer,
    require_history,
)
from remote_inference.learn.open_loop.report import Report, parse_bounds
from remote_inference.msg import Observation
from remote_inference.tools.cli.common import Arguments, open_client, print_json, say
from remote_inference.tools.deployment.bringup import absolute_name
from remote_inference.tools.tables import Table, print_table

REFERENCES = {"executed": "executed actions", "recorded": "recorded chunks"}
ROW_GROUPS = 5  # parts of a chunk in a table
SMALLEST = 5e-5  # shown; what is smaller and not 0 is shown as such
STATISTICS = ("mean abs", "RMS", "p95", "max")
MOST_POLICIES = 6  # colours of a picture, and columns of a table
Source = TypeVar("Source", Path, str)


@contextmanager
def _serve(manifest: Path, offer: SessionOffer) -> Iterator[Answerer]:
    from remote_inference.learn.open_loop.served_policy import serve  # noqa: PLC0415  loads policies
    from remote_inference.server.manifest.manifest import load_manifest  # noqa: PLC0415

    with (
        redirect_stdout(sys.stderr),  # a policy may print
        serve(load_manifest(manifest, os.environ), str(manifest), offer) as policy,
    ):
        yield policy


def compare_answers(arguments: Arguments, timeout_s: float) -> int:
    """Compare the answers of policies, or of servers; return the exit code. timeout_s: of a server's."""
    if not arguments.server:
        return _run(arguments, arguments.policy, _serve)
    servers = [absolute_name(name, "--server") for name in arguments.server]
    with open_client("replay", namespace=f"/replay_{token_hex(4)}") as client:
        return _run(arguments, servers, partial(_open_session, client, timeout_s))


@contextmanager
def _open_session(
    client: OperatorClient, timeout_s: float, server: str, recorded: SessionOffer
) -> Iterator[Answerer]:
    """Open a session with a live server. recorded: the offer of the robot in the bag.

    Raises OperatorError when the server is silent, ReplayError when it refuses the robot.
    """
    try:
        session = ServerSession(client, server, recorded, timeout_s)
    except SessionRefusedError as refusal:
        raise ReplayError(f"the bag's robot: {refusal}") from None
    with session:
        require_history(f"server {server}", session.reply.observation_steps, recorded)
        yield _LiveServer(server, session)


class _LiveServer:
    """Answers requests by a server's chunks."""

    def __init__(self, name: str, session: ServerSession) -> None:
        self._session = session
        self._recorded_session: str | None = None
        reply = session.reply
        self.policy = PolicyIdentity(
            name,
            reply.policy_name,
            reply.policy_revision,
            reply.policy_fingerprint,
            reply.chunk_size,
            reply.rtc,
        )

    def ask(self, session_id: str, request: bytes) -> Answer:
        """Return the answer to a serialized Observation. A recorded session gets a session of its own.

        Raises OperatorError when the server does not answer in time.
        """
        if self._recorded_session not in (None, session_id):
            self._session.renew()
        self._recorded_session = session_id
        try:
            chunk = self._session.ask(read_message(request, Observation, "request"))
        except WireError as error:
            return Answer(no_rows(), no_rows(), str(error))
        if chunk.status is ChunkStatus.ERROR or not chunk.robot.size:
            return Answer(no_rows(), no_rows(), f"server answered {chunk.status.name}: {chunk.message}")
        return Answer(chunk.model, chunk.robot)


def _run(
    arguments: Arguments,
    sources: Sequence[Source],
    answer: Callable[[Source, SessionOffer], AbstractContextManager[Answerer]],
) -> int:
    """Compare each source's answers with the bag; return the exit code. answer: opens a source."""
    if arguments.out:  # not at the end
        arguments.require_new(arguments.out, "--out")
        from remote_inference.learn.open_loop.picture import draw, require_drawable  # noqa: PLC0415  matplotlib

        require_drawable(arguments.out)
    if len(sources) > MOST_POLICIES:
        raise UserError(f"found {len(sources)} policies, expected {MOST_POLICIES} at most")
    evaluations = []
    with open_robot(arguments.bag, arguments.namespace, arguments.load_contract()) as robot:
        bounds = parse_bounds(arguments.max_error or (), robot.require_contract().actions.names)
        offer = find_offer(robot)
        for source in sources:
            with answer(source, offer) as asked, arguments.show_bag(str(source), arguments.bag) as show:
                evaluations.append(evaluate(robot, asked, show))
    against = arguments.against or "executed"
    report = Report(str(arguments.bag), robot.namespace, evaluations, bounds, against)
    if arguments.out:
        draw(report.evaluations, arguments.out, f"{arguments.bag.name}, {report.namespace or '/'}")
    if arguments.json:
        print_json(report.to_json())
    else:
        _print(report, arguments.out, is_quiet=arguments.quiet)
    return report.exit_code


# -- The report as text, at most 80 columns wide where names are short -----------------------------------


def _print(report: Report, picture: Path | None, *, is_quiet: bool) -> None:
    if not is_quiet:
        letters = ascii_uppercase[: len(report.evaluations)]
        say(f"{report.bag}, {report.namespace or '/'}: {report.evaluations[0].requests} requests")
        for letter, evaluation in zip(letters, report.evaluations, strict=True):
            _print_policy(evaluation, letter if len(letters) > 1 else "")
        if len(letters) > 1:
            _print_side_by_side(report.evaluations, letters, report.against)
        for note in report.notes:
            say(f"note: {note}")
        if picture:
            say(picture)
    for line in report.exceeded:
        say(f"exceeded: {line}")
    for line in report.problems:
        say(f"cannot be judged: {line}")


def _print_policy(evaluation: Evaluation, letter: str) -> None:
    """Print what one policy's answers are worth. letter: its name among others, empty when it is alone."""
    policy = evaluation.policy
    head = f"\n{letter}: " if letter else "\n"
    say(f"{head}{policy.name} {policy.revision} ({policy.source})")
    say(f"{evaluation.requests - evaluation.failed} answers, {_describe_chunks(evaluation)}")
    for reference, words in REFERENCES.items():
        sums: ErrorSums = getattr(evaluation, reference)
        if joints := sums.by_joint():
            values = [(joint.mean_abs, joint.rms, joint.p95, joint.max) for joint in joints]
            cells = [list(map(_number, row)) for row in values]
            _print_table(f"\nagainst the {words}, {sums.rows} rows", STATISTICS, joints, cells)
    if joints := evaluation.executed.by_joint():
        rows = len(joints[0].mean_abs_by_row)
        count = min(rows, ROW_GROUPS)
        groups = [range(*pair) for pair in pairwise(round(rows * n / count) for n in range(count + 1))]
        headings = [f"{group[0]}-{group[-1]}" for group in groups]
        cells = [[_number(_mean(joint, group)) for group in groups] for joint in joints]
        _print_table("\nmean absolute error by rows of the chunk", headings, joints, cells)


def _print_side_by_side(evaluations: Sequence[Evaluation], letters: str, reference: str) -> None:
    """Print the mean absolute errors of several policies beside each other."""
    sums: list[ErrorSums] = [getattr(evaluation, reference) for evaluation in evaluations]
    joints = sums[0].by_joint()
    if not joints:
        return
    rows = min(evaluation.policy.chunk_size for evaluation in evaluations)
    columns = [one.mean_abs(rows) for one in sums]
    cells = [[_number(float(value)) for value in row] for row in zip(*columns, strict=True)]
    title = f"\nmean absolute error of rows 0-{rows - 1}, against the {REFERENCES[reference]}"
    _print_table(title, list(letters), joints, cells)


def _describe_chunks(evaluation: Evaluation) -> str:
    compared, same = evaluation.compared_chunks, evaluation.same_policy_chunks
    if not compared:
        return "no recorded chunk to compare with"
    of = "of the same policy" if same == compared else f"{same} of the same policy"
    return f"{compared} recorded chunks ({of}), {evaluation.identical_chunks} equal bit for bit"


def _mean(joint: JointErrors, rows: range) -> float:
    values = [joint.mean_abs_by_row[row] for row in rows if not math.isnan(joint.mean_abs_by_row[row])]
    return sum(values) / len(values) if values else math.nan


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    if 0.0 < value < SMALLEST:
        return "<0.0001"
    return "0" if value == 0.0 else f"{value:.4f}" if value < 100.0 else f"{value:.4g}"


def _print_table(
    title: str, headings: Sequence[str], joints: Sequence[JointErrors], cells: Sequence[Sequence[str]]
) -> None:
    rows = [[joint.name, joint.unit, *row] for joint, row in zip(joints, cells, strict=True)]
    print_table(Table(title, ("joint", "unit", *headings), rows, numbers=tuple(headings)))
