"""Where the time of a fit and of an encode goes: ``make profile``.

Each thread is sampled every few milliseconds; a line counts the samples in which a function of manihash was
the innermost one at work, whatever it had called in numpy or scipy.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import manihash
from manihash import load_dataset, recipe

SOURCE = str(Path(manihash.__file__).parent)
EVERY = 0.002


def sampled(work: Callable[[], object]) -> tuple[float, Counter[str]]:
    """Seconds that the work took, and how often each function of manihash was met."""
    met: Counter[str] = Counter()
    done, me = threading.Event(), threading.get_ident()

    def watch() -> None:
        while not done.wait(EVERY):
            for ident, frame in sys._current_frames().items():
                while frame is not None and not frame.f_code.co_filename.startswith(SOURCE):
                    frame = frame.f_back
                if frame is not None and ident != threading.get_ident():
                    name = f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}"
                    waits = ident == me and frame.f_code.co_name in ("map", "_each")
                    met["(the main thread waits)" if waits else name] += 1

    watcher = threading.Thread(target=watch, daemon=True)
    start = time.perf_counter()
    watcher.start()
    work()
    taken = time.perf_counter() - start
    done.set()
    watcher.join()
    return taken, met


def show(title: str, taken: float, met: Counter[str]) -> None:
    print(f"\n{title}: {taken:.2f} s")
    total = sum(met.values())
    for name, count in met.most_common(15):
        print(f"  {count / total:6.1%}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", default="imh-tsne")
    parser.add_argument("--data", default="mnist")
    options = parser.parse_args()
    X = load_dataset(options.data).X_train
    hasher = recipe(options.recipe, random_state=0)
    show(f"fit {options.recipe} on {options.data}", *sampled(lambda: hasher.fit(X)))
    show("encode", *sampled(lambda: hasher.encode(X)))


if __name__ == "__main__":
    main()
