"""Who takes a side of a dialogue: scripted players and language models; a new player is a file here."""
