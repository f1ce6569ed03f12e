"""How well step scores of networks rank actions, learned beside a policy that stands still."""
