# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Topic names and QoS of the package's own topics.

Every topic but one uses KEEP_LAST, which rmw_zenoh maps to congestion control DROP: a stalled link drops a
sample and blocks neither robot nor server. KEEP_ALL with RELIABLE blocks: that is for a trainer's weights.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
LATCHED = DurabilityPolicy.TRANSIENT_LOCAL

# Relative to the robot's namespace.
OBSERVATION_TOPIC = "remote_inference/observation"
CHUNK_TOPIC = "remote_inference/chunk"
STATE_TOPIC = "remote_inference/state"
EXECUTED_TOPIC = "remote_inference/executed"
HEARTBEAT_TOPIC = "remote_inference/heartbeat"
DECISIONS_TOPIC = "remote_inference/decisions"
WATCHDOG_TOPIC = "remote_inference/watchdog"
PREVIEW_TOPIC = "remote_inference/preview"  # and, for each pose, its name after a slash
# Relative to the node that takes weights.
WEIGHTS_TOPIC = "weights"
WEIGHTS_REPLIES_TOPIC = "weights_replies"
# Absolute: all nodes of a ROS system report there.
DIAGNOSTICS_TOPIC = "/diagnostics"

# With a depth, and nothing else said, rclpy's history is KEEP_LAST.
# Observation and chunk: the request cycle recovers from a lost message, and an old message is worthless.
EXCHANGE_QOS = QoSProfile(depth=1, reliability=RELIABLE)
# Who listens to a robot's chunks beside it, and does not look all the time.
CHUNK_LISTENER_QOS = QoSProfile(depth=100, reliability=RELIABLE)
# States: late joiners receive the newest message.
LATCHED_QOS = QoSProfile(depth=1, reliability=RELIABLE, durability=LATCHED)
EXECUTED_QOS = QoSProfile(depth=100, reliability=BEST_EFFORT)
# A recorder that starts after the robot still gets the begin, without which nothing can be replayed.
DECISIONS_QOS = QoSProfile(depth=256, reliability=RELIABLE, durability=LATCHED)
# Sensors: only the newest message counts, and best effort matches every publisher.
SENSOR_QOS = QoSProfile(depth=1, reliability=BEST_EFFORT)
# Several drivers may share a topic: a message of one must not replace the last one of another.
JOINTS_QOS = QoSProfile(depth=10, reliability=BEST_EFFORT)
# Stops by value: none may be lost, and they may come in quick succession.
STOP_QOS = QoSProfile(depth=10, reliability=RELIABLE)
COMMAND_QOS = QoSProfile(depth=1, reliability=RELIABLE)
# Two processes of one name share the topic: a beat of one must not replace the last one of the other.
HEARTBEAT_QOS = QoSProfile(depth=10, reliability=RELIABLE)
DIAGNOSTICS_QOS = QoSProfile(depth=10, reliability=RELIABLE)
# Weights: a trainer may wait for a slow network, and what is lost costs it a new link. A server may not wait.
WEIGHTS_QOS = QoSProfile(history=HistoryPolicy.KEEP_ALL, reliability=RELIABLE)
WEIGHTS_REPLIES_QOS = QoSProfile(depth=256, reliability=RELIABLE)
