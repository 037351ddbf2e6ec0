# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bags: recorded, read back and drawn."""

from remote_inference.recording.bag import BagError, BagTopic, BagWriter, open_bag
from remote_inference.recording.frames import FramesError, draw_film_strip
from remote_inference.recording.report import ReportError, draw_report
from remote_inference.recording.summary import summarise
from remote_inference.recording.timeline import Timeline, load_timeline

__all__ = [
    "BagError",
    "BagTopic",
    "BagWriter",
    "FramesError",
    "ReportError",
    "Timeline",
    "draw_film_strip",
    "draw_report",
    "load_timeline",
    "open_bag",
    "summarise",
]
