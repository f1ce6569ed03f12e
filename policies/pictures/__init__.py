"""Pictures in prompts: their store, their numbers, and what a model is given of them."""
