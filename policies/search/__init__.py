"""Search players: a policy that may try before it plays, on forks of the environment.

best_of_n  whole attempts, the best of which is played
beam       the most promising states of each step, side by side
mcts       Monte-Carlo tree search: PUCT, with the policy's probabilities as priors

A method grows one `tree.Tree` per episode; `simulator.Simulator` plays what all trees ask for side by side in one
vector environment; `player.SearchPlayer` is the policy. What a search has seen is also data: `lessons`.
"""
