"""Games: scenarios whose outcome is computed from utterances."""
