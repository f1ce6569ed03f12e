"""An episode between an environment and verl's model servers, as rows that hold their steps."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import uuid
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register

from agentgym.rollout import collect
from agentgym.rollout.recorder import UnscoredError
from agentgym.trajectory import StepTable
from baselines.engines import check_release, prompting
from baselines.engines.engine_rows import steps_of
from baselines.engines.sequences import token_sequences
from policies.decode.sampler import Completion, Decoding
from policies.engines.engine import EngineSampler
from policies.huggingface import HuggingFacePolicy
from policies.prompts import Prompt

# verl would warn once per episode that it joins texts by general rules: they are not used.
logging.getLogger("verl.utils.tokenizer.continuous_token_wiring").setLevel(logging.ERROR)
_EPISODES = ThreadPoolExecutor(1024, "episode")  # each waits for verl's servers most of the time


class _Servers(EngineSampler):
    def __init__(self, loop: HouseLoop, sampling: Mapping[str, Any]) -> None:
        super().__init__()
        self._client, self._sampling, self._events = loop.server_manager, sampling, asyncio.get_running_loop()
        self._cuts, self.episode = loop.rollout_config.name == "vllm", uuid.uuid4().hex
        self.versions: list[int] = []

    def follow(self, model: Any, version: int) -> None:
        """Do nothing: verl sends them the weights."""

    def generate(self, prompts: Sequence[Prompt], seeds: Sequence[int | None], decoding: Decoding) -> list[Completion]:
        given = {"logprobs": True, "max_tokens": decoding.max_new_tokens, "stop_token_ids": sorted(decoding.ends)}
        if self._cuts and decoding.stop:  # from others a reply comes with what they wrote behind its end, cut off here
            given |= {"stop": list(decoding.stop), "include_stop_str_in_output": True}
        calls = [
            self._client.generate(self.episode, prompt_ids=list(one), sampling_params={**self._sampling, **given})
            for one in prompts
        ]
        found = [asyncio.run_coroutine_threadsafe(one, self._events).result() for one in calls]
        self.versions += [one.extra_fields.get("global_steps") or 0 for one in found]
        return [Completion(list(one.token_ids), list(one.log_probs or ()), "length") for one in found]


@functools.cache
def _player(model: str, settings: str) -> HuggingFacePolicy:
    return HuggingFacePolicy.from_pretrained(model, device="meta", **json.loads(settings))


@register("stepcredit")
class HouseLoop(AgentLoopBase):
    """Plays an episode: one row in a transcript, one row for each step in windows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_release("verl", "0.9.1")
        # Texts are cut and joined here, never by verl: its rules for a type of model refuse tokenizers of one's own.
        super().__init__(*args, **{**kwargs, "hf_model_type": None})

    async def run(
        self, sampling_params: dict[str, Any], *, env: str, env_options: str, task: str, uid: str, **_: Any
    ) -> list[AgentLoopOutput]:
        """Return the rows of one episode; none where it could not be scored.

        Args:
            sampling_params: verl's temperature, top_p and so on.
            env: a registered id.
            env_options: arguments of the environment, as JSON.
            task: reset options, as JSON.
            uid: of the group, whose episodes begin alike.
        """
        options = OmegaConf.to_container(self.config.credit)
        player = _player(self.config.actor_rollout_ref.model.path, options.get("policy", "{}"))
        player = player.with_settings(temperature=sampling_params["temperature"])
        player.sampler = servers = _Servers(self, sampling_params)

        def play() -> StepTable:
            envs = prompting(env, 1, transcript=options.get("transcript", True), **json.loads(env_options))
            try:
                # verl does not pass the episode's number in its group. A random number gives it its own random stream.
                first = int(servers.episode[:8], 16)
                return collect(envs, player, tasks=[json.loads(task)], seed=zlib.crc32(uid.encode()), first=first)
            finally:
                envs.close()

        try:
            table = await asyncio.get_running_loop().run_in_executor(_EPISODES, play)
        except UnscoredError:
            return []
        (episode,) = table.to_trajectories()
        extra = {
            "reward_extra_info": {"success": float(episode.won)},
            "min_global_steps": min(servers.versions),
            "max_global_steps": max(servers.versions),
        }
        return [
            AgentLoopOutput(
                prompt_ids=list(one.prompt_ids),
                response_ids=list(one.completion_ids),
                response_mask=list(map(int, one.mask)),
                response_logprobs=list(one.logprobs),
                reward_score=float(table.trajectory_return[0]),
                num_turns=len(table),
                metrics=AgentLoopMetrics(),
                extra_fields={**extra, "step": steps_of(episode, one.rows, len(one.prompt_ids))},
            )
            for one in token_sequences(table, table.reward)  # any numbers: the advantages are the trainer's
        ]
