"""Files of passages and of questions in the published formats."""
