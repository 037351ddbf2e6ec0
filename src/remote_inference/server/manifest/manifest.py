# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: the YAML that says which policy one server process serves, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from remote_inference.base.documents.document import (
    Document,
    DocumentError,
    NameIn,
    parse_document,
    parse_yaml,
    read_yaml,
)
from remote_inference.base.limits import MAX_CAMERAS, RequestLimits
from remote_inference.base.tags import check_keys, check_tags
from remote_inference.server.manifest.sections import (
    BACK_ENDS,
    GATEWAYS,
    LerobotAsyncSection,
    OpenpiSection,
    WeightsSection,
)
from remote_inference.server.schedulers import SCHEDULERS, SchedulerOptions

Options = TypeVar("Options", bound=Document)

ENVIRONMENT_PREFIX = "REMOTE_INFERENCE_MANIFEST_"
TASK = "{task}"  # in a task template


def _take_first_device(device: Any) -> Any:
    """Return the first of a list. Raises ValueError for a list in which a device can never be used."""
    if not isinstance(device, tuple) or not device or not all(isinstance(name, str) for name in device):
        return device
    if twice := [name for index, name in enumerate(device) if name in device[:index]]:
        raise ValueError(f"found {twice[0]!r} twice, expected each device once")
    if "cpu" in device[:-1]:
        after = device[device.index("cpu") + 1]
        raise ValueError(f"found {after!r} after 'cpu', which every machine has; expected 'cpu' at the end")
    return device[0]


def _check_template(template: str) -> str:
    if template.replace(TASK, "", 1).count(TASK) or TASK not in template:
        raise ValueError(f"found {template!r}, expected {TASK} in it, once")
    return template


Side = Annotated[int, Field(ge=1, le=8192)]


class ModelSource(Document):
    """Which weights, and where they run."""

    backend: Annotated[str, NameIn(BACK_ENDS)]
    """what computes the chunks; hold: nothing moves, for commissioning; `module:attribute`: a policy of your
    own, found on PYTHONPATH; any other name: an entry point of an installed distribution
    (`remote-inference backends` lists them)"""
    path: Annotated[str, Field(min_length=1)]
    """folder of the policy, or a file: the weights (with a `policy.json` beside them), for hold its
    `policy.json`, for onnx the `.onnx`; for a policy on another server the folder of its key, such as `.`;
    relative to the manifest's"""
    revision: Annotated[str, Field(description="the only revision to serve; empty: the folder's")] = ""
    device: Annotated[
        str,
        BeforeValidator(_take_first_device),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                ]
            }
        ),
        Field(min_length=1),
    ] = "cpu"
    """where it runs, as torch names it; a list, for example `[cuda:0, cpu]`: the first that this machine
    has"""
    replicas: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """devices that have a copy of the policy each, in the place of `device`: sessions are spread, and a batch
    is computed on all of them at once; for `scheduler: micro_batch`"""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """precision of the weights; left out: as the checkpoint says, float32 where it says nothing"""
    options: Mapping[str, Any] = {}
    """what the back end asks for besides, with keys of its own"""

    _devices: tuple[str, ...] = PrivateAttr(default=())  # of a list; a back end gets one in `device`

    @model_validator(mode="wrap")
    @classmethod
    def _keep_devices(cls, content: Any, handler: ModelWrapValidatorHandler[ModelSource]) -> ModelSource:
        made = handler(content)
        if made.replicas and "device" in made.model_fields_set:
            found = f"replicas: found {list(made.replicas)} and device {made.device!r}"
            raise ValueError(f"{found}, expected one of the two keys")
        device = content.get("device") if isinstance(content, dict) else None
        if isinstance(device, tuple):
            made._devices = device
        return made

    @property
    def choices(self) -> tuple[ModelSource, ...]:
        """The section with each of its devices, in order."""
        devices = self._devices or (self.device,)
        choices = tuple(self.model_copy(update={"device": device}) for device in devices)
        for choice in choices:
            choice._devices = ()
        return choices

    def require_path(self) -> Path:
        """Return the path. Raises DocumentError when nothing is there, as for a policy's name on a hub."""
        if not os.path.exists(self.path):
            expected = "a folder or a file on this machine; nothing is fetched from a hub"
            raise DocumentError(f"model.path: found nothing at {self.path}, expected {expected}")
        return Path(self.path)

    def read_options(self, model: type[Options]) -> Options:
        """Return the options as the back end's own document. Raises DocumentError naming the key."""
        return parse_document(dict(self.options), model, "model.options")

    @property
    def precision(self) -> str:
        """`dtype` for a back end whose files say nothing of it: float32 where it is left out."""
        return self.dtype or "float32"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides about the chunks besides the files, for `base.fingerprint.make_fingerprint`."""
        return {"dtype": self.precision, "options": dict(self.options)}


class Manifest(Document):
    """One server process: one policy, on one device or with a replica on each of several."""

    model: Annotated[ModelSource, Field(description="the policy, and where it runs")]
    default_task: Annotated[str, Field(description="task of robots that send no task")] = ""
    task_template: Annotated[str, AfterValidator(_check_template)] = TASK
    """what the policy reads, with a robot's task in the place of `{task}`"""
    pin_task: Annotated[bool, Field(description="refuse robots with another task than default_task")] = False
    strict_fps: bool = False
    """refuse robots whose rate of actions differs from training, instead of warning"""
    serving_mode: Literal["auto", "shared", "exclusive"] = "auto"
    """auto: many sessions when the probe after warm-up allows it; exclusive: one; shared: many, also when the
    probe finds that answers differ, which is a warning"""
    tags: Annotated[tuple[str, ...], AfterValidator(check_tags)] = ()
    """by which a robot's goal may name the policy, besides its name, `key=value` each"""
    max_sessions: Annotated[int, Field(ge=1, le=10_000, description="robots admitted at a time")] = 1
    max_cameras: Annotated[int, Field(ge=0, le=MAX_CAMERAS)] = RequestLimits.cameras
    """cameras that a robot may offer"""
    max_request_pixels: Annotated[int, Field(ge=1, le=1_000_000_000)] = RequestLimits.pixels
    """pixels of all images of one request, also of those that the policy does not use [px]"""
    max_request_bytes: Annotated[int, Field(ge=1024, le=2_000_000_000)] = RequestLimits.size_bytes
    """bytes of one request"""
    session_grace_s: Annotated[float, Field(ge=0.1, le=3600.0)] = 10.0
    """end a session this long after its robot vanished [s]"""
    session_idle_timeout_s: Annotated[float, Field(ge=1.0, le=86_400.0)] = 300.0
    """end a session without requests after this [s]"""
    idle_release_s: Annotated[float, Field(ge=0.0, le=604_800.0)] = 0.0
    """free the device after this without sessions, and load again for the next robot [s]; 0: never"""
    scheduler: Annotated[str, NameIn(SCHEDULERS)] = "round_robin"
    """one request at a time, or several in one call of the policy; the session that has cost least is served
    first, with `deadline` the robot whose queue ends soonest; any other name: an entry point of an
    installed distribution"""
    warmup_image_sizes: tuple[tuple[Side, Side], ...] = ()
    """image sizes of the robots, `[height, width]` each, to warm up besides that of the training [px]"""
    warmup_inferences: Annotated[int, Field(ge=1, le=1000)] = 2
    """requests served at start-up before the timed ones"""
    max_consecutive_failures: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """failed calls of the policy in a row after which the server probes the policy"""
    inference_timeout_s: Annotated[float, Field(ge=1.0, le=3600.0)] = 30.0
    """an inference that lasts longer is unhealthy, and not ready at half of it [s]"""
    health_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """status page, probes and metrics on every interface; 0: off"""
    metric_tags: Annotated[tuple[str, ...], AfterValidator(check_keys)] = ()
    """keys of robots' tags that label their metrics, as `tag_<key>`; a robot without that tag has an empty
    label"""
    audit_file: str = ""
    """one JSON line per request, relative to the manifest's folder; empty: none"""
    capture_dir: str = ""
    """folder of requests for `replay --capture`, relative to the manifest's; empty: none"""
    capture_max: Annotated[int, Field(ge=1, le=1_000_000, description="newest requests kept")] = 100
    openpi: OpenpiSection | None = None
    """serve programs that use openpi-client, too; left out: no port is opened"""
    lerobot_async: LerobotAsyncSection | None = None
    """serve robots that run LeRobot's `robot_client`, too; left out: no port is opened"""
    weights: WeightsSection | None = None
    """updates of the weights while they are served; left out: none are taken"""
    inject_latency_ms: Annotated[float, Field(ge=0.0, le=60_000.0)] = 0.0
    """delay of each chunk, for tests and the demo [ms]"""
    inject_jitter_ms: Annotated[float, Field(ge=0.0, le=60_000.0)] = 0.0
    """largest deviation of that delay, either way [ms]"""
    inject_loss: Annotated[float, Field(ge=0.0, lt=1.0, description="fraction of the chunks lost")] = 0.0

    _scheduler_options: SchedulerOptions = PrivateAttr(default_factory=SchedulerOptions)

    @model_validator(mode="wrap")
    @classmethod
    def _read_scheduler_options(cls, content: Any, handler: ModelWrapValidatorHandler[Manifest]) -> Manifest:
        """Read the scheduler's own keys. Those of the other built-in ones may stand there, too."""
        if not isinstance(content, dict):
            return handler(content)
        name = content.get("scheduler", cls.model_fields["scheduler"].default)
        models = {known: _options_of(known) for known in SCHEDULERS.names}
        if isinstance(name, str) and name in SCHEDULERS.every_name:
            models[name] = _options_of(name)
        taken = {key for model in models.values() for key in model.model_fields} - set(cls.model_fields)
        made = handler({key: value for key, value in content.items() if key not in taken})
        for known, model in models.items():
            read = model.model_validate({key: content[key] for key in model.model_fields if key in content})
            if known == made.scheduler:
                made._scheduler_options = read
        return made

    @classmethod
    def every_key(cls) -> Mapping[str, FieldInfo]:
        """Return the keys of a manifest, with those of the built-in schedulers behind `scheduler`."""
        keys: dict[str, FieldInfo] = {}
        for key, field in super().every_key().items():
            keys[key] = field
            if key == "scheduler":
                for name in SCHEDULERS.names:
                    keys |= _options_of(name).every_key()
        return keys

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        made = super().__get_pydantic_json_schema__(schema, handler)
        resolved = handler.resolve_ref_schema(made)
        properties = dict(resolved["properties"])
        for name in SCHEDULERS.names:
            properties |= _options_of(name).model_json_schema().get("properties", {})
        resolved["properties"] = {key: properties[key] for key in cls.every_key()}
        return made

    @model_validator(mode="after")
    def _consistent(self) -> Manifest:
        if self.pin_task and not self.default_task:
            raise ValueError("pin_task: found true without default_task, expected the task to pin")
        if self.model.replicas:
            self._check_replicas()
        reasons = {**dict.fromkeys(GATEWAYS, "its clients find no port"), "weights": "updates are lost"}
        for name, reason in reasons.items():
            if self.idle_release_s and getattr(self, name) is not None:
                found = f"idle_release_s: found {self.idle_release_s:g} with {name}, expected one of the two"
                raise ValueError(f"{found}: {reason} while the policy is released")
        return self

    def _check_replicas(self) -> None:
        found = f"model.replicas: found {list(self.model.replicas)}"
        if self.scheduler_options.most < 2:
            expected = "one that batches, and a max_batch: one request at a time keeps one of them busy"
            raise ValueError(f"{found} with scheduler {self.scheduler!r}, expected {expected}")
        if self.weights is not None:
            raise ValueError(f"{found} with weights, expected one of the two: updates change one copy alone")

    @property
    def scheduler_options(self) -> Any:
        """The scheduler's keys, as its own `options`."""
        return self._scheduler_options

    @property
    def limits(self) -> RequestLimits:
        """What one request of a robot may hold."""
        return RequestLimits(self.max_cameras, self.max_request_pixels, self.max_request_bytes)

    def instruct(self, task: str) -> str:
        """Return what the policy reads for a robot's task; an empty task is the default task."""
        return self.task_template.replace(TASK, task or self.default_task)


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
    changes: dict[str, Any] = {}
    for key in ("capture_dir", "audit_file"):
        changes[key] = str(home / value) if (value := getattr(manifest, key)) else ""
    for name, key in (("model", "path"), ("openpi", "api_key_file"), ("weights", "socket")):
        section = getattr(manifest, name)
        if section is not None and (value := getattr(section, key)):
            section = section.model_copy(update={key: str(home / value)})
        changes[name] = section
    return manifest.model_copy(update=changes)


def _options_of(scheduler: str) -> type[SchedulerOptions]:
    try:
        return SCHEDULERS.get(scheduler).options
    except (ImportError, AttributeError) as error:
        raise ValueError(f"scheduler: {SCHEDULERS.describe(scheduler)} cannot be used: {error}") from error


def _set(content: dict[str, Any], variable: str, text: str) -> None:
    *sections, key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
    for section in sections:
        content = content.setdefault(section, {})
        if not isinstance(content, dict):
            raise DocumentError(f"{variable}: {section} holds {content!r}, expected a section with keys")
    try:
        content[key] = parse_yaml(text, variable)
    except DocumentError as error:
        raise DocumentError(f"{variable}: found {text!r}, expected YAML") from error
