# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every format of an export does with control ticks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from remote_inference.core.contract.contract import Contract
from remote_inference.recording.export.control_tick import ControlTick

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Written:
    """What an export consists of."""

    episodes: int = 0
    ticks: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # ticks by reason
    notes: list[str] = field(default_factory=list)  # what else is to be known of the ticks, in words

    def leave_out(self, reason: str, ticks: int = 1) -> None:
        """Count ticks that are not exported."""
        self.left_out[reason] = self.left_out.get(reason, 0) + ticks

    def as_json(self) -> dict[str, Any]:
        """Return what `--json` prints of it."""
        return {
            "episodes": self.episodes,
            "ticks": self.ticks,
            "left_out": self.left_out,
            "notes": self.notes,
        }


class Format(ABC):
    """Writes episodes of control ticks; leaving the context completes the files, but not after an error."""

    needs_images: ClassVar[bool] = False  # the ticks carry the cameras' messages
    takes_rows: ClassVar[bool] = False  # one tick for each row of the policy, not each control tick

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        """Write to `out`, a file or folder that does not exist yet. images: write those, too."""
        self.out = out
        self.contract = contract
        self.images = images
        self.written = Written()

    @abstractmethod
    def add(self, tick: ControlTick) -> None:
        """Write the next tick of the episode."""

    def end_episode(self) -> None:
        """End the episode. The next tick begins another."""
        self.written.episodes += 1

    @abstractmethod
    def close(self) -> None:
        """Complete the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
