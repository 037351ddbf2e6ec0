# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that may read gigabytes show on a terminal how far they are, and write nothing of it into a pipe."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from remote_inference.tools.cli import main
from support.recording.asked_run import write_policy
from support.recording.simulated_run import write_simulated_run

BAR = "\u2501"  # what bars are drawn with
VERBS = {
    "explain": ("explain", "BAG", "--out", "OUT.png"),
    "explain --at": ("explain", "BAG", "--at", "1.5"),
    "explain --html": ("explain", "BAG", "--html", "OUT.html"),
    "export": ("export", "BAG", "--csv", "OUT.csv", "--drop", "failed"),
    "verify": ("verify", "BAG"),
    "verify --repair": ("verify", "BAG", "--repair", "OUT"),
    "replay --decisions": ("replay", "--decisions", "BAG"),
    "replay --policy": ("replay", "--policy", "MANIFEST", "BAG"),
}


@pytest.fixture(scope="module")
def bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated_run(tmp_path_factory.mktemp("bags") / "run")


@pytest.fixture(params=VERBS)
def words(request: pytest.FixtureRequest, bag: Path, tmp_path: Path) -> list[str]:
    manifest = write_policy(tmp_path)
    names = {"BAG": str(bag), "MANIFEST": str(manifest)}
    return [names.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in VERBS[request.param]]


class Terminal:
    """A terminal as standard error, and what was shown on it."""

    def __init__(self) -> None:
        self._outside, inside = os.openpty()
        self.stderr = os.fdopen(inside, "w", encoding="utf-8")
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._outside, 65536):
                self._shown += data
        except OSError:  # the other end is closed
            pass

    def close(self) -> str:
        """Return what was shown."""
        self.stderr.close()
        self._reader.join(10.0)
        os.close(self._outside)
        return self._shown.decode()


def show(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a verb on a terminal; return what it shows there."""
    for name, value in {"TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal.stderr)
    try:
        assert main(words) == 0
    finally:
        shown = terminal.close()
    return shown


def test_a_terminal_is_shown_a_bar(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert BAR in show(words, monkeypatch)


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_who_asks_for_less_is_shown_none(
    option: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BAR not in show([*words, option], monkeypatch)


def test_a_pipe_gets_none(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    piped = io.StringIO()
    monkeypatch.setattr(sys, "stderr", piped)
    assert main(words) == 0
    assert piped.getvalue() == ""
