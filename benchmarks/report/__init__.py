"""Pages and pictures of the results."""
