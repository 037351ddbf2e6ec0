# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: defaults, paths, and errors that name the key, what was found and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.server.manifest.manifest import load_manifest

MINIMAL = "model: {backend: hold, path: models/x}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "test.manifest.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_cautious(tmp_path: Path):
    manifest = load_manifest(write(tmp_path, MINIMAL))
    assert (manifest.max_sessions, manifest.scheduler, manifest.inject_latency_ms) == (1, "round_robin", 0.0)
    assert not manifest.pin_task
    assert not manifest.strict_fps
    assert manifest.warmup_inferences >= 1
    assert (manifest.health_port, manifest.audit_file) == (0, "")


def test_the_model_path_is_relative_to_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, MINIMAL)
    monkeypatch.chdir("/")
    assert load_manifest(path).model.path == str(tmp_path.resolve() / "models/x")
    absolute = write(tmp_path, "model: {backend: hold, path: /weights/x}\n")
    assert load_manifest(absolute).model.path == "/weights/x"


def test_the_audit_file_is_relative_to_the_manifest(tmp_path: Path):
    assert load_manifest(write(tmp_path, MINIMAL + "audit_file: audit.jsonl\n")).audit_file == str(
        tmp_path.resolve() / "audit.jsonl"
    )
    assert load_manifest(write(tmp_path, MINIMAL + "audit_file: /log/a.jsonl\n")).audit_file == "/log/a.jsonl"


def test_the_shipped_manifest_is_valid():
    shipped = Path(__file__).parents[2] / "config" / "belt_arm.manifest.yaml"
    manifest = load_manifest(shipped)
    assert manifest.max_sessions == 4
    assert manifest.model.path == str(shipped.parent / "models" / "belt_arm")


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("max_sessions: 2\n", "model", ["missing"]),
        ("model: {backend: hold}\n", "model.path", ["missing"]),
        ("model: {backend: guess, path: x}\n", "model.backend", ["'guess'", "'hold'"]),
        ("model: {backend: hold, path: ''}\n", "model.path", ["''"]),
        ("model: {backend: hold, path: x, dtype: int8}\n", "model.dtype", ["'int8'", "'bfloat16'"]),
        (MINIMAL + "max_sessions: 0\n", "max_sessions", ["0", "1"]),
        (MINIMAL + "max_sessions: many\n", "max_sessions", ["'many'", "whole number"]),
        (MINIMAL + "max_sessions: 2.5\n", "max_sessions", ["2.5", "whole number"]),
        (MINIMAL + "pin_task: 'yes'\n", "pin_task", ["'yes'", "true or false"]),
        (MINIMAL + "warmup_inferences: 0\n", "warmup_inferences", ["0", "1"]),
        (MINIMAL + "scheduler: lottery\n", "scheduler", ["'lottery'", "'round_robin'"]),
        (MINIMAL + "serving_mode: open\n", "serving_mode", ["'open'", "'exclusive'"]),
        (MINIMAL + "inject_latency_ms: -1\n", "inject_latency_ms", ["-1", "0"]),
        (MINIMAL + "inject_latency_ms: .nan\n", "inject_latency_ms", ["nan"]),
        (MINIMAL + "inject_jitter_ms: -1\n", "inject_jitter_ms", ["-1", "0"]),
        (MINIMAL + "inject_loss: 1\n", "inject_loss", ["1", "less than"]),
        (MINIMAL + "health_port: 65536\n", "health_port", ["65536", "65535"]),
        (MINIMAL + "health_port: '80'\n", "health_port", ["'80'", "whole number"]),
        (MINIMAL + "max_consecutive_failures: 0\n", "max_consecutive_failures", ["0", "1"]),
        (MINIMAL + "max_session: 2\n", "max_session", ["unknown key"]),
        (MINIMAL + "metric_tags: site\n", "metric_tags", ["'site'", "a list"]),
        (MINIMAL + "metric_tags: [my site]\n", "metric_tags", ["'my site'", "letters, digits or _"]),
        (MINIMAL + "metric_tags: [a, b, a]\n", "metric_tags", ["'a' twice", "once"]),
        (MINIMAL + "tags: [place]\n", "tags", ["'place'", "key=value"]),
        (MINIMAL + "tags: [task=a, task=b]\n", "tags", ["'task' twice", "once"]),
        (MINIMAL + "idle_release_s: 5\nopenpi: {preset: droid}\n", "idle_release_s", ["openpi", "no port"]),
        (MINIMAL + "idle_release_s: 5\nweights: {}\n", "idle_release_s", ["weights", "updates are lost"]),
        (MINIMAL + f"metric_tags: {[f'k{i}' for i in range(17)]}\n", "metric_tags", ["17", "16 at most"]),
    ],
)
def test_errors_name_file_key_found_and_expected(tmp_path: Path, text: str, key: str, words: list[str]):
    path = write(tmp_path, text)
    with pytest.raises(DocumentError) as refusal:
        load_manifest(path)
    (line,) = str(refusal.value).splitlines()
    assert line.startswith(f"{path}: {key}: ")
    assert all(word in line for word in words)


def test_the_environment_wins_over_the_file_and_names_keys_of_sections_with_two_underscores(tmp_path: Path):
    environment = {
        "REMOTE_INFERENCE_MANIFEST_MAX_SESSIONS": "8",
        "REMOTE_INFERENCE_MANIFEST_MODEL__DEVICE": "cuda:1",
        "REMOTE_INFERENCE_MANIFEST_DEFAULT_TASK": "wave",
        "REMOTE_INFERENCE_MANIFEST_PIN_TASK": "true",
        "OTHER": "1",
    }
    manifest = load_manifest(write(tmp_path, MINIMAL + "max_sessions: 2\n"), environment)
    assert (manifest.max_sessions, manifest.model.device, manifest.pin_task) == (8, "cuda:1", True)


@pytest.mark.parametrize(
    ("variable", "text", "words"),
    [
        ("MAX_SESSION", "8", ["REMOTE_INFERENCE_MANIFEST_MAX_SESSION", "max_session: unknown key"]),
        ("MAX_SESSIONS", "many", ["REMOTE_INFERENCE_MANIFEST_MAX_SESSIONS", "max_sessions: found 'many'"]),
        ("MAX_SESSIONS", "[", ["REMOTE_INFERENCE_MANIFEST_MAX_SESSIONS: found '['", "YAML"]),
        ("MAX_SESSIONS", "2001-99-99", ["MANIFEST_MAX_SESSIONS: found '2001-99-99'", "YAML"]),
        ("DEFAULT_TASK__X", "1", ["default_task holds 'wave'", "section"]),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, variable: str, text: str, words: list[str]):
    path = write(tmp_path, MINIMAL + "default_task: wave\n")
    with pytest.raises(DocumentError) as refusal:
        load_manifest(path, {f"REMOTE_INFERENCE_MANIFEST_{variable}": text})
    assert all(word in str(refusal.value) for word in words)


def test_a_list_of_devices_gives_the_back_end_one_at_a_time(tmp_path: Path):
    model = load_manifest(
        write(tmp_path, "model: {backend: hold, path: x, device: [cuda:1, cuda:0, cpu]}\n")
    ).model
    assert [choice.device for choice in model.choices] == ["cuda:1", "cuda:0", "cpu"]
    assert {choice.path for choice in model.choices} == {str(tmp_path.resolve() / "x")}
    assert [choice.device for choice in model.choices[1].choices] == ["cuda:0"]
    assert [choice.device for choice in load_manifest(write(tmp_path, MINIMAL)).model.choices] == ["cpu"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("model: {backend: hold, path: x, device: [cpu, cuda:0]}", "device: found 'cuda:0' after 'cpu'"),
        (
            "model: {backend: hold, path: x, device: [cuda:0, cuda:0]}",
            "device: found 'cuda:0' twice, expected each device once",
        ),
        ("model: {backend: hold, path: x, device: []}", "device: found [], expected text"),
        ("model: {backend: hold, path: x, device: [3]}", "device: found [3], expected text"),
        (f"{MINIMAL}task_template: 'Do it'", "task_template: found 'Do it', expected {task} in it, once"),
        (f"{MINIMAL}task_template: '{{task}} {{task}}'", "expected {task} in it, once"),
        (f"{MINIMAL}warmup_image_sizes: [[0, 640]]", "warmup_image_sizes.0.0: found 0, expected at least 1"),
        (f"{MINIMAL}pin_task: true", "pin_task: found true without default_task, expected the task to pin"),
        (f"{MINIMAL}serving_mode: share", "serving_mode: found 'share', expected 'auto', 'shared' or"),
    ],
)
def test_contradicting_values_are_named_in_one_line(tmp_path: Path, line: str, problem: str):
    with pytest.raises(DocumentError) as refusal:
        load_manifest(write(tmp_path, line))
    assert problem in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


def test_a_task_template_makes_the_instruction(tmp_path: Path):
    text = f"{MINIMAL}default_task: wave\ntask_template: 'In: {{task}} Out:'\n"
    manifest = load_manifest(write(tmp_path, text))
    assert manifest.instruct("point {here}") == "In: point {here} Out:"
    assert manifest.instruct("") == "In: wave Out:"
    assert load_manifest(write(tmp_path, MINIMAL)).instruct("") == ""


BATCHING = MINIMAL + "scheduler: micro_batch\nmax_batch: 3\n"


def test_the_keys_of_the_scheduler_are_read_by_its_own_model(tmp_path: Path):
    manifest = load_manifest(write(tmp_path, BATCHING))
    assert (manifest.scheduler_options.max_batch, manifest.scheduler_options.batch_window_ms) == (3, 5.0)
    variables = {"REMOTE_INFERENCE_MANIFEST_MAX_BATCH": "7"}
    assert load_manifest(write(tmp_path, BATCHING), variables).scheduler_options.max_batch == 7


def test_a_manifest_may_keep_the_keys_of_the_built_in_scheduler_that_it_does_not_name(tmp_path: Path):
    text = BATCHING.replace("micro_batch", "round_robin")
    assert load_manifest(write(tmp_path, text)).scheduler_options.most == 1
    with pytest.raises(DocumentError, match="max_batch: found 0, expected at least 1"):
        load_manifest(write(tmp_path, text.replace("max_batch: 3", "max_batch: 0")))


def test_a_key_that_no_scheduler_has_is_unknown(tmp_path: Path):
    with pytest.raises(DocumentError, match="max_bach: unknown key, did you mean 'max_batch'"):
        load_manifest(write(tmp_path, BATCHING.replace("max_batch:", "max_bach:")))
