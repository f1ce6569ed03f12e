"""Descriptions of a run: `run.json`, a model card for each model, and the upload to the hub."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentgym.outside.files import write_file
from agentgym.outside.text import DataError, read_json
from baselines.config import TrainerConfig
from baselines.environments.settings import SMOLLM2, TINY
from baselines.records.metrics import Row
from baselines.runs.settings import RunSettings
from baselines.runs.stack import holds_model

RUN_FILE, CARD_FILE = "run.json", "README.md"
_HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_BASES = {SMOLLM2: "HuggingFaceTB/SmolLM2-135M-Instruct"}
_RESULTS = (
    ("validation_greedy_success", "validation, greedy"), ("validation_sampled_success", "validation, sampled"),
    ("success", "rollouts"), ("test_greedy_success", "test, greedy"),
)  # fmt: skip


def note(settings: RunSettings, folder: Path, command: str = "") -> None:
    """Write `run.json`: command, environment, prompt, tasks and numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "command": command, "config": dataclasses.asdict(settings.config), "training": settings.training.settings(),
        "precision": settings.precision,
    }  # fmt: skip
    write_file(folder / RUN_FILE, (json.dumps(record, indent=1, default=str) + "\n").encode())


def _noted(folder: Path) -> dict[str, Any]:
    try:
        found = read_json((folder / RUN_FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def earlier(place: Path) -> tuple[str, Path]:
    """Return the model that an earlier run was made from, as `--model` names it, and the folder of its policy.

    Args:
        place: a run's folder, for its final policy, or the folder of one of its models, such as best-000010.

    Raises:
        DataError: there is no policy.
    """
    folder = place if holds_model(place) else place / "final"
    if (folder / "adapter_config.json").is_file() and folder.name == "final":
        folder = folder.parent / "merged"
    if not holds_model(folder):
        raise DataError(f"{place} holds no policy: expected the folder of a finished run (with final/), or a model's")
    record = next((found for each in (place, place.parent, folder.parent) if (found := _noted(each))), {})
    model = str(record.get("config", {}).get("model", folder))
    return (model if model in (TINY, SMOLLM2) else str(folder)), folder


def write(settings: RunSettings, folder: Path, model: Path, rows: Sequence[Row]) -> None:
    """Write the card of a model of a run, if the model is there: data, settings, results and the command."""
    if model.is_dir():
        write_file(model / CARD_FILE, _card(settings, folder, model, rows).encode())


def _card(settings: RunSettings, folder: Path, model: Path, rows: Sequence[Row]) -> str:
    config, source, adapter = settings.config, settings.source, (model / "adapter_config.json").is_file()
    base = _BASES.get(config.model, config.model)
    named = not Path(base).exists() and _HUB_NAME.fullmatch(base)
    head = ["library_name: peft" if adapter else "library_name: transformers", "pipeline_tag: text-generation"]
    head += [f"base_model: {base}"] * bool(named) + ["tags: [reinforcement-learning, stepcredit]"]
    plain = TrainerConfig().settings()
    differing = [
        f"| {name} | {value} |" for name, value in settings.training.settings().items() if value != plain[name]
    ]
    # Paths of a user's data are private.
    where = "no note" if source is None else ", ".join(part.partition("=")[0] for part in source.source.split(", "))
    counts = "" if source is None else ", ".join(f"{count:,} {split}" for split, count in source.tasks.items())
    command = _noted(folder).get("command") or "from Python: baselines.train"
    command = re.sub(r"(^|[\s=])(?:/|~)[^\s=]*/([^\s/]+)", r"\1.../\2", command)
    load = "AutoPeftModelForCausalLM" if adapter else "AutoModelForCausalLM"
    return "\n".join([
        "---", *head, "---", "", f"# {settings.method.name} on {config.env}", "",
        f"Trained from `{Path(base).name if not named else base}` with stepcredit.", "", "## Results", "",
        "| tasks | start | best | last |", "|---|---|---|---|",
        *(line for key, words in _RESULTS if (line := _result(rows, key, words))), "",
        f"{int(rows[-1]['iteration']) if rows else 0} iterations of {settings.training.groups} tasks x "
        f"{settings.training.group_size} episodes; success in percent of episodes.", "",
        "## Data", "", f"{where}; tasks: {counts or 'drawn by seed'}"
        f"{f'; fingerprint {source.fingerprint}' if source else ''}.", "", "## Settings", "",
        f"history {config.history}, transcript {config.transcript}, adapter rank {config.lora}, expert episodes "
        f"{config.clone_tasks}, precision {settings.precision or 'by device'}. Beside the defaults of `TrainerConfig`:",
        "", "| setting | value |", "|---|---|", *differing, "", "## Command", "", "```sh", command, "```", "",
        "## Use", "", "```python", f"from {'peft' if adapter else 'transformers'} import {load}",
        f'model = {load}.from_pretrained("{model.name}")', "```", "",
    ])  # fmt: skip


def _result(rows: Sequence[Row], key: str, words: str) -> str:
    found = [row[key] for row in rows if row.get(key) is not None]
    shown = [f"{100 * value:.1f}" for value in (found[0], max(found), found[-1])] if found else []
    return f"| {words} | {' | '.join(shown)} |" if found else ""


def check_login(name: str) -> str:
    """Return the user logged in at the hub, before a run that will be pushed to the named repository.

    Raises:
        ValueError: this is not a repository's name, or there is no login.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    if not _HUB_NAME.fullmatch(name):
        raise ValueError(f"--push takes a repository of the Hugging Face hub such as me/my-model, got {name!r}")
    try:
        return str(HfApi().whoami()["name"])
    except (LocalTokenNotFoundError, HfHubHTTPError, OSError) as error:
        raise ValueError(
            f"--push {name} needs your login at the hub: `hf auth login`, or the variable HF_TOKEN ({error})"
        ) from None


def push(folder: Path, name: str) -> str:
    """Upload a model's folder to a private repository, which is created if missing; return its address."""
    from huggingface_hub import HfApi

    api = HfApi()
    address = str(api.create_repo(name, private=True, exist_ok=True))
    api.upload_folder(folder_path=str(folder), repo_id=name, commit_message="Model, tokenizer and card of a run")
    return address
