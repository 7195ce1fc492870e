"""Every experiment of the paper, one file a table or figure."""
