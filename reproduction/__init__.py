"""The reproduction of the paper and the demo: part of the source checkout, not of the installed package."""
