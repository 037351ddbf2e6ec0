# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Converts between ROS messages and plain data: observations, chunks, sessions, sensors, commands, images.

Received arrays are read as views into the message, and every field is assigned as an `array.array`, so
rclpy copies no array element by element.
"""

# What contracts may name, in registries; libraries that take long to import, before a robot waits for them.
import remote_inference.base.wire.images.encodings.jpeg
import remote_inference.base.wire.images.encodings.png
import remote_inference.base.wire.sensors  # noqa: F401
