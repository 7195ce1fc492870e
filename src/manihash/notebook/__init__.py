"""Pages inside notebooks: the page to explore codes, and the report."""
