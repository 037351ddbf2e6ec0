# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: the YAML that says which policy one server process serves, and how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from remote_inference.core.document import (
    Document,
    DocumentError,
    NameIn,
    parse_document,
    parse_yaml,
    read_yaml,
)
from remote_inference.core.server.backends import BACK_ENDS
from remote_inference.core.server.schedulers import SCHEDULERS

Options = TypeVar("Options", bound=Document)

ENVIRONMENT_PREFIX = "REMOTE_INFERENCE_MANIFEST_"


class ModelSource(Document):
    """Which weights, and where they run."""

    backend: Annotated[
        str,
        NameIn(BACK_ENDS),
        Field(
            description="what computes the chunks; hold: every joint stays where it is, for commissioning; "
            "`module:attribute`: a policy of your own, found on PYTHONPATH; any other name: an entry point "
            "of an installed distribution (`remote-inference backends` lists them)"
        ),
    ]
    path: Annotated[
        str,
        Field(
            min_length=1,
            description="folder of the policy, or a file: the weights (with a `policy.json` beside them), "
            "for hold its `policy.json`, for onnx the `.onnx`; relative to the manifest's",
        ),
    ]
    revision: Annotated[str, Field(description="the only revision to serve; empty: the folder's")] = ""
    device: Annotated[str, Field(min_length=1, description="where it runs, as torch names it")] = "cpu"
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], Field(description="precision of the weights")
    ] = "float32"
    options: Annotated[
        Mapping[str, Any], Field(description="what the back end asks for besides, with keys of its own")
    ] = {}

    def read_options(self, model: type[Options]) -> Options:
        """Return the options as the back end's own document. Raises DocumentError naming the key."""
        return parse_document(dict(self.options), model, "model.options")

    @property
    def settings(self) -> dict[str, Any]:
        """What decides about the chunks besides the files, for `core.fingerprint.make_fingerprint`."""
        return {"dtype": self.dtype, "options": dict(self.options)}


class Manifest(Document):
    """One server process: one policy on one device."""

    model: Annotated[ModelSource, Field(description="the policy, and where it runs")]
    default_task: Annotated[str, Field(description="task of robots that send no task")] = ""
    pin_task: Annotated[bool, Field(description="refuse robots with another task than default_task")] = False
    strict_fps: Annotated[
        bool, Field(description="refuse robots whose control rate differs from training, instead of warning")
    ] = False
    serving_mode: Annotated[
        Literal["auto", "shared", "exclusive"],
        Field(
            description="auto: many sessions when the probe after warm-up allows it; exclusive: one; shared: "
            "many, also when the probe finds that answers differ, which is a warning"
        ),
    ] = "auto"
    max_sessions: Annotated[int, Field(ge=1, le=10_000, description="robots admitted at a time")] = 1
    session_grace_s: Annotated[
        float,
        Field(ge=0.1, le=3_600.0, description="end a session this long after its robot vanished [s]"),
    ] = 10.0
    session_idle_timeout_s: Annotated[
        float, Field(ge=1.0, le=86_400.0, description="end a session without requests after this [s]")
    ] = 300.0
    scheduler: Annotated[
        str,
        NameIn(SCHEDULERS),
        Field(description="one request at a time in turn, or several in one call of the policy"),
    ] = "round_robin"
    max_batch: Annotated[int, Field(ge=1, le=1_024, description="micro_batch: most requests in one call")] = 8
    batch_window_ms: Annotated[
        float, Field(ge=0.0, le=1_000.0, description="micro_batch: longest wait for more requests [ms]")
    ] = 5.0
    warmup_inferences: Annotated[
        int,
        Field(
            ge=1,
            le=1_000,
            description="requests served at start-up before the timed ones",
        ),
    ] = 2
    max_consecutive_failures: Annotated[
        int,
        Field(
            ge=1,
            le=1_000_000,
            description="failed calls of the policy in a row after which the server probes the policy",
        ),
    ] = 10
    inference_timeout_s: Annotated[
        float,
        Field(
            ge=1.0,
            le=3_600.0,
            description="an inference that lasts longer is unhealthy, and not ready at half of it [s]",
        ),
    ] = 30.0
    health_port: Annotated[
        int, Field(ge=0, le=65_535, description="status page, probes and metrics on every interface; 0: off")
    ] = 0
    audit_file: Annotated[
        str, Field(description="one JSON line per request, relative to the manifest's folder; empty: none")
    ] = ""
    capture_dir: Annotated[
        str,
        Field(description="folder of requests for `replay-capture`, relative to the manifest's; empty: none"),
    ] = ""
    capture_max: Annotated[int, Field(ge=1, le=1_000_000, description="newest requests kept")] = 100
    inject_latency_ms: Annotated[
        float, Field(ge=0.0, le=60_000.0, description="delay of each chunk, for tests and the demo [ms]")
    ] = 0.0


def load_manifest(path: str | Path, environment: Mapping[str, str] | None = None) -> Manifest:
    """Read a manifest, let environment variables win over it, and make its paths absolute.

    `REMOTE_INFERENCE_MANIFEST_MAX_SESSIONS=8` sets `max_sessions`, `..._MODEL__DEVICE=cuda:1` sets
    `model.device`; values are YAML. Raises DocumentError naming file, key, what was found and expected.
    """
    content = read_yaml(path)
    source = str(path)
    for variable, text in sorted((environment or {}).items()):
        if variable.startswith(ENVIRONMENT_PREFIX) and isinstance(content, dict):
            _set(content, variable, text)
            source = f"{path} with {variable}"
    manifest = parse_document(content, Manifest, source)
    home = Path(path).resolve().parent
    model = manifest.model.model_copy(update={"path": str(home / manifest.model.path)})
    paths = {
        key: str(home / value) if value else ""
        for key, value in (("capture_dir", manifest.capture_dir), ("audit_file", manifest.audit_file))
    }
    return manifest.model_copy(update={"model": model, **paths})


def _set(content: dict[str, Any], variable: str, text: str) -> None:
    """Set the key that an environment variable names. Raises DocumentError for a value that is no YAML."""
    *sections, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise DocumentError(f"{variable}: {section} holds {content!r}, expected a section with keys")
    try:
        content[key] = parse_yaml(text, variable)
    except DocumentError as error:
        raise DocumentError(f"{variable}: found {text!r}, expected YAML") from error
