"""Who scores a dialogue that has ended: rules, or a language model."""
