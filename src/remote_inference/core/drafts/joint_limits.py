# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The limits of a joint's actions, as far as its URDF gives them."""

from __future__ import annotations

import math
from typing import Any

from remote_inference.core.documents.marks import mark
from remote_inference.core.drafts.draft import unknown_limit
from remote_inference.core.drafts.urdf import Urdf, UrdfJoint

ANGULAR = {"position": "rad", "velocity": "rad/s", "effort": "Nm"}
LINEAR = {"position": "m", "velocity": "m/s", "effort": "N"}


def suggest_limit(urdf: Urdf | None, name: str, kind: str) -> dict[str, Any]:
    """Return the limit of one action, marked where the URDF does not give it.

    kind: of the actions, "position", "velocity", "effort", or empty when it is not known.
    """
    if urdf is None:
        return unknown_limit(kind, "no URDF was found")
    if (joint := urdf.joints.get(name)) is None:
        return unknown_limit(kind, "the URDF has no joint of this name")
    units = LINEAR if joint.is_linear else ANGULAR
    if kind:
        limit = _position(joint, units) if kind == "position" else _rate(joint, kind, units)
    else:
        limit = unknown_limit("", f"the URDF says {_describe(joint)}")
    if joint.is_linear:
        limit["unit"] = units[kind] if kind else mark("m, m/s or N, by the kind")
    return limit


def _describe(joint: UrdfJoint) -> str:
    """Return what the URDF gives, for a person who has to say the kind first."""
    units = LINEAR if joint.is_linear else ANGULAR
    parts = [joint.kind]
    if joint.lower is not None and joint.upper is not None and joint.kind != "continuous":
        parts.append(f"position {joint.lower:g} to {joint.upper:g} {units['position']}")
    if joint.velocity is not None:
        parts.append(f"velocity {joint.velocity:g} {units['velocity']}")
    if joint.effort is not None:
        parts.append(f"effort {joint.effort:g} {units['effort']}")
    return ", ".join(parts)


def _position(joint: UrdfJoint, units: dict[str, str]) -> dict[str, Any]:
    unit = units["position"]
    lower, upper = joint.lower, joint.upper
    limit = unknown_limit("position", "the URDF has none", unit)
    if joint.kind == "continuous":
        why = "a continuous joint has none in the URDF: choose a range that its cables and this task allow"
        limit = unknown_limit("position", why, unit)
    elif lower is not None and upper is not None:
        if lower < upper:
            limit |= {"min": lower, "max": upper}
        else:
            limit = unknown_limit("position", f"the URDF says {lower:g} to {upper:g}", unit)
    limit["max_velocity"] = _max_velocity(joint, unit)
    return limit


def _max_velocity(joint: UrdfJoint, unit: str) -> float | str:
    if joint.velocity is not None and joint.velocity > 0.0:
        return joint.velocity
    found = "has none" if joint.velocity is None else f"says {joint.velocity:g}"
    return mark(f"bound on the change of the command [{unit}/s]; the URDF {found}")


def _rate(joint: UrdfJoint, kind: str, units: dict[str, str]) -> dict[str, Any]:
    """Return the limit of a velocity or an effort: as much both ways, as URDF means it."""
    unit = units[kind]
    bound = joint.velocity if kind == "velocity" else joint.effort
    if bound is None or not 0.0 < bound < math.inf:
        found = "has none" if bound is None else f"says {bound:g}"
        return unknown_limit(kind, f"the URDF {found}", unit)
    change = bound if kind == "velocity" else mark(f"bound on the change of the command [{unit}/s]")
    return {"min": -bound, "max": bound, "max_velocity": change}
