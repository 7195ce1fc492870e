"""One file per table or figure of the paper: its trials, its section of the report, its claims."""
