"""The command in a process that is killed, or whose files cannot grow; light to import."""

import multiprocessing
import os
import resource
import signal
import sys

CONTEXT = multiprocessing.get_context("forkserver")
COMMAND = ["manihash.cli._app", "manihash.cli._command", "sklearn.base", "manihash.search"]
PARTS = ["hashers.recipes", "maintenance.stored_codes", "files.formats", "datasets", "stores"]
# Those that are there.
LIBRARIES = ["faiss", "duckdb", "usearch.index", "jinja2", "pydantic.type_adapter", "uvloop"]
LIBRARIES += ["manihash.web.api.application", "manihash.web.server"]
# What commands import takes longer than their work.
CONTEXT.set_forkserver_preload([*COMMAND, *(f"manihash.{part}" for part in PARTS), *LIBRARIES])


def _work(folder, args, file_limit, ready):
    os.chdir(folder)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if file_limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    import manihash.files.resumable as resumable
    import manihash.rows.local as local
    from manihash.cli import main

    resumable._CHECKPOINT_SECONDS = local._STREAM_SECONDS = 0.005
    sys.argv = ["manihash", *args]
    ready.set()
    main()


def run_killed(folder, args, seconds):
    """Run the command and kill it after some seconds; return its exit code, negative if it was killed."""
    return _run(folder, args, seconds, None)


def run_limited(folder, args, file_limit):
    """Run the command with a limit on the size of its files, as on a full disk; return its exit code."""
    return _run(folder, args, None, file_limit)


def stored_codes(folder, address, n):
    """The codes of rows 0 to n of a store, read by a process of its own; None if there are other rows."""
    receive, send = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_read, args=(str(folder), address, n, send))
    process.start()
    send.close()
    try:
        return receive.recv_bytes()
    except EOFError:
        return None
    finally:
        process.join()


def _read(folder, address, n, send):
    os.chdir(folder)
    import numpy as np

    from manihash import open_store

    with open_store(address) as store:
        if len(store) == n:
            send.send_bytes(store.get(np.arange(n)).tobytes())
    os._exit(0)  # an engine inside the process may have threads that do not end


def _run(folder, args, seconds, file_limit):
    ready = CONTEXT.Event()
    process = CONTEXT.Process(target=_work, args=(str(folder), args, file_limit, ready))
    process.start()
    assert ready.wait(120)
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join()
    return process.exitcode
