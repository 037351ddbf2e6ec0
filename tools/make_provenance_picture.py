# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the documentation's picture of the page of `explain --html`: a demo at 300 ms, in a real browser.

make provenance-picture
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "test"))

from remote_inference.bags.storage.bag import BagReader  # noqa: E402
from remote_inference.bags.timeline.robot_bag import EXECUTED_SUFFIX  # noqa: E402
from support.nodes.browser import chromium, resize  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "provenance_page.png"
WIDTH, HEIGHT = 1280, 900
EPISODES, LATENCY_MS = 3, 300


def remote_inference(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "remote_inference.tools.cli", *map(str, arguments)], check=True)


def guarded_tick(bag: Path) -> int:
    """Return a control tick of the run's second half that executed a row which the guard altered."""
    with BagReader(bag) as reader:
        (topic,) = [name for name in reader.topics if name.endswith(EXECUTED_SUFFIX)]
        messages = [message for _, _, message in reader.messages([topic])]
    found = [m.tick for m in messages if m.source == m.CHUNK and m.interventions]
    return int(found[len(found) * 3 // 4])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        out, page = Path(folder, "run"), Path(folder, "run.html")
        remote_inference("demo", "--episodes", EPISODES, "--latency-ms", LATENCY_MS, "--quiet", "--out", out)
        bag = out / "bag"
        remote_inference("explain", bag, "--command", guarded_tick(bag), "--html", page, "--quiet")
        with chromium(Path(folder, "profile"), WIDTH, HEIGHT) as browser:
            browser.get(page.as_uri())
            resize(browser, WIDTH, browser.execute_script("return document.documentElement.scrollHeight"))
            browser.save_screenshot(str(PICTURE))


if __name__ == "__main__":
    main()
