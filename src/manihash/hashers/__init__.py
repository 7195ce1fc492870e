"""Hashers, one file a method, and the table of recipes that names them."""
