#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulated cameras need EGL or OSMesa. Install them where that is possible, say how where it is not.
set -eu
packages="libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
renders() {
  for backend in egl osmesa; do
    MUJOCO_GL=$backend python - 2>/dev/null <<'PY' && return 0
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
renderer = mujoco.Renderer(model, 16, 16)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
renderer.close()
PY
  done
  return 1
}
renders && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing system libraries for headless rendering: $packages"
  apt-get update -qq >/dev/null
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
  renders && exit 0
fi
echo "MuJoCo cannot render without a display here: neither EGL nor OSMesa works." >&2
echo "On Debian and Ubuntu: sudo apt-get install $packages" >&2
exit 1
