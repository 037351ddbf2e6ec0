# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The change log has the form that ROS's release tools read, and tells of the package's version."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
SECTIONS = re.findall(r"^(.+)\n(-+)$", (ROOT / "CHANGELOG.rst").read_text(), re.MULTILINE)


def test_the_newest_release_is_the_package_s_version():
    titles = [title for title, _ in SECTIONS if title != "Forthcoming"]
    dated = [re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d{2}-\d{2}\)", title) for title in titles]
    assert all(dated), titles
    assert dated[0] is not None
    assert dated[0].group(1) == ElementTree.parse(ROOT / "package.xml").findtext("version")


def test_every_title_is_underlined_in_full():
    assert [title for title, line in SECTIONS if len(title) != len(line)] == []
