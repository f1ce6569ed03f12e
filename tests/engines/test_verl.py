"""verl's own workers, queue, buffer and padding carry episodes to credit and back to verl's actors, without a GPU.

The model servers are a stand-in. Run by `./do engines verl`, in a separate environment.
"""

import copy
import dataclasses
import importlib.metadata
import json
import re
import shlex
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="needs verl in an environment of its own: ./do engines verl")

import ray
import torch
import transfer_queue
from datasets import Dataset
from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf
from ray.util import remove_placement_group
from tensordict import TensorDict
from torch.nn.functional import log_softmax
from transfer_queue import KVBatchMeta
from transformers import AutoModelForCausalLM
from verl.plugin.platform import set_platform
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import AgentLoopManagerTQ, get_trainer_cls
from verl.utils.config import validate_config

from agentgym.rollout import collect
from agentgym.trajectory import Reply, StepTable
from baselines.engines import prompting
from baselines.engines.verl import CreditTrainer
from baselines.engines.verl.__main__ import write_tasks
from baselines.recipes import recipe
from policies.huggingface import HuggingFacePolicy
from policies.scripted import ExpertPolicy
from policies.tiny import tiny_policy


class Cpu(PlatformCUDA):
    """What verl's actor needs on a machine without an accelerator, for which verl has no platform."""

    device_name = "cpu"

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def communication_backend_name(self) -> str:
        return "gloo"


set_platform(Cpu())  # before the modules of the actor are imported, which ask for it
pytestmark = [pytest.mark.engines, pytest.mark.slow]

ENV = "AgentRL/Sokoban-v0"
OPTIONS = {"max_length": 5, "max_episode_steps": 8}
TASKS, GROUP = 3, 4
METHOD = "rewardflow"


@pytest.fixture(scope="module")
def cluster():
    # A busy machine needs longer than the 30 seconds after which Ray gives up.
    patience = {"agent_register_timeout_ms": 120_000}
    for last in (False, False, True):
        try:
            ray.init(
                num_cpus=4, object_store_memory=200 * 2**20, include_dashboard=False, _system_config=dict(patience)
            )
            break
        except Exception:
            ray.shutdown()
            if last:
                raise
    yield
    transfer_queue.close()
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model folder and a file of tasks."""
    folder = tmp_path_factory.mktemp("verl")
    texts = [message["content"] for message in prompting(ENV, 1, expert=True).reset(seed=0)[0][0]]
    tiny_policy(texts, seed=0, positions=4096).save_pretrained(folder / "model")
    write_tasks(folder / "train.parquet", ENV, "train", TASKS, json.dumps(OPTIONS))
    return folder


def _config(folder: Path, *changes: str):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "ppo_trainer",
            [
                "trainer.v1.trainer_mode=stepcredit",
                f"+credit.method={METHOD}",
                "algorithm.adv_estimator=grpo",
                f"actor_rollout_ref.model.path={folder}/model",
                "+actor_rollout_ref.model.override_config.attn_implementation=eager",
                "actor_rollout_ref.rollout.name=vllm",
                "actor_rollout_ref.rollout.calculate_log_probs=true",
                f"actor_rollout_ref.rollout.n={GROUP}",
                "actor_rollout_ref.rollout.agent.num_workers=1",
                f"data.train_files={folder}/train.parquet",
                f"data.val_files={folder}/train.parquet",
                f"data.train_batch_size={TASKS}",
                "data.dataloader_num_workers=0",
                "data.filter_overlong_prompts=false",
                "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
                *changes,
            ],
        )


def _stand_in(folder: Path, transcript: bool):
    """A client of model servers that plays as the expert every second time it meets a prompt, else at random."""
    policy = HuggingFacePolicy.from_pretrained(folder / "model", device="cpu")
    moves = [policy.demonstrate("-", f"<action>{move}</action>").token_ids for move in ("up", "down", "left", "right")]
    known = {}
    envs = prompting(ENV, 1, transcript=transcript, expert=True, **OPTIONS)
    for index in range(TASKS):
        shown, infos = envs.reset(options=[{"split": "train", "index": index}])
        over = False
        while not over:
            reply = policy.demonstrate(shown[0], ExpertPolicy().act(shown, infos, None)[0].text)
            known[reply.prompt_ids] = reply.token_ids
            shown, _, ended, cut, infos = envs.step([reply.text])
            over = ended[0] or cut[0]

    class StandIn:
        """Sent to the workers by value."""

        def __init__(self) -> None:
            self.met, self.rng = Counter(), np.random.default_rng(0)

        async def generate(self, request_id, *, prompt_ids, sampling_params):
            from verl.workers.rollout.replica import TokenOutput

            assert sampling_params["logprobs"]
            assert sampling_params["temperature"] == 1.0
            prompt = tuple(prompt_ids)
            self.met[prompt] += 1
            tokens = known.get(prompt) if self.met[prompt] % 2 else None
            tokens = tokens or moves[self.rng.integers(len(moves))]
            return TokenOutput(token_ids=list(tokens), log_probs=[-0.5] * len(tokens), extra_fields={"global_steps": 7})

    return StandIn()


class Replay:
    """Answers what was answered."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = iter(texts)

    def act(self, observations, infos, rng):
        return [Reply(next(self.texts))]


def _replayed(folder: Path, keys: list[str], data: TensorDict) -> StepTable:
    """The house's table of the same episodes: the replies, read from the tokens, played once more."""
    tokenizer = HuggingFacePolicy.from_pretrained(folder / "model", device="cpu").tokenizer
    said = defaultdict(list)
    for key, tokens, mask, task in sorted(
        zip(keys, data["responses"].unbind(), data["response_mask"].unbind(), data["task"], strict=True),
        key=lambda row: int(row[0].rsplit("_", 1)[1]),
    ):
        uid, session, _ = key.rsplit("_", 2)
        said[uid, session, getattr(task, "data", task)] += tokens[mask.bool()].tolist()
    episodes = []
    for (uid, session, task), tokens in said.items():
        texts = [f"<action>{tokenizer.decode([token])}</action>" for token in tokens]
        table = collect(prompting(ENV, 1, **OPTIONS), Replay(texts), tasks=[json.loads(task)], seed=0)
        (episode,) = table.to_trajectories()
        assert len(episode.steps) == len(tokens)
        episodes.append(dataclasses.replace(episode, group=uid, trajectory=(uid, session)))
    return StepTable.from_trajectories(episodes)


def _sampled(folder: Path, config: DictConfig) -> tuple[CreditTrainer, KVBatchMeta]:
    """A trainer without an actor, and the rows that verl's workers made of all tasks."""
    config.transfer_queue.enable = True
    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    transfer_queue.init(config.transfer_queue)
    trainer._init_tokenizer()
    trainer._init_dataloader()
    trainer.global_steps = 1
    trainer.agent_loop_manager = AgentLoopManagerTQ.create(
        config=config, llm_client=_stand_in(folder, config.credit.transcript)
    )
    trainer.prepare_step()
    return trainer, trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=TASKS)[0]


def _read(keys: list[str], *names: str) -> TensorDict:
    return transfer_queue.kv_batch_get(keys=keys, partition_id="train", select_fields=list(names))


@pytest.mark.parametrize("transcript", [False, True], ids=["windows", "transcript"])
def test_advantages_come_back_to_shuffled_and_padded_rows_as_the_house_gives_them(cluster, folder, transcript) -> None:
    trainer, batch = _sampled(folder, _config(folder, f"+credit.transcript={transcript}"))
    real = list(batch.keys)
    assert {tag["max_global_steps"] for tag in batch.tags} == {7}
    batch = upsample_batch_to_divisible_size(batch, 16 * (1 + len(real) // 16) + 4, trainer.tokenizer.eos_token_id)
    batch.reorder(np.random.default_rng(0).permutation(len(batch)).tolist())

    # As if the actor had scored the replies.
    old = TensorDict({"old_log_probs": _read(batch.keys, "rollout_log_probs")["rollout_log_probs"]}, len(batch))
    transfer_queue.kv_batch_put(keys=batch.keys, partition_id="train", fields=old)
    metrics: dict[str, float] = {}
    batch = trainer._compute_advantage(batch, metrics)

    table = _replayed(folder, real, _read(real, "responses", "response_mask", "task"))
    expected = defaultdict(list)
    for row, advantage in zip(table.order, recipe(METHOD)(table)[table.order], strict=True):
        uid, session = table.trajectories[table.trajectory[row]]
        expected[f"{uid}_{session}"].append(advantage)
    found, padding = defaultdict(list), 0
    data = _read(batch.keys, "advantages", "returns", "response_mask", "loss_mask")
    rows = zip(batch.keys, *(data[name].unbind() for name in data.keys()), strict=True)  # noqa: SIM118
    for key, *columns in sorted(rows, key=lambda row: int(row[0].rsplit("_", 1)[1])):
        one = dict(zip(data.keys(), columns, strict=True))
        assert torch.equal(one["advantages"], one["returns"])
        assert torch.equal(one["response_mask"], one["loss_mask"])
        if key.startswith("pad"):
            padding += 1
            assert not one["advantages"].any()
            assert not one["response_mask"].any()
        else:
            assert not one["advantages"][one["response_mask"] == 0].any()
            found[key.rpartition("_")[0]] += one["advantages"][one["response_mask"] == 1].tolist()
    assert padding == len(batch) - len(real) > 0
    assert len(real) == (TASKS * GROUP if transcript else len(table))
    assert found.keys() == expected.keys()
    apart = max(np.abs(np.subtract(found[key], expected[key])).max() for key in expected)
    assert apart < 1e-6
    assert 0 < table.trajectory_won.mean() < 1
    assert metrics["credit/success"] == pytest.approx(table.trajectory_won.mean())
    assert len({round(one, 6) for advantages in expected.values() for one in advantages}) > 10
    print(
        f"{table.n_trajectories} episodes, {len(table)} steps, {len(real)} rows shuffled, {padding} of padding: "
        f"largest difference {apart:.1e}"
    )
    transfer_queue.kv_clear(keys=batch.keys, partition_id="train")


def _actor_config(folder: Path, rate: float, steps: int) -> DictConfig:
    """verl's actor in float32, which takes plain gradient steps on all rows of a batch and as many of padding."""
    actor = "actor_rollout_ref.actor"
    return _config(
        folder,
        "+credit.transcript=True",
        "actor_rollout_ref.model.use_remove_padding=false",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        f"{actor}.strategy=fsdp2",
        f"+{actor}.fsdp_config.mixed_precision.param_dtype=fp32",
        f"{actor}.fsdp_config.use_torch_compile=false",
        f"{actor}.ppo_mini_batch_size={2 * TASKS}",
        f"{actor}.ppo_micro_batch_size_per_gpu=4",
        f"{actor}.ppo_epochs={steps}",
        f"{actor}.optim.clip_grad=1e9",
        f"{actor}.optim.optimizer=SGD",
        f"{actor}.optim.weight_decay=0",
        f"{actor}.optim.lr={rate}",
    )


@contextmanager
def _actors(config: DictConfig, count: int) -> Iterator[RayWorkerGroup]:
    """`count` processes that hold verl's actor together; they end with the block."""
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import FSDPEngineWithLMHead
    from verl.workers.engine_workers import ActorRolloutRefWorker

    class Actor(ActorRolloutRefWorker):
        """Sent to its process by value: talks over gloo, and shows its weights."""

        def __init__(self, **settings: Any) -> None:
            EngineRegistry.register("language_model", ["fsdp2"], ["cpu"])(FSDPEngineWithLMHead)
            for name, answer in {"get_device_name": "CPU", "mem_get_info": (0, 0)}.items():  # verl logs them
                setattr(torch.cuda, name, lambda answer=answer: answer)
            super().__init__(**settings)
            torch.distributed.init_process_group("gloo")  # verl would ask for two backends on "cpu"

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def weights(self) -> dict[str, torch.Tensor]:
            module = self.actor.engine.module
            return {name: weight.full_tensor().detach() for name, weight in module.named_parameters()}

    pool = RayResourcePool([count], use_gpu=False, max_colocate_count=1)
    group = RayWorkerGroup(
        pool,
        RayClassWithInitArgs(ray.remote(Actor), config=config.actor_rollout_ref, role="actor"),
        device_name="cpu",
        worker_env={"PYTHONPATH": str(Path(__file__).parent), "VERL_USE_EXTERNAL_MODULES": Path(__file__).stem},
    )  # verl imports this module, which sets the platform, before its own
    try:
        group.init_model()
        yield group
    finally:
        for worker in group.workers:
            ray.kill(worker)
        for place in pool.pgs:
            remove_placement_group(place)


def _trained(trainer: CreditTrainer, batch: KVBatchMeta, count: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Weights and metrics when `count` processes of the actor have scored a batch and trained on it, as verl does."""
    metrics: dict[str, Any] = {}
    with _actors(trainer.config, count) as trainer.actor_rollout_wg:
        rows = trainer._balance_batch(copy.deepcopy(batch), metrics)  # pads, and gives each process its share
        for step in (trainer._compute_old_log_prob, trainer._compute_advantage, trainer._update_actor):
            rows = step(rows, metrics)
        weights = trainer.actor_rollout_wg.weights()
    padding = [key for key in rows.keys if key not in batch.keys]
    assert len(padding) == len(batch)
    transfer_queue.kv_clear(keys=padding, partition_id="train")
    assert len(weights) == count
    return weights[0], metrics


def test_verls_actor_moves_by_the_gradient_of_advantages_times_log_probabilities(cluster, folder) -> None:
    rate = 0.5
    trainer, batch = _sampled(folder, _actor_config(folder, rate, steps=1))
    after, metrics = _trained(trainer, batch, 1)

    data = _read(batch.keys, "prompts", "responses", "response_mask", "old_log_probs", "advantages")
    model = AutoModelForCausalLM.from_pretrained(folder / "model", attn_implementation="eager")
    total, apart = torch.zeros(()), 0.0
    rows = zip(*(data[name].unbind() for name in data.keys()), strict=True)  # noqa: SIM118
    for row in (dict(zip(data.keys(), columns, strict=True)) for columns in rows):
        own, tokens = row["response_mask"].bool(), row["responses"]
        logits = model(torch.cat([row["prompts"], tokens])[None]).logits[0, len(row["prompts"]) - 1 : -1]
        found = log_softmax(logits, -1).gather(-1, tokens[:, None])[:, 0]
        apart = max(apart, (found - row["old_log_probs"])[own].abs().max().item())
        total = total + (row["advantages"] * found)[own].sum()
    assert apart < 1e-5
    (total / data["response_mask"].values().sum()).backward()
    moved = torch.cat([(after[name] - weight.detach()).flatten() for name, weight in model.named_parameters()]) / rate
    wanted = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    largest = ((moved - wanted).abs().max() / wanted.abs().max()).item()
    print(f"scores {apart:.1e} apart, gradients {largest:.1e} of the largest")
    assert largest < 1e-5
    assert metrics["actor/grad_norm"] == pytest.approx(wanted.norm().item(), rel=1e-4)
    transfer_queue.kv_clear(keys=batch.keys, partition_id="train")


def test_two_workers_train_to_the_weights_of_one(cluster, folder) -> None:
    trainer, batch = _sampled(folder, _actor_config(folder, rate=0.5, steps=3))
    (alone, _), (together, _) = (_trained(trainer, batch, count) for count in (1, 2))
    before = AutoModelForCausalLM.from_pretrained(folder / "model").state_dict()
    moved, apart = (
        max((alone[name] - others[name]).abs().max().item() for name in alone) for others in (before, together)
    )
    print(f"three steps move weights by up to {moved:.1e}; two workers and one are {apart:.1e} apart")
    assert apart < 1e-5
    assert moved > 1e-2
    transfer_queue.kv_clear(keys=batch.keys, partition_id="train")


def test_a_fresh_process_finds_loop_and_trainer_by_the_entry_point() -> None:
    program = """
import verl
from verl.experimental.agent_loop.agent_loop import _agent_loop_registry
from verl.trainer.ppo.v1 import get_trainer_cls
print(get_trainer_cls("stepcredit").__name__, _agent_loop_registry["stepcredit"]["_target_"])
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["CreditTrainer", "baselines.engines.verl.loop.HouseLoop"]


def test_verl_accepts_the_settings_of_the_printed_command(folder) -> None:
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
    (printed,) = re.findall(r"python (-m baselines\.engines\.verl .*?)\n```", page, re.DOTALL)
    output, policy = folder / "it's out", '{"max_new_tokens": 128, "prefix": "it\'s \\"{so}\\""}'
    places = {"DIR": f"{folder}/model", "OUT": str(output)}
    command = [places.get(word, word) for word in shlex.split(printed.replace("\\\n", " "))]
    command += ["--policy", policy, "--tasks", "2", "actor_rollout_ref.rollout.name=sglang"]
    command += ["--cfg", "job", "--resolve"]  # hydra prints the settings and starts nothing
    composed = subprocess.run([sys.executable, *command], stdout=subprocess.PIPE, text=True, check=True).stdout
    config = OmegaConf.create(composed)
    validate_config(config, need_reference_policy(config), need_critic(config))
    assert config.credit == {"method": METHOD, "policy": policy, "transcript": True}
    assert config.trainer.v1.trainer_mode == "stepcredit"
    assert config.trainer.nnodes == 2
    assert config.trainer.default_local_dir == str(output)
    assert config.actor_rollout_ref.model.path == f"{folder}/model"
    assert config.actor_rollout_ref.rollout.name == "sglang"
    found = Dataset.from_parquet(config.data.train_files)
    assert [json.loads(task) for task in found["task"]] == [{"split": "train", "index": index} for index in range(2)]
    assert len(Dataset.from_parquet(config.data.val_files)) == 64


def test_what_does_not_fit_and_another_release_are_refused(folder, monkeypatch) -> None:
    trainer = get_trainer_cls("stepcredit")
    for name in ("ppo", "dapo"):
        with pytest.raises(ValueError, match=rf"{name} needs a scorer or plays groups again"):
            trainer(_config(folder, f"credit.method={name}"))
    for change in ("algorithm.adv_estimator=gae", "algorithm.use_kl_in_reward=true", "credit.method=null"):
        with pytest.raises(ValueError, match=r"expected \+credit.method=NAME, no critic"):
            trainer(_config(folder, change))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.9.2")
    with pytest.raises(RuntimeError, match=r"tested with verl 0.9.1, found 0.9.2"):
        get_trainer_cls("stepcredit")(_config(folder))
