# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the verbs that read a bag, and keeps what each of them told and made."""

from __future__ import annotations

import io
import json
import logging
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from remote_inference.tools.cli import main

Words = tuple[str, ...]
# By what they are asked; OUT is a path that is not there. Each needs all messages of its topics ...
STRICT: dict[str, Words] = {
    "export --csv": ("export", "BAG", "--csv", "OUT.csv"),
    "replay --decisions": ("replay", "--decisions", "BAG"),
}
# ... as do these, which read what others read, too, and take longer where they are not refused ...
SLOW: dict[str, Words] = {
    "explain": ("explain", "BAG", "--out", "OUT.svg"),
    "export --parquet": ("export", "BAG", "--parquet", "OUT.parquet"),
}
# ... or explains a damaged bag, too, and says so.
LENIENT: dict[str, Words] = {
    "explain --at": ("explain", "BAG", "--at", "1.5"),
    "explain --html": ("explain", "BAG", "--html", "OUT.html"),
}
VERIFY: Words = ("verify", "BAG", "--json")
REPAIR: Words = ("verify", "BAG", "--repair", "OUT", "--json")


@dataclass(frozen=True)
class Told:
    """What a verb said, without line breaks. words: all of it. made: its file, unless that is a picture."""

    code: int
    words: str
    printed: str
    made: str

    @property
    def document(self) -> Any:
        """What a verb printed as JSON."""
        return json.loads(self.printed)


def run_verb(words: Words, bag: Path, out: Path | None = None) -> Told:
    """Run a verb on a copy of a bag, so that it is the first to read it. out: what OUT is, to be kept."""
    folder = Path(mkdtemp())  # a short path: where it fills a line, its words are wrapped elsewhere
    copy = shutil.copytree(bag, folder / bag.name)
    printed, log, out = io.StringIO(), io.StringIO(), out or folder / "out"
    handler = logging.StreamHandler(log)
    logging.getLogger("remote_inference").addHandler(handler)
    errors = io.StringIO()
    try:
        with redirect_stdout(printed), redirect_stderr(errors):
            code = main([word.replace("BAG", str(copy)).replace("OUT", str(out)) for word in words])
        made = [path.read_bytes() for path in folder.iterdir() if path.is_file() and path.suffix != ".svg"]
        texts = (
            f"{printed.getvalue()} {errors.getvalue()} {log.getvalue()}",
            printed.getvalue(),
            b"".join(made).decode("latin-1"),
        )
        return Told(code, *(" ".join(text.split()).replace(str(folder), "") for text in texts))
    finally:
        logging.getLogger("remote_inference").removeHandler(handler)
        shutil.rmtree(folder)
