"""Tasks for the workers of test_trials.py, which find them by the name of this module; light to import."""

import os
import signal
import time

from reproduction.paper.run.trial import Outcome


def bits_as_map(t):
    return Outcome({"map": t.bits / 100}, {"fit": 0.5})


def third_fails(t):
    if t.bits == 3:
        raise ValueError("three is too many")
    return bits_as_map(t)


def third_is_killed(t):
    if t.bits == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return bits_as_map(t)


def slow_after_the_second(t):
    if t.bits > 2:
        time.sleep(60)
    return bits_as_map(t)


def when_it_ran(t):
    start = time.time()
    time.sleep(0.3)
    return Outcome({"start": start, "end": time.time(), "process": os.getpid()})
