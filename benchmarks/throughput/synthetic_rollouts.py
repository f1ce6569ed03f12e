"""Synthetic rollouts: random walks, as a table or as columns whose observations are texts that nobody hashed yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from agentgym.trajectory import StepTable

#: Length of an observation in characters.
CHARACTERS = 600
_WORDS = ("a", "the", "and", "table", "lamp", "door", "shelf", "north", "south", "you", "see", "red", "open", "closed")


def random_walk_table(seed: int, groups: int, size: int, length: int, states: int = 300) -> StepTable:
    """Synthetic groups of full-length episodes: walks over a ring of `states` states with chords; half succeed.

    Returns:
        A table of `groups * size * length` rows; the reward is 1 in the last step of a successful walk.
    """
    rng = np.random.default_rng(seed)
    episodes = groups * size
    moves = rng.integers(0, 4, (episodes, length))
    chords = rng.integers(0, states, (groups, states))
    columns: dict[str, Any] = {name: [] for name in ("group", "trajectory", "t", "state", "action", "next_state")}
    for episode in range(episodes):
        group, here = divmod(episode, size)[0], 0
        for t, move in enumerate(moves[episode].tolist()):
            there = int(chords[group, here]) if move == 3 else (here + (1, -1, 2)[move]) % states
            after = states + int(episode % 2) if t == length - 1 else there
            for name, value in zip(columns, (group, episode, t, here, move, after), strict=True):
                columns[name].append(value)
            here = there
    won = np.repeat(np.arange(episodes) % 2 == 0, length)
    last = np.tile(np.arange(length) == length - 1, episodes)
    return StepTable.from_arrays(**columns, reward=(won & last).astype(float), won=won)


class FreshTexts:
    """A synthetic rollout that can be handed out many times, each time with new string objects.

    Python keeps the hash of a string with the string: measured twice on the same objects, interning costs nothing.

    Args:
        groups, size, length: shape, see `random_walk_table`.
        seed: of the walks and the texts.
        characters: length of an observation.
    """

    def __init__(self, groups: int, size: int, length: int, *, seed: int = 0, characters: int = CHARACTERS) -> None:
        self.table = table = random_walk_table(seed, groups, size, length)
        rng = np.random.default_rng(seed)
        filler = " ".join(rng.choice(_WORDS, 40 * characters).tolist())
        # One text per state of a group: its own words, then a name that no other state has.
        begins = rng.integers(0, len(filler) - characters, (groups, len(table.states))).tolist()

        def texts(states: Any) -> list[bytes]:
            return [
                f"{filler[begins[group][state] :][: characters - 14]} #{group:06d}{state:06d}".encode()
                for group, state in zip(table.group.tolist(), states.tolist(), strict=True)
            ]

        self.state, self.next_state = texts(table.state), texts(table.next_state)
        self._goes_on = np.append(np.diff(table.trajectory) == 0, False).tolist()

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.table)

    def columns(self, *, shared: bool = True) -> dict[str, Any]:
        """Return the arguments of `StepTable.from_arrays`, all of them lists.

        Args:
            shared: the next state of a step is the same object as the state of the following step, as in a rollout;
                otherwise every string is an object of its own.
        """
        table = self.table
        state = [text.decode() for text in self.state]
        if shared:
            following = [*state[1:], ""]
            next_state = [
                after if goes_on else text.decode()
                for after, goes_on, text in zip(following, self._goes_on, self.next_state, strict=True)
            ]
        else:
            next_state = [text.decode() for text in self.next_state]
        return {
            "group": [f"task {group}" for group in table.group.tolist()],
            "trajectory": [f"episode {trajectory}" for trajectory in table.trajectory.tolist()],
            "t": table.t.tolist(),
            "state": state,
            "action": [f"go {table.actions[action]}" for action in table.action.tolist()],
            "next_state": next_state,
            "reward": table.reward.tolist(),
            "won": table.won.tolist(),
            "valid": table.valid.tolist(),
        }

    def fresh_table(self) -> StepTable:
        """Return a table with nothing cached."""
        return StepTable.from_arrays(**self.columns())
