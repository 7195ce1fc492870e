"""Look at the codes of a set of rows: a local page, one self-contained file, and a printed report."""
