# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that answers many robots at once over one link, and how many of its chunks arrive.

The server shares one core with other work, as on a busy machine: its sending thread then runs late, and the
chunks of a batch must fit into the link's queue meanwhile.

Run as a program it is the server: `chunk_burst.py ROBOTS ROUNDS PERIOD_S BYTES SETTINGS` publishes one chunk
for each robot, back to back as after a batch, ROUNDS times, and prints the longest put [s]. It ends with its
standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from zenoh import CongestionControl

from support.free_ports import free_port
from support.transport.engine import (
    DEADLINE_S,
    ENVIRONMENT,
    ROUTER,
    SESSION,
    client,
    endpoints,
    opened,
    process,
)
from support.waiting import read_line, wait_until

CHUNK_BYTES = 3_000  # 50 rows of 7 actions in both spaces
QUIET_S = 10.0  # after so long without another chunk, those that have not come are lost


@dataclass(frozen=True)
class Burst:
    """What became of the chunks. longest_put_s: how long the server's thread was held at most."""

    sent: int
    lost: int
    longest_put_s: float


def chunk_key(robot: int) -> str:
    message = "remote_inference::msg::dds_::ActionChunk_"
    return f"0/robot_{robot}/remote_inference/chunk/{message}/RIHS01_0"


def publications(*, express: bool) -> str:
    """Return the setting `qos/publication` of chunks, JSON5."""
    config = {"priority": "interactive_high", "express": express}
    return json.dumps([{"key_exprs": ["*/**/remote_inference/chunk/**"], "config": config}])


def burst(
    robots: int, rounds: int, period_s: float, server: Mapping[str, str], chunk_bytes: int = CHUNK_BYTES
) -> Burst:
    """Let a server, which is a client of a router, answer `robots` sessions behind that router.

    server: settings of the server's session, JSON5 by key, besides those of our file.
    """
    port, received = free_port(), [0] * robots

    def count(robot: int) -> None:
        received[robot] += 1

    with ExitStack() as stack:
        stack.enter_context(process(ROUTER, **{"listen/endpoints": endpoints(port)}))
        for robot in range(robots):
            session = stack.enter_context(client(port))
            subscriber = session.declare_subscriber(chunk_key(robot), lambda _, robot=robot: count(robot))
            stack.callback(subscriber.undeclare)
        settings = {"connect/endpoints": endpoints(port), "mode": '"client"', **server}
        arguments = [str(robots), str(rounds), str(period_s), str(chunk_bytes), json.dumps(settings)]
        sent = robots * rounds
        with subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        ) as sender:
            try:
                longest_put_s = float(read_line(sender, DEADLINE_S + rounds * period_s * 10))
                wait_for_the_rest(received, sent)
                sender.communicate(timeout=DEADLINE_S)  # ends its input
                assert sender.returncode == 0
            finally:
                sender.kill()
    return Burst(sent, sent - sum(received), longest_put_s)


def wait_for_the_rest(received: Sequence[int], sent: int) -> None:
    """Wait for all chunks, or until no more of them come."""
    count, since_s = sum(received), time.monotonic()
    while count < sent and time.monotonic() - since_s < QUIET_S:
        time.sleep(0.01)
        if sum(received) > count:
            count, since_s = sum(received), time.monotonic()


@contextmanager
def a_busy_core() -> Iterator[None]:
    """Put this process on one core, beside a process that never rests."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the other process inherits it
    restless = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    other = subprocess.Popen([sys.executable, "-c", restless])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def main() -> None:
    robots, rounds, period_s, chunk_bytes, settings = sys.argv[1:]
    payload, longest_s = bytes(int(chunk_bytes)), 0.0
    with a_busy_core(), opened(SESSION, json.loads(settings)) as session:
        publishers = [
            session.declare_publisher(chunk_key(robot), congestion_control=CongestionControl.DROP)
            for robot in range(int(robots))
        ]
        wait_until(lambda: all(p.matching_status.matching for p in publishers), "the robots")
        for _ in range(int(rounds)):
            for publisher in publishers:
                begin_s = time.monotonic()
                publisher.put(payload)
                longest_s = max(longest_s, time.monotonic() - begin_s)
            time.sleep(float(period_s))
        print(longest_s, flush=True)
        sys.stdin.read()  # closing would drop what is queued


if __name__ == "__main__":
    main()
