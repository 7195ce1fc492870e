"""Base sets: how base points are chosen, how the nearest ones are found, and the weights to them."""
