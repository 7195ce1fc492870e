"""The demo: what it measures, and its page."""
