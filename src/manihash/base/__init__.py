"""The base set, the search for nearest base points, and the weights of rows to base points."""
