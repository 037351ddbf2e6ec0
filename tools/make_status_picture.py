# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the picture of the status page for the documentation: the shipped policy, six robots, a real browser.

make status-picture
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "test"))
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

from support.nodes.browser import chromium  # noqa: E402
from support.nodes.fleet import FleetRobot  # noqa: E402
from support.nodes.rig import Rig  # noqa: E402

MANIFEST = ROOT / "config" / "belt_arm.manifest.yaml"
PICTURE = ROOT / "docs" / "images" / "status_page.png"
SIZE = (1080, 860)
# Its robots are one node of another name, which the server would take for gone.
CHANGES = {"max_sessions": 8, "session_grace_s": 3600.0}
PERIODS_S = (0.05, 0.07, 0.11, 0.06, 0.09, 0.15)
ENOUGH_REQUESTS = 62  # a line of latencies is full
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
CAMERAS = ("observation.images.front", "observation.images.wrist")


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        manifest = Path(folder, "belt_arm.manifest.yaml")
        content = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
        content["model"]["path"] = str(MANIFEST.parent / content["model"]["path"])
        manifest.write_text(yaml.safe_dump({**content, **CHANGES, "health_port": port}), "utf-8")
        rig = Rig(Path(folder))
        try:
            rig.start_server(manifest)
            robots = [
                FleetRobot(rig, f"/cell_{index // 3 + 1}/arm_{index % 3 + 1}", period_s, JOINTS, CAMERAS)
                for index, period_s in enumerate(PERIODS_S)
            ]
            rig.wait_for(lambda: len(robots[2].chunks) > 4 * ENOUGH_REQUESTS, "half a minute of load", 120.0)
            robots[3].fields["state"] = robots[3].fields["state"][:5]
            robots[5].timer.cancel()
            answered = len(robots[3].chunks)
            rig.wait_for(lambda: len(robots[3].chunks) > answered + 40, "errors", 120.0)
            with chromium(Path(folder, "profile"), *SIZE) as browser:
                browser.get(f"http://127.0.0.1:{port}/")
                answered = len(robots[0].chunks)
                rig.wait_for(lambda: len(robots[0].chunks) > answered + 120, "a few polls of the page")
                browser.save_screenshot(str(PICTURE))
        finally:
            rig.close()


if __name__ == "__main__":
    main()
