"""Files: atomic writes, model files, resumable files, and the formats of data files."""
