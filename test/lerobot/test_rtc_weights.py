# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The weights of a prefix are those of LeRobot's linear schedule."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from real_lerobot import RTCConfig, RTCProcessor

from remote_inference.server.policies.networks.rtc_network import prefix_weights

SIZE = 20


@given(prefix_rows=st.integers(1, SIZE), delay=st.integers(0, 30), horizon=st.integers(1, 30))
def test_weights_equal_for_every_delay_horizon_and_prefix(prefix_rows: int, delay: int, horizon: int):
    end = min(horizon, prefix_rows)  # LeRobot's denoise_step cuts the horizon so before it asks
    theirs = RTCProcessor(RTCConfig()).get_prefix_weights(delay, end, SIZE)
    np.testing.assert_allclose(prefix_weights(prefix_rows, delay, horizon, SIZE), theirs.numpy(), atol=1e-6)
