"""The reproduction of the paper: every table and figure, its claims, and the report."""
