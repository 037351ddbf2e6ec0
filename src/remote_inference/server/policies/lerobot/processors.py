# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's own processors around a policy, a linked pair for each session."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lerobot.configs import FeatureType, NormalizationMode
from lerobot.policies.rtc import reanchor_relative_rtc_prefix
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import (
    AbsoluteActionsProcessorStep,
    NormalizerProcessorStep,
    PolicyProcessorPipeline,
    RelativeActionsProcessorStep,
    UnnormalizerProcessorStep,
    converters,
)
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from remote_inference.base.lerobot_format import STATE
from remote_inference.base.policy import Float32Array, PastStep, PolicyError, PolicyObservation
from remote_inference.server.policies.file_content import Content, explain_damage, one_line
from remote_inference.server.policies.lerobot.checkpoint import CONFIG_FILE, Checkpoint, SavedPipeline
from remote_inference.server.policies.trained_policy import ranges_of, read_image, read_prefix, read_state

# Without a step, a mode or statistics LeRobot passes a feature on as it is, and statistics of another length
# are broadcast: the arm would get actions in no unit at all, and nothing would say so.

STATISTICS = {
    NormalizationMode.MEAN_STD: ("mean", "std"),
    NormalizationMode.MIN_MAX: ("min", "max"),
    NormalizationMode.QUANTILES: ("q01", "q99"),
    NormalizationMode.QUANTILE10: ("q10", "q90"),
}
"""The statistics that LeRobot's normaliser needs for each mode."""


def _check_feature(step: Any, place: str, key: str, feature: Any, expected: Any) -> None:
    mode = _mode_of(step, key, feature)
    if mode is not expected:
        found = f"{place}: {key}: found the mode {mode.value}"
        raise PolicyError(f"{found}, expected {expected.value} as in {CONFIG_FILE}")
    known = step.state_dict()
    for statistic in STATISTICS.get(expected, ()):
        values = known.get(f"{key}.{statistic}")
        if values is None:
            found = f"{place}: {key}: found no statistics {statistic!r}"
            raise PolicyError(f"{found}, expected those of the training data for {expected.value}")
        # One number per channel of an image, whichever way they are laid out.
        shape = (values.numel(),) if feature.type is FeatureType.VISUAL else tuple(values.shape)
        if shape != tuple(feature.shape[:1] if feature.type is FeatureType.VISUAL else feature.shape):
            found = f"{place}: {key}: found {statistic!r} of shape {list(values.shape)}"
            raise PolicyError(f"{found}, expected {list(feature.shape)} as in {CONFIG_FILE}")


def _mode_of(step: Any, key: str, feature: Any) -> Any:
    """Return what a step does to a feature: it scales observations that it lists, and all actions."""
    chosen = step.normalize_observation_keys
    is_listed = key in step.features and (chosen is None or key in chosen)
    if feature.type is not FeatureType.ACTION and not is_listed:
        return NormalizationMode.IDENTITY
    return step.norm_map.get(feature.type, NormalizationMode.IDENTITY)


@dataclass(frozen=True)
class Features:
    """The shapes of a policy's inputs and outputs."""

    state_dim: int | None  # None: a policy without state
    action_dim: int
    image_shapes: Mapping[str, tuple[int, int, int]]
    steps: int | None = None  # control ticks along the time axis of an observation; None: it has none


@dataclass(frozen=True)
class LeRobotInput:
    """One observation as a policy takes it, with a leading dimension of 1.

    prefix: model space `[rows, action_dim]` to continue, or None. delay_steps: rows of the prefix that will
    be executed before the chunk arrives.
    """

    batch: Mapping[str, Any]
    seed: int
    prefix: torch.Tensor | None = None
    delay_steps: int = 0


class ProcessorFactory:
    """Makes pairs of processors from a checkpoint's content: the files are not read again."""

    def __init__(
        self, checkpoint: Checkpoint, features: Features, device: torch.device, tokenizer: Any
    ) -> None:
        """tokenizer: of the step that has one, or None. Raises PolicyError naming file and step."""
        self.device = device
        self.features = features
        # For LeRobot's preprocessor: all pairs share its tokenizer, which one thread may use.
        self.lock = threading.Lock()
        self._pre = _Blueprint(
            checkpoint.pre,
            {
                "device_processor": {"device": str(device)},
                "relative_actions_processor": _relative_names(checkpoint),
                # To a fixed length: tasks of different lengths make one batch.
                "tokenizer_processor": {"tokenizer": tokenizer, "padding": "max_length"},
            },
        )
        self._post = _Blueprint(checkpoint.post, {"device_processor": {"device": "cpu"}})

    @property
    def makes_absolute(self) -> bool:
        """Whether the actions that leave the processors are a model's differences, added to the state."""
        return bool((self._pre.saved.find_step("relative_actions_processor") or {}).get("enabled"))

    def make_pair(self) -> tuple[Any, Any]:
        """Return a new pre- and postprocessor, which share the state that relative actions refer to."""
        pre = self._pre.build(converters.batch_to_transition, converters.transition_to_batch)
        post = self._post.build(
            converters.policy_action_to_transition, converters.transition_to_policy_action
        )
        relative = _find(pre, RelativeActionsProcessorStep)
        for step in post.steps:
            if isinstance(step, AbsoluteActionsProcessorStep):
                step.relative_step = relative
        return pre, post

    def find_state_ranges(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the policy's `state_ranges`, as far as its statistics say them."""
        return _ranges_of(_find(self.make_pair()[0], NormalizerProcessorStep), STATE, names)

    def find_action_ranges(self, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the policy's `action_ranges`: none of a model's differences, which no robot gets."""
        if self.makes_absolute:
            return {}
        return _ranges_of(_find(self.make_pair()[1], UnnormalizerProcessorStep), "action", names)

    def check_normalization(self, config: Any) -> None:
        """Raise PolicyError unless one step scales each feature as the policy's configuration says."""
        pre, post = self.make_pair()
        taken = {*self.features.image_shapes, STATE}
        inputs = {key: feature for key, feature in (config.input_features or {}).items() if key in taken}
        outputs = {"action": config.action_feature}
        for pipeline, kind, name, features, file in (
            (pre, NormalizerProcessorStep, "normalizer_processor", inputs, self._pre.saved.file),
            (post, UnnormalizerProcessorStep, "unnormalizer_processor", outputs, self._post.saved.file),
        ):
            steps = [step for step in pipeline.steps if isinstance(step, kind)]
            if len(steps) > 1:
                raise PolicyError(f"{file}: steps: found {len(steps)} of {name}, expected one")
            for key, feature in features.items():
                expected = config.normalization_mapping.get(feature.type.value, NormalizationMode.IDENTITY)
                if steps:
                    _check_feature(steps[0], f"{file}: {name}", key, feature, expected)
                elif expected is not NormalizationMode.IDENTITY:
                    why = f"{CONFIG_FILE} says {expected.value} for {key}"
                    raise PolicyError(f"{file}: steps: found no {name}, expected one: {why}")


class LeRobotProcessors:
    """The pair of one session."""

    def __init__(self, factory: ProcessorFactory, rtc_rows: int) -> None:
        """rtc_rows: most rows of a prefix that the policy continues; 0: it continues none."""
        self._pre, self._post = factory.make_pair()
        self._features, self._device, self._lock = factory.features, factory.device, factory.lock
        self._rtc_rows = rtc_rows
        relative = _find(self._pre, RelativeActionsProcessorStep)
        self._relative = relative if relative is not None and relative.enabled else None

    def pre(self, observation: PolicyObservation) -> LeRobotInput:
        arrays = self._prepare(observation)
        with self._lock:
            prepared = self._pre(arrays)
        batch = {
            key: value
            for key, value in prepared.items()
            if isinstance(value, torch.Tensor) or (key == "task" and isinstance(value, list))
        }
        prefix = self._read_prefix(observation)
        return LeRobotInput(batch, observation.seed, prefix, observation.executed_steps)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        rows = self._post(torch.from_numpy(np.array(chunk_model))[None])[0]
        return np.asarray(rows.to(torch.float32).numpy())

    def reset(self) -> None:
        self._pre.reset()
        self._post.reset()

    def _prepare(self, observation: PolicyObservation) -> dict[str, Any]:
        """Return the observation as tensors `[1, ...]`, with a time axis `[1, steps, ...]`."""
        seen: list[PastStep | PolicyObservation] = [*observation.past, observation]
        ticks = [self._prepare_tick(tick, observation.task) for tick in seen]
        expected = self._features.steps or 1
        if len(ticks) != expected:
            raise PolicyError(f"past: found {len(ticks) - 1} control ticks, expected {expected - 1}")
        if self._features.steps is None:
            return ticks[-1]
        return {
            key: torch.stack([tick[key] for tick in ticks], dim=1)
            if isinstance(value, torch.Tensor)
            else value
            for key, value in ticks[-1].items()
        }

    def _prepare_tick(self, tick: PastStep | PolicyObservation, task: str) -> dict[str, Any]:
        """Return one control tick as tensors `[1, ...]` on the device, images at the size of the training."""
        arrays: dict[str, Any] = {
            feature: read_image(tick.images, feature, height, width).transpose(1, 2, 0)
            for feature, (height, width, _) in self._features.image_shapes.items()
        }
        if self._features.state_dim is not None:
            arrays[STATE] = read_state(tick.state, self._features.state_dim).copy()
        batch: dict[str, Any] = prepare_observation_for_inference(arrays, self._device, task)
        return batch

    def _read_prefix(self, observation: PolicyObservation) -> torch.Tensor | None:
        """Return the prefix in model space; that of a relative policy refers to the new state."""
        if not self._rtc_rows:
            return None
        name = "prefix_model" if self._relative is None else "prefix_robot"
        rows = read_prefix(getattr(observation, name), self._features.action_dim, name)
        if not len(rows):
            return None
        prefix = torch.from_numpy(np.array(rows[: self._rtc_rows]))
        if self._relative is None:
            return prefix.to(self._device)
        anchored = reanchor_relative_rtc_prefix(
            prefix,
            self._relative.get_cached_state(),
            self._relative,
            _find(self._pre, NormalizerProcessorStep),
            self._device,
        )
        return torch.as_tensor(anchored)


class _Blueprint:
    """A saved pipeline with what differs on this machine."""

    def __init__(self, saved: SavedPipeline, overrides: Mapping[str, Mapping[str, Any]]) -> None:
        self.saved = saved
        self._overrides = {
            name: dict(keys) for name, keys in overrides.items() if saved.find_step(name) is not None
        }
        self._tensors = {
            name.removesuffix(".safetensors"): _parse_tensors(content, saved, name)
            for name, content in saved.tensors.items()
        }

    def build(self, to_transition: Any, to_output: Any) -> Any:
        try:
            return PolicyProcessorPipeline.from_config(
                copy.deepcopy(dict(self.saved.content)),
                state_dict=self._tensors,
                overrides=self._overrides,
                to_transition=to_transition,
                to_output=to_output,
            )
        except Exception as error:  # a step's class raises what it likes
            raise PolicyError(f"{self.saved.file}: {one_line(error)}") from error


def _ranges_of(step: Any, key: str, names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return where most of a feature's training data was, by name; nothing where no statistics say it."""
    known = step.state_dict() if step is not None else {}

    def read(part: str) -> NDArray[Any] | None:
        found = known.get(f"{key}.{part}")
        if found is None or tuple(found.shape) != (len(names),):
            return None
        values: NDArray[Any] = found.float().cpu().numpy()
        return values

    low, high, least, most = read("q01"), read("q99"), read("min"), read("max")
    mean, std = read("mean"), read("std")
    if low is None or high is None:
        low, high = (least, most) if mean is None or std is None else (mean - 2 * std, mean + 2 * std)
    if low is None or high is None:
        return {}
    if least is not None and most is not None:  # data at its two ends deviates farther than it goes
        low, high = np.maximum(low, least), np.minimum(high, most)
    return ranges_of(names, (low + high) / 2, (high - low) / 4)


def _find(pipeline: Any, kind: type) -> Any:
    return next((step for step in pipeline.steps if isinstance(step, kind)), None)


def _parse_tensors(content: bytes, saved: SavedPipeline, name: str) -> dict[str, torch.Tensor]:
    try:
        return dict(load_tensors(content))
    except (SafetensorError, ValueError) as error:
        problem = explain_damage(content, Content.SAFETENSORS, error)
        raise PolicyError(f"{saved.file.with_name(name)}: {problem}") from error


def _relative_names(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the action names by which joints are excluded from relative actions, where they are missing.

    Without names LeRobot excludes nothing, not even the gripper, and says nothing.
    """
    step = checkpoint.pre.find_step("relative_actions_processor") or {}
    if not step.get("enabled") or not step.get("exclude_joints") or step.get("action_names"):
        return {}
    if names := checkpoint.config.get("action_feature_names"):
        return {"action_names": names}
    raise PolicyError(
        f"{checkpoint.pre.file}: relative_actions_processor.action_names: found none, so that exclude_joints "
        f"{step['exclude_joints']} excludes nothing; expected the names that the policy was trained with, or "
        "an empty exclude_joints if it was trained without"
    )
