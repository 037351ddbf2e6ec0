# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The other side of peers.py: openpi-client and a minimal server for it. Runs without ROS 2.

`python openpi_peer.py server [PORT]` prints its port and answers each observation with its state, CHUNK_SIZE
times.
`python openpi_peer.py client PORT IMAGE.npy [--resize]` reads `TIMES PAUSE_S` from its standard input, line
by line, and prints the durations of so many inferences [ms] as JSON. --resize: to 224x224, within the time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from openpi_client import image_tools, msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

CHUNK_SIZE, JOINTS, CAMERAS = 50, 6, 2
SIDE = 224  # px, as openpi's policies take their images


async def answer(connection: ServerConnection) -> None:
    """Speak openpi's protocol: metadata first, then a chunk for each observation."""
    await connection.send(msgpack_numpy.packb({}))
    with suppress(ConnectionClosed):  # openpi-client leaves without a goodbye, others with one
        async for frame in connection:
            observation = msgpack_numpy.unpackb(frame)
            chunk = np.tile(observation["state"], (CHUNK_SIZE, 1))
            await connection.send(msgpack_numpy.packb({"actions": chunk}))


async def run_server(port: int) -> None:
    async with serve(answer, "127.0.0.1", port, compression=None, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


def run_client(port: int, image_file: Path, resize: bool) -> None:
    policy = WebsocketClientPolicy("127.0.0.1", port)
    image = np.load(image_file)
    for line in sys.stdin:
        times, pause_s = line.split()
        print(
            json.dumps([infer(policy, image, resize, float(pause_s)) for _ in range(int(times))]), flush=True
        )


def infer(policy: WebsocketClientPolicy, image: np.ndarray, resize: bool, pause_s: float) -> float:
    """Ask once after a pause; return the duration [ms]."""
    time.sleep(pause_s)
    start_ns = time.monotonic_ns()
    images = [image] * CAMERAS
    if resize:
        images = [image_tools.resize_with_pad(each, SIDE, SIDE) for each in images]
    observation = {f"image_{index}": each for index, each in enumerate(images)}
    chunk = policy.infer({**observation, "state": np.zeros(JOINTS, np.float32), "prompt": "hold still"})
    duration_ms = (time.monotonic_ns() - start_ns) / 1e6
    assert chunk["actions"].shape == (CHUNK_SIZE, JOINTS)
    return duration_ms


if __name__ == "__main__":
    try:
        if sys.argv[1] == "server":
            asyncio.run(run_server(int(sys.argv[2]) if sys.argv[2:] else 0))
        else:
            run_client(int(sys.argv[2]), Path(sys.argv[3]), "--resize" in sys.argv)
    except KeyboardInterrupt:
        pass
