#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulated cameras need EGL or OSMesa: offer them where they are missing.
set -eu
# shellcheck source=tools/system_packages.sh
. "$(dirname "$0")/system_packages.sh"
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
# shellcheck disable=SC2086
offer "rendering without a display" $packages && renders && exit 0
do_without "MuJoCo cannot render without a display here, as neither EGL nor OSMesa works: no demo, no cameras in simulation." \
  "On Debian and Ubuntu: sudo apt-get install $packages"
