"""Messages between server and client, and the client."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import Action, Observation, State
from pydantic import Field

from agentgym.outside.text import MOST_CHARACTERS


class TextAction(Action):
    """A command, or a whole reply if the server reads replies; `snapshot`: save the episode, play nothing."""

    command: str = Field(max_length=MOST_CHARACTERS)
    snapshot: bool = False


class TextObservation(Observation):
    """The player's observation; `snapshot`: name of a saved state; `unscored`: do not train on the reward."""

    text: str
    admissible_actions: list[str] = Field(default_factory=list)
    is_action_valid: bool = True
    won: bool = False
    score: float = 0.0
    truncated: bool = False
    unscored: bool = False
    snapshot: str | None = None


class EpisodeState(State):
    """Additional information for a trainer: the task, and the state's name for credit assignment."""

    task_id: str = ""
    state_key: str = ""


class TextClient(EnvClient[TextAction, TextObservation, EpisodeState]):
    """OpenEnv's client (`openenv.core.env_client.EnvClient`) with save and continue.

    `with TextClient("http://127.0.0.1:8000").sync() as client` has the same methods without `await`;
    `client.new_session()` is another episode of the same server. A refused request is a `RuntimeError`.
    """

    async def snapshot(self) -> str:
        """Save the episode, and return the server's name of it."""
        result = await self._step_async(TextAction(command="", snapshot=True))
        return str(result.observation.snapshot)

    async def restore(self, name: str, seed: int | None = None) -> StepResult[TextObservation]:
        """Continue a saved episode of any session; `seed` of later draws, None: unchanged."""
        return await self._reset_async(snapshot=name, seed=seed)

    def _step_payload(self, action: TextAction) -> dict[str, Any]:
        return action.model_dump(exclude={"metadata"})

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[TextObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done"))
        shown = TextObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=shown, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> EpisodeState:
        return EpisodeState(**payload)
