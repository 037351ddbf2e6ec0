# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Turns bags into one data set: finds robot, contract and episodes, and hands the ticks to a format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from remote_inference.core.contract.contract import Contract, parse_contract
from remote_inference.recording.bags.bag import BagReader, open_bag
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.export.control_tick import ControlTick
from remote_inference.recording.export.format import Format
from remote_inference.recording.export.selection import Selection, one_per_row
from remote_inference.recording.export.tick_reader import TickReader
from remote_inference.recording.timeline.episodes import WITHOUT_ACTIONS
from remote_inference.recording.timeline.timeline_reader import find_namespace

Tell = Callable[[float], None]  # takes the share of a bag that is done
ShowProgress = Callable[[str, Path], AbstractContextManager[Tell]]  # of what is done with a bag


def _show_nothing(_what: str, _bag: Path) -> AbstractContextManager[Tell]:
    return nullcontext(lambda _: None)


def find_contract(bags: Sequence[Path], given: Contract | None) -> Contract:
    """Return the contract of all bags: the given one, or the recorded one.

    Raises BagError when a bag has none, or when the bags' contracts differ.
    """
    if given is not None:
        return given
    found: dict[Path, Contract] = {}
    for path in bags:
        with open_bag(path) as bag:
            if not bag.contract:
                raise BagError(f"{path}: found no contract in the bag, expected one there or by --contract")
            found[path] = parse_contract(bag.contract, f"{path}: recorded contract")
    first = found[bags[0]]
    for path, contract in found.items():
        for key in ("fps", "row_fps", "state_names", "state_units", "images", "actions", "rename"):
            if getattr(contract, key) != getattr(first, key):
                raise BagError(
                    f"{path}: its contract's {key.replace('_', ' ')} differ from those of {bags[0]}, "
                    "expected one contract; bags of different robots make different data sets"
                )
    return first


def export(
    bags: Sequence[Path],
    target: Format,
    selection: Selection,
    *,
    namespace: str | None = None,
    outcomes: Mapping[int, bool] | None = None,
    show_progress: ShowProgress = _show_nothing,
) -> None:
    """Write all episodes of the bags, one bag after another.

    namespace: of the robot, None for the only one in each bag. outcomes: by episode_id, whether it succeeded;
    for a single bag. Raises BagError when a bag cannot be read or lacks what the export needs.
    """
    contract = target.contract
    period_ns = round((contract.row_period_s if target.takes_rows else contract.period_s) * 1e9)
    for path in bags:
        failed: Collection[int] = ()
        if selection.drop_failed:
            with show_progress("looking for failed episodes", path) as tell:
                failed = find_failed(path, target.contract, namespace, outcomes, tell)
        with open_bag(path) as bag, show_progress("exporting", path) as tell:
            reader = _reader(bag, target, namespace)
            if selection.drop_paused and not reader.tells_pauses:
                raise BagError(
                    f"{path}: --drop paused: found no state of the robot's node, which tells pauses"
                )
            for number, ticks in _episodes(_told(reader.ticks(), bag, tell)):
                if number in failed:
                    target.written.leave_out("failed episode", sum(1 for _ in ticks))
                    continue
                kept = one_per_row(ticks, contract.ticks_per_row) if target.takes_rows else ticks
                for tick in selection.apply(kept, period_ns, target.written):
                    target.add(tick)
                target.end_episode()
            target.written.notes += reader.notes


def find_failed(
    path: Path,
    contract: Contract,
    namespace: str | None,
    outcomes: Mapping[int, bool] | None,
    tell: Tell = lambda _: None,
) -> Collection[int]:
    """Return the places in the bag of the episodes that failed.

    An episode failed if `outcomes` says so or, where it says nothing, if the robot was without actions when
    the episode ended.
    """
    failed = set()
    with open_bag(path) as bag:
        reader = TickReader(bag, find_namespace(bag, namespace), contract, images=False)
        for number, ticks in _episodes(_told(reader.ticks(), bag, tell)):
            *_, last = ticks
            success = (outcomes or {}).get(last.episode_id)
            if success is False or (success is None and last.client_state in WITHOUT_ACTIONS):
                failed.add(number)
    return failed


def _reader(bag: BagReader, target: Format, namespace: str | None) -> TickReader:
    ns = find_namespace(bag, namespace)
    return TickReader(bag, ns, target.contract, images=target.images and target.needs_images)


def _told(ticks: Iterator[ControlTick], bag: BagReader, tell: Tell) -> Iterator[ControlTick]:
    for tick in ticks:
        tell(bag.share(tick.t_ns))
        yield tick


def _episodes(ticks: Iterator[ControlTick]) -> Iterator[tuple[int, Iterator[ControlTick]]]:
    """Yield each episode's place in the bag and its ticks, which must be used up before the next.

    A node that starts again counts ticks and episodes anew.
    """
    ahead = next(ticks, None)
    number = 0

    def take() -> Iterator[ControlTick]:
        nonlocal ahead
        assert ahead is not None
        while True:
            tick = ahead
            ahead = next(ticks, None)
            yield tick
            if ahead is None or ahead.episode_id != tick.episode_id or ahead.tick <= tick.tick:
                return

    while ahead is not None:
        yield number, take()
        number += 1
