"""The main job: cloning, training, comparing on held-out tasks."""
