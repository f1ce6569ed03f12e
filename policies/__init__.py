"""Who acts: scripted players, any Hugging Face language model, and a tiny one built from scratch.

Importing this package loads neither torch nor transformers; import the file you need, for example
`from policies.scripted import ExpertPolicy` or `from policies.tiny import tiny_policy`.
"""

import agentgym  # noqa: F401  # which says what is not installed
