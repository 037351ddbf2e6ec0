# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Observations and chunks over a link of 50 ms round trip and 10 Mbit/s, with stalls and cuts."""

from __future__ import annotations

import time

import pytest

from support.transport.request_path import RequestPath, observation, request_path
from support.waiting import wait_until

DELAY_S, BANDWIDTH_BPS = 0.025, 10e6
RETRY_S = 1.0


def request_until_answered(path: RequestPath, seq_id: int) -> None:
    """Repeat requests until one is answered, as the request cycle does."""
    serialized = observation(10_000, seq_id)
    wait_until(lambda: path.request(serialized, seq_id, RETRY_S), "an answer")


@pytest.mark.parametrize("image_bytes", [60_000, 200_000, 1_000_000])
def test_observations_cross_a_slow_link_whole(image_bytes: int) -> None:
    """rmw_zenoh's own waits lose every message of a megabyte here."""
    with request_path(delay_s=DELAY_S, bandwidth_bps=BANDWIDTH_BPS) as path:
        for seq_id in (1, 2, 3):
            serialized = observation(image_bytes, seq_id)
            took_s = path.request(serialized, seq_id, timeout_s=10.0)
            assert took_s is not None, f"request {seq_id} was lost"
            assert (
                took_s > 2 * DELAY_S + 8.0 * image_bytes / BANDWIDTH_BPS * 0.9
            )  # the link is as slow as it says
            assert path.requests[-1] == serialized


def test_an_answer_comes_when_a_stall_ends() -> None:
    with request_path(delay_s=DELAY_S, bandwidth_bps=BANDWIDTH_BPS) as path:
        path.link.stall()
        begin_s = time.monotonic()
        assert path.request(observation(10_000, 1), 1, timeout_s=0.5) is None
        path.link.resume()
        wait_until(lambda: 1 in path.chunks, "the answer to the request that was held up")
        assert time.monotonic() - begin_s > 0.5


@pytest.mark.parametrize("broken_s", [0.5, 4.0], ids=["shorter than the lease", "longer than the lease"])
def test_requests_resume_when_a_cut_link_is_mended(broken_s: float) -> None:
    with request_path(delay_s=DELAY_S, bandwidth_bps=BANDWIDTH_BPS) as path:
        path.link.cut()
        assert path.request(observation(10_000, 1), 1, timeout_s=broken_s) is None
        path.link.mend()
        request_until_answered(path, 2)


def test_requests_resume_after_a_stall_longer_than_the_lease() -> None:
    with request_path(delay_s=DELAY_S, bandwidth_bps=BANDWIDTH_BPS) as path:
        path.link.stall()
        assert path.request(observation(10_000, 1), 1, timeout_s=4.0) is None
        path.link.resume()
        request_until_answered(path, 2)
