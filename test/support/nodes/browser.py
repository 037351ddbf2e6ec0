# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium from the system's packages, controlled by WebDriver; nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
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
# Contrast and place of each piece of text that is shown in main.
CONTRAST = """
const channels = (colour) => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const opaque = (e) => !e ? [255, 255, 255]
  : channels(getComputedStyle(e).backgroundColor)[3] === 255 ? channels(getComputedStyle(e).backgroundColor)
  : opaque(e.parentElement);
const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const share = c[i] / 255;
  return sum + weight * (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);
}, 0);
return [...document.querySelectorAll("main *")]
  .filter((e) => e.getClientRects().length)
  .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
  .map((e) => {
    const [a, b] = [channels(getComputedStyle(e).color), opaque(e)].map(luminance).sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), `${e.tagName}.${e.className}: ${e.textContent.slice(0, 30)}`];
  });
"""


def is_installed() -> bool:
    """Return whether there are a browser and its driver, which tools/ensure_chromium.sh offers."""
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


needs_browser = pytest.mark.skipif(not is_installed(), reason="no chromium: run tools/ensure_chromium.sh")


@contextmanager
def chromium(profile: Path, width: int, height: int) -> Iterator[WebDriver]:
    """Start a browser whose pages are width x height pixels, with a new profile in an empty folder.

    Raises FileNotFoundError when it is not installed.
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


def prefer(driver: WebDriver, scheme: str) -> None:
    """Prefer the colour scheme light or dark."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def complaints(driver: WebDriver) -> list[str]:
    """Return what the browser has logged: errors of scripts, and what it refused to load."""
    return [entry["message"] for entry in driver.get_log("browser")]


def overflow(driver: WebDriver) -> int:
    """Return by how many pixels the page is wider than the window."""
    return driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
