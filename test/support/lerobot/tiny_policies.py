# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot policies with random weights, saved as LeRobot saves them: small for tests, full for benchmarks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.factory import get_policy_class, make_policy_config, make_pre_post_processors
from lerobot.processor import TokenizerProcessorStep
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

from remote_inference.base.policy import Policy
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from support.device import DEVICE
from support.lerobot.small_pi import shrink_pi

JOINTS = ("shoulder", "elbow", "gripper")
CAMERA = "observation.images.front"
HEIGHT, WIDTH = 48, 64
CHUNK = 10
WORDS = [
    *("<unk>", "<pad>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>"),
    *("pick", "up", "the", "red", "cube", "\n"),
]


@dataclass(frozen=True)
class Built:
    """A saved checkpoint, and the options with which a manifest would name it."""

    kind: str
    folder: Path
    options: dict[str, Any]

    def copy(self, parent: Path) -> Built:
        folder = parent / self.kind
        shutil.copytree(self.folder, folder)
        return replace(self, folder=folder)

    def source(self, **changes: Any) -> ModelSource:
        options = {**self.options, **changes.pop("options", {})}
        given = {
            "backend": "lerobot",
            "path": str(self.folder),
            "device": DEVICE,
            "options": options,
            **changes,
        }
        return ModelSource(**given)

    def load(self, **changes: Any) -> Policy:
        return load_policy(self.source(**changes))

    def edit(self, name: str, change: Callable[[Any], None]) -> None:
        """Change the content of a JSON file of the checkpoint."""
        file = self.folder / name
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))


def save(kind: str, parent: Path, config: Any, tokenizer: Path | None = None, **options: Any) -> Built:
    """Build a network and its processors from a configuration, and save both as a training does."""
    folder = parent / kind
    torch.manual_seed(7)
    with torch.device(DEVICE):
        network = get_policy_class(kind)(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # also those that begin as zeros and ones, which tell nothing
            parameter.add_(0.02 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    for pipeline in make_pre_post_processors(config, dataset_stats=statistics()):
        pipeline.save_pretrained(folder)
    if tokenizer is not None:
        options["language_model"] = str(tokenizer)
    names = {"state_names": JOINTS, "action_names": JOINTS, "trained_fps": 30.0}
    return Built(kind, folder, {**names, **options})


def features(height: int = HEIGHT, width: int = WIDTH) -> dict[str, Any]:
    dim = (len(JOINTS),)
    return {
        "input_features": {
            "observation.state": PolicyFeature(FeatureType.STATE, dim),
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, height, width)),
        },
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, dim)},
        "device": DEVICE,
    }


def statistics() -> dict[str, dict[str, torch.Tensor]]:
    """Return a training's statistics: none is 0 or 1, so that a forgotten normalisation shows."""

    def some(offset: float, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
        middle = torch.full(shape, offset)
        return {
            "mean": middle,
            "std": torch.full(shape, 0.4),
            "min": middle - 2.0,
            "max": middle + 2.0,
            "q01": middle - 1.8,
            "q99": middle + 1.8,
        }

    dim = (len(JOINTS),)
    return {"observation.state": some(0.1, dim), "action": some(0.3, dim), CAMERA: some(0.5, (3, 1, 1))}


SMALL_ACT = {
    "chunk_size": CHUNK,
    "n_action_steps": CHUNK,
    "dim_model": 32,
    "n_heads": 2,
    "dim_feedforward": 32,
    "n_encoder_layers": 1,
    "n_vae_encoder_layers": 1,
    "latent_dim": 8,
}


def build_act(parent: Path) -> Built:
    config = make_policy_config("act", **features(), pretrained_backbone_weights=None, **SMALL_ACT)
    return save("act", parent, config)


def build_smolvla(parent: Path) -> Built:
    vlm = make_vlm(parent / "tiny_vlm")
    config = make_policy_config(
        "smolvla",
        **features(),
        vlm_model_name=str(give_weights(vlm)),
        load_vlm_weights=True,
        num_vlm_layers=2,
        num_expert_layers=2,
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        max_state_dim=8,
        max_action_dim=8,
        resize_imgs_with_padding=(64, 64),
        num_steps=4,
        expert_width_multiplier=0.5,
        tokenizer_max_length=16,
        self_attn_every_n_layers=2,
    )
    built = save("smolvla", parent, config, vlm)
    # As in a checkpoint that somebody has published: neither exists on this machine.
    built.edit("config.json", lambda content: content.update(vlm_model_name="nobody/vlm"))
    built.edit("policy_preprocessor.json", name_a_hub_s_tokenizer)
    return built


def build_pi0(parent: Path) -> Built:
    """A pi0 with relative actions: all joints but the gripper."""
    shrink_pi()
    relative = {"use_relative_actions": True, "action_feature_names": list(JOINTS)}
    return _build_pi("pi0", parent, **features(), **SMALL_PI, **relative)


def build_pi05(parent: Path) -> Built:
    shrink_pi()
    return _build_pi("pi05", parent, **features(), **SMALL_PI)


SMALL_PI = {
    "dtype": "float32",
    "chunk_size": CHUNK,
    "n_action_steps": CHUNK,
    "max_state_dim": 8,
    "max_action_dim": 8,
    "num_inference_steps": 3,
    "tokenizer_max_length": 24,
    "image_resolution": (28, 28),
}


def _build_pi(kind: str, parent: Path, **given: Any) -> Built:
    tokenizer = make_vlm(parent / "tiny_vlm")
    config = make_policy_config(kind, **given)
    original = TokenizerProcessorStep.__post_init__

    def load_tiny(step: TokenizerProcessorStep) -> None:
        step.tokenizer_name = str(tokenizer)  # LeRobot's code names one on a hub
        original(step)

    TokenizerProcessorStep.__post_init__ = load_tiny
    try:
        built = save(kind, parent, config, tokenizer)
    finally:
        TokenizerProcessorStep.__post_init__ = original
    built.edit("policy_preprocessor.json", name_a_hub_s_tokenizer)
    return built


def build_xvla(parent: Path) -> Built:
    tokenizer = make_vlm(parent / "tiny_vlm")
    text = {
        "model_type": "bart",
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "vocab_size": 64,
        "max_position_embeddings": 512,
    }
    vision = {
        "model_type": "florence_vision",
        "embed_dim": [8, 16, 16, 32],
        "num_heads": [1, 1, 1, 2],
        "num_groups": [1, 1, 1, 2],
        "depths": [1, 1, 1, 1],
        "projection_dim": 32,
        "window_size": 4,
    }
    config = make_policy_config(
        "xvla",
        **features(64, 64),
        florence_config={"text_config": text, "vision_config": vision},
        hidden_size=32,
        depth=1,
        num_heads=2,
        chunk_size=CHUNK,
        n_action_steps=CHUNK,
        action_mode="auto",
        max_action_dim=8,
        num_denoising_steps=2,
        tokenizer_max_length=16,
        tokenizer_name=str(tokenizer),
    )
    return save("xvla", parent, config, tokenizer)


def build_diffusion(parent: Path, scheduler: str = "DDIM", **changes: Any) -> Built:
    config = make_policy_config(
        "diffusion",
        **features(),
        **{"n_obs_steps": 1, **changes},
        horizon=16,
        n_action_steps=8,
        crop_shape=None,
        resize_shape=None,
        pretrained_backbone_weights=None,
        down_dims=(16, 32),
        diffusion_step_embed_dim=16,
        spatial_softmax_num_keypoints=4,
        num_train_timesteps=20,
        num_inference_steps=5,
        noise_scheduler_type=scheduler,
    )
    return save("diffusion", parent, config)


def build_full_act(parent: Path) -> Built:
    """An ACT as large as LeRobot trains it unless told otherwise: 52 million weights, 100 rows."""
    config = make_policy_config("act", **features(480, 640), pretrained_backbone_weights=None)
    return save("act", parent, config)


def build_full_pi0(parent: Path) -> Built:
    """A pi0 of the published size, with its 3 billion weights, most of them in bfloat16."""
    return _build_pi("pi0", parent, **features(480, 640), dtype="bfloat16")


FULL_SIZE: dict[str, Callable[[Path], Built]] = {"act": build_full_act, "pi0": build_full_pi0}
"""For benchmarks: their process must not have called `shrink_pi`."""
BUILDERS: dict[str, Callable[[Path], Built]] = {
    "act": build_act,
    "diffusion": build_diffusion,
    "pi0": build_pi0,
    "pi05": build_pi05,
    "smolvla": build_smolvla,
    "xvla": build_xvla,
}
# What a kind can be, too.
VARIANTS: dict[str, Callable[[Path], Built]] = {
    "diffusion_history": lambda parent: build_diffusion(parent / "history", n_obs_steps=2),
}


def size_of(kind: str) -> tuple[int, int]:
    """Return height and width of the images that a kind was trained with."""
    return (64, 64) if kind == "xvla" else (HEIGHT, WIDTH)


def name_a_hub_s_tokenizer(pipeline: Any) -> None:
    for step in pipeline["steps"]:
        if step["registry_name"] == "tokenizer_processor":
            step["config"]["tokenizer_name"] = "nobody/tokenizer"


def make_vlm(folder: Path) -> Path:
    """Return a folder with the configuration, tokenizer and image processor of a tiny SmolVLM."""
    if folder.is_dir():
        return folder
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<end_of_utterance>",
        extra_special_tokens={
            "fake_image_token": "<fake_token_around_image>",
            "image_token": "<image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
    )
    text = {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": len(WORDS),
    }
    vision = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 64,
        "patch_size": 16,
    }
    config = SmolVLMConfig(text_config=text, vision_config=vision, scale_factor=2, image_token_id=3)
    config.save_pretrained(folder)
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(), tokenizer=fast, video_processor=SmolVLMVideoProcessor()
    )
    processor.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def give_weights(vlm: Path) -> Path:
    """Return a copy of a language model's folder with weights, which LeRobot reads and overwrites."""
    folder = vlm.with_name(f"{vlm.name}_with_weights")
    if not folder.is_dir():
        torch.manual_seed(11)
        SmolVLMForConditionalGeneration(SmolVLMConfig.from_pretrained(vlm)).save_pretrained(folder)
        shutil.copytree(vlm, folder, dirs_exist_ok=True)
    return folder
