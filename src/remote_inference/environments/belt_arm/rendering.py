# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Off-screen rendering of a MuJoCo model without a display, on EGL or else OSMesa.

`MUJOCO_GL` names the backend when it is set; otherwise the first that can create a context in a child
process is taken and `MUJOCO_GL` is set to it, so that processes started from here need not probe again.
"""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import weakref
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

_PROBED_BACKENDS = ("egl", "osmesa")
_KNOWN_BACKENDS = (*_PROBED_BACKENDS, "glfw")
_DEBIAN_PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
_PROBE = (
    "import sys, importlib; importlib.import_module('mujoco.' + sys.argv[1]).GLContext(16, 16).make_current()"
)
_PROBE_TIMEOUT_S = 30.0
_MAX_GEOMS = 200


class RenderingUnavailableError(RuntimeError):
    """No OpenGL backend can create a context; the message names the packages that bring one."""


class OffscreenRenderer:
    """Renders one model at one image size.

    The OpenGL context belongs to the thread that constructed the renderer: call every method there.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        backend = _choose_backend()
        # Mesa's worker threads do not render images of this size any faster.
        os.environ.setdefault("LP_NUM_THREADS", "0")
        try:
            self._gl_context: Any = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            self._gl_context.make_current()
            self._mjr_context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # every backend fails with its own types
            raise RenderingUnavailableError(_explain({backend: str(error)})) from error
        self._finalizer = weakref.finalize(self, _free, self._gl_context, self._mjr_context)
        # Exit handlers run newest first: this one must come before the backend's, which drops its display.
        self._finalizer.atexit = False
        atexit.register(self._finalizer)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._mjr_context)
        self._model = model
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        for flag in ("SHADOW", "REFLECTION", "HAZE"):
            self._scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{flag}")] = False
        self._options = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._depth = np.empty((height, width), np.float32)

    def render(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.uint8]:
        """Return a new RGB image `[height, width, 3]` of `data`, whose kinematics must be up to date."""
        self._draw(data, camera_id)
        mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._mjr_context)
        return np.ascontiguousarray(self._pixels[::-1])

    def render_depth(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.float32]:
        """Return the distance of each pixel from the camera's plane, float32 `[height, width]` in metres."""
        self._draw(data, camera_id)
        mujoco.mjr_readPixels(None, self._depth, self._viewport, self._mjr_context)
        extent, clipping = self._model.stat.extent, self._model.vis.map
        near, far = clipping.znear * extent, clipping.zfar * extent
        # OpenGL's depth buffer of a perspective projection holds (1/near - 1/z) / (1/near - 1/far).
        return np.ascontiguousarray(near / (1.0 - self._depth[::-1] * (1.0 - near / far)), dtype=np.float32)

    def render_geoms(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.int32]:
        """Return the geom that each pixel shows, int32 `[height, width]`, -1 where there is none."""
        flags = [mujoco.mjtRndFlag.mjRND_SEGMENT.value, mujoco.mjtRndFlag.mjRND_IDCOLOR.value]
        self._scene.flags[flags] = True
        try:
            self._draw(data, camera_id)
        finally:
            self._scene.flags[flags] = False
        mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._mjr_context)
        drawn = self._pixels[::-1].astype(np.int32) @ np.array([1, 256, 65536], np.int32)
        geoms = np.full(self._scene.ngeom + 1, -1, np.int32)  # a pixel shows its object's place plus one
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                geoms[geom.segid + 1] = geom.objid
        return geoms[drawn]

    def _draw(self, data: mujoco.MjData, camera_id: int) -> None:
        if not self._finalizer.alive:
            raise RuntimeError("render() after close()")
        self._gl_context.make_current()
        self._camera.fixedcamid = camera_id
        every_category = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, data, self._options, None, self._camera, every_category, self._scene
        )
        mujoco.mjr_render(self._viewport, self._scene, self._mjr_context)

    def close(self) -> None:
        """Free the OpenGL context; safe to call again."""
        atexit.unregister(self._finalizer)
        self._finalizer()


def _free(gl_context: Any, mjr_context: mujoco.MjrContext) -> None:
    gl_context.make_current()
    mjr_context.free()
    gl_context.free()


def _choose_backend() -> str:
    wanted = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wanted:
        if wanted not in _KNOWN_BACKENDS:
            raise RenderingUnavailableError(
                f"MUJOCO_GL={wanted}: expected one of {', '.join(_KNOWN_BACKENDS)}"
            )
        return wanted
    failures: dict[str, str] = {}
    for backend in _PROBED_BACKENDS:
        failure = _probe(backend)
        if failure is None:
            os.environ["MUJOCO_GL"] = backend
            return backend
        failures[backend] = failure
    raise RenderingUnavailableError(_explain(failures))


def _probe(backend: str) -> str | None:
    """Return why `backend` cannot create a context, or None when it can.

    The probe runs in a child process: PyOpenGL binds to one platform for good, and a broken driver may crash.
    """
    command = [sys.executable, "-c", _PROBE, backend]
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no context after {_PROBE_TIMEOUT_S:.0f} s"
    if child.returncode == 0:
        return None
    return next(reversed(child.stderr.strip().splitlines()), f"exit status {child.returncode}")


def _explain(failures: dict[str, str]) -> str:
    reasons = "; ".join(f"{backend}: {reason}" for backend, reason in failures.items())
    return f"cannot render without a display ({reasons}). On Debian or Ubuntu: apt install {_DEBIAN_PACKAGES}"
