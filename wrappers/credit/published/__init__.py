"""What only reproduces the code of a release: reached through a method's options, behind `preset="authors"`."""
