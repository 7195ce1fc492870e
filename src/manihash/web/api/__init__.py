"""The search API: encode, search and change rows over HTTP."""
