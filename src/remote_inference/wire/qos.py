# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Topic names and QoS of the package's own topics.

KEEP_LAST everywhere: rmw_zenoh maps it to congestion control DROP, so a stalled link drops a sample and
blocks neither robot nor server. KEEP_ALL with RELIABLE would block.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

# Relative to the robot's namespace.
OBSERVATION_TOPIC = "remote_inference/observation"
CHUNK_TOPIC = "remote_inference/chunk"
STATE_TOPIC = "remote_inference/state"
EXECUTED_TOPIC = "remote_inference/executed"
# Absolute: where every node of a ROS system reports.
DIAGNOSTICS_TOPIC = "/diagnostics"

# Observation and chunk: a lost one is recovered by the request cycle, an old one is worthless.
EXCHANGE_QOS = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.RELIABLE)
# States: late joiners see the newest.
LATCHED_QOS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST,
    depth=1,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
EXECUTED_QOS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST, depth=100, reliability=ReliabilityPolicy.BEST_EFFORT
)
# Sensors: the newest message counts; best effort accepts every publisher.
SENSOR_QOS = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND_QOS = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.RELIABLE)
DIAGNOSTICS_QOS = QoSProfile(
    history=HistoryPolicy.KEEP_LAST, depth=10, reliability=ReliabilityPolicy.RELIABLE
)
