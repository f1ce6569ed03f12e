"""Search players: policies that search on forks of the environment before they play.

A method of `methods` (best of n, beam search, MCTS) grows one `tree.Tree` per episode. `simulator.Simulator` plays the
simulations of all trees in parallel in one vector environment. `player.SearchPlayer` is the policy. `lessons` turns
searches into training data.
"""
