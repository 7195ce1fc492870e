"""Pages in notebooks and in the browser: the page to explore codes, and the report."""

from manihash.notebook.report_view import Report, report
from manihash.notebook.view import ExploreView, explore

__all__ = ["ExploreView", "Report", "explore", "report"]
