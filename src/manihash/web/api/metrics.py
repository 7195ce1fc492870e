"""Counters of a server in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Histogram:
    """Counts of values by upper bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        """The lines of the buckets, the sum and the count."""
        lines, total = [], 0
        comma = "," if labels else ""
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            lines.append(f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}')
        braces = f"{{{labels}}}" if labels else ""
        return [*lines, f"{name}_sum{braces} {self.sum:.9g}", f"{name}_count{braces} {total}"]


class Metrics:
    """Requests by address and status, their times, the sizes of batches, and values read when asked for."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.batches = Histogram(SIZES)
        self.gauges: dict[str, tuple[str, str, Callable[[], float]]] = {}

    def request(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests[method, path, status] += 1
        if (histogram := self.seconds.get(path)) is None:
            histogram = self.seconds[path] = Histogram(SECONDS)
        histogram.add(seconds)

    def gauge(self, name: str, help: str, read: Callable[[], float], kind: str = "gauge") -> None:
        """Add a value that is read whenever the metrics are asked for."""
        self.gauges[name] = (help, kind, read)

    def text(self) -> str:
        """All metrics in the text format."""
        name = "manihash_requests_total"
        lines = _head(name, "counter", "Requests by method, address and status.")
        for (method, path, status), count in sorted(self.requests.items()):
            lines.append(f'{name}{{method="{method}",path="{path}",status="{status}"}} {count}')
        name = "manihash_request_seconds"
        lines += _head(name, "histogram", "Time from the start of a request to the end of its answer.")
        for path, histogram in sorted(self.seconds.items()):
            lines += histogram.lines(name, f'path="{path}"')
        name = "manihash_batch_requests"
        lines += _head(name, "histogram", "Requests that were computed together.")
        lines += self.batches.lines(name, "")
        for name, (text, kind, read) in self.gauges.items():
            lines += [*_head(name, kind, text), f"{name} {read():.15g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
