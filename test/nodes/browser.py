# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium from the system's packages, controlled by WebDriver; nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # for root, as in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOAD_DEADLINE_S = 30.0


@contextmanager
def chromium(profile: Path, width: int, height: int) -> Iterator[WebDriver]:
    """Start a browser whose pages are width x height pixels, with a new profile in an empty folder.

    Raises FileNotFoundError when it is not installed: a test that needs it fails and is not skipped.
    """
    browser, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver_path is None:
        raise FileNotFoundError("chromium or chromedriver is missing: run tools/ensure_chromium.sh")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(driver_path))
    try:
        driver.set_page_load_timeout(LOAD_DEADLINE_S)
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()


def resize(driver: WebDriver, width: int, height: int) -> None:
    """Set the page's size [px]. A window has a minimum size, so the page's viewport is set instead."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
