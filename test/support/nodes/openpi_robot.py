# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A program that uses openpi-client as it is, in an environment of its own: openpi-client needs numpy 1.

`python openpi_robot.py HOST PORT [KEY]` connects and prints the metadata, then for each line `EXAMPLE TIMES`
of its standard input infers so many times and prints what the last answer holds, or the error, as JSON.
With the environment variable PING_S, websockets pings every so many seconds and waits as long, instead of 20.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

import numpy as np
import websockets.sync.client
from openpi_client.websocket_client_policy import WebsocketClientPolicy

SIDE = 224
HWC, CHW = (SIDE, SIDE, 3), (3, SIDE, SIDE)


def picture(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)


# As openpi's examples build them.
EXAMPLES: dict[str, dict[str, Any]] = {
    "rig": {"state": np.array([0.25, -0.5]), "image": np.zeros((48, 64, 3), np.uint8), "prompt": "wave"},
    "wrong key": {"state": np.zeros(2), "img": np.zeros((48, 64, 3), np.uint8), "prompt": "wave"},
    "droid": {
        "observation/exterior_image_1_left": picture(HWC),
        "observation/wrist_image_left": picture(HWC),
        "observation/joint_position": np.arange(7) / 10,
        "observation/gripper_position": np.array([0.7]),
        "prompt": "do something",
    },
    "libero": {
        "observation/state": np.arange(8) / 10,
        "observation/image": picture(HWC),
        "observation/wrist_image": picture(HWC),
        "prompt": "do something",
    },
    "aloha": {
        "state": np.arange(14) / 10,
        "images": {
            name: picture(CHW) for name in ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
        },
        "prompt": "do something",
    },
}


def main() -> None:
    if ping_s := float(os.environ.get("PING_S", "0")):
        connect = partial(websockets.sync.client.connect, ping_interval=ping_s, ping_timeout=ping_s)
        websockets.sync.client.connect = connect
    policy = WebsocketClientPolicy(sys.argv[1], int(sys.argv[2]), *sys.argv[3:4])
    print(json.dumps(policy.get_server_metadata()), flush=True)
    for line in sys.stdin:
        name, times = line.rsplit(" ", 1)
        try:
            for _ in range(int(times)):
                answer = policy.infer(EXAMPLES[name])
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
            continue
        actions = answer["actions"]
        shown = {
            "shape": actions.shape,
            "dtype": actions.dtype.str,
            "first": actions[0].tolist(),
            "timing": answer["server_timing"],
        }
        print(json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
