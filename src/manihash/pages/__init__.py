"""Reports: plots, pictures and pages that open anywhere, from results computed elsewhere."""
