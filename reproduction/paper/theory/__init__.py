"""The Nyström method and the prototype algorithm, which the paper relates induction to."""
