"""Search players: a policy that may try before it plays, on forks of the environment.

A method of `methods` (best of n, beam search, MCTS) grows one `tree.Tree` per episode; `simulator.Simulator` plays what
all trees ask for side by side in one vector environment; `player.SearchPlayer` is the policy. What a search has seen is
also data: `lessons`.
"""
