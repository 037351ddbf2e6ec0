# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures whether nodes find each other again after freezes of about the lease, and how long that takes.

Run `python benchmarks/zenoh_freezes.py [--rounds 5]`. It needs eclipse-zenoh. In each round eight nodes of
one host that publish are frozen for 1.7 to 2.7 s each; a ninth hears them. Peers with and without scouting
on the loopback interface, and clients of the router, follow each other.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import zenoh

sys.path.append(str(Path(__file__).parents[1] / "test"))

from support.free_ports import free_port
from support.transport.engine import SESSION, beside, opened, process, router
from support.waiting import wait_until

NODES = 8
FREEZE_S = (1.7, 2.7)  # about the lease of 2 s
PATIENCE_S = 20.0  # scouting asks every 8 s
POLL_S = 0.01
KINDS = {
    "peers that the router alone tells of each other (rmw_zenoh)": {"scouting/multicast/enabled": "false"},
    "peers that ask for each other, too (ours)": {},
    "clients of the router": {"mode": '"client"'},
}


class Host:
    """Nodes of one host: those that publish, each in a process, and one here that hears them."""

    def __init__(self, settings: dict[str, str], stack: ExitStack) -> None:
        port = free_port()
        stack.enter_context(router(port))
        self._settings = {**beside(port), **settings}
        self._heard_s: dict[str, float] = {}
        session = stack.enter_context(opened(SESSION, self._settings))
        stack.callback(session.declare_subscriber("node/*", self._hear).undeclare)
        self._nodes = [self._start(index, stack) for index in range(NODES)]
        wait_until(lambda: len(self._heard_s) == NODES, "every node is heard")

    def _hear(self, sample: zenoh.Sample) -> None:
        self._heard_s[str(sample.key_expr)] = time.monotonic()

    def _start(self, index: int, stack: ExitStack) -> subprocess.Popen[str]:
        return stack.enter_context(process(SESSION, publish=f"node/{index}", **self._settings))

    def freeze(self) -> list[float]:
        """Freeze each node for a time of its own; return how long each was not heard after its thaw [s]."""
        begin_s = time.monotonic()
        thaws_s = {index: begin_s + random.uniform(*FREEZE_S) for index in range(NODES)}
        for node in self._nodes:
            node.send_signal(signal.SIGSTOP)
        for index in sorted(thaws_s, key=thaws_s.__getitem__):
            time.sleep(max(0.0, thaws_s[index] - time.monotonic()))
            thaws_s[index] = time.monotonic()
            self._nodes[index].send_signal(signal.SIGCONT)
        silent_s: dict[int, float] = {}
        while len(silent_s) < NODES and time.monotonic() < begin_s + FREEZE_S[1] + PATIENCE_S:
            for index in thaws_s.keys() - silent_s.keys():
                if (heard_s := self._heard_s[f"node/{index}"]) > thaws_s[index]:
                    silent_s[index] = heard_s - thaws_s[index]
            time.sleep(POLL_S)
        return [silent_s.get(index, PATIENCE_S) for index in range(NODES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="freezes of every node in each row")
    rounds = parser.parse_args().rounds
    print(f"| nodes | not heard again within {PATIENCE_S:g} s | longest silence of others |\n|---|---|---|")
    for kind, settings in KINDS.items():
        silent_s: list[float] = []
        for _ in range(rounds):
            with ExitStack() as stack:
                silent_s += Host(settings, stack).freeze()
        back_s = [time_s for time_s in silent_s if time_s < PATIENCE_S]
        lost = len(silent_s) - len(back_s)
        print(f"| {kind} | {lost} of {len(silent_s)} | {max(back_s):.1f} s |", flush=True)


if __name__ == "__main__":
    main()
