# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference of control_jitter.py: a loop at absolute deadlines in a process that does nothing else.

Run `python benchmarks/bare_loop.py RATE_HZ`: it prints its wall clock's stamps [ns] as JSON upon SIGINT.
"""

import json
import signal
import sys
import time


def main(rate_hz: float) -> None:
    stamps_ns = []
    period_ns = round(1e9 / rate_hz)
    deadline_ns = time.monotonic_ns()
    try:
        while True:
            deadline_ns += period_ns
            time.sleep(max(0, deadline_ns - time.monotonic_ns()) / 1e9)
            stamps_ns.append(time.time_ns())
    except KeyboardInterrupt:
        print(json.dumps(stamps_ns))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
    main(float(sys.argv[1]))
