"""Tasks: what one trial can measure."""
