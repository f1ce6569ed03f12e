"""Who learns: batches, losses, the trainer, its recipes, and behaviour cloning.

Importing this package loads nothing heavy; import the file you need, for example
`from baselines.imitation.cloning import clone`.
"""
