"""What a method is to the trainer: recipes, and the papers' settings."""

from baselines.recipes.definition import Recipe
from baselines.recipes.rows import RECIPES, recipe

__all__ = ["RECIPES", "Recipe", "recipe"]
