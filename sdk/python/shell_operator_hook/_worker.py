"""Serves runs in a process that is started once: the protocol of settings.worker."""

import atexit
import contextlib
import gc
import json
import os
import subprocess
import sys
import threading
import traceback
import weakref
from types import TracebackType
from typing import Callable, Dict, List, NoReturn, Optional, Type

VARIABLE = "HOOK_WORKER_FD"


def serve(run: Callable[[], None], fork: bool) -> NoReturn:
    """Serves runs until the operator closes the socket, each by a call of run, in a fork or in this process."""
    channel = int(os.environ.pop(VARIABLE))
    os.set_inheritable(channel, False)
    if fork:
        _check_threads()
        _flush()
        gc.collect()
        gc.freeze()  # collections in runs do not copy what was prepared
    environment = dict(os.environb)
    os.write(channel, b"ready\n")
    while True:
        variables = _receive(channel)
        if variables is None:
            sys.exit(0)
        if fork:
            _check_threads()
            status = _forked(run, variables, channel)
        else:
            _replace_environment({**environment, **variables})
            status = _status(run)
            _flush()
        try:
            os.write(channel, b"%s %d\n" % (variables[b"HOOK_RUN"], status))
        except OSError:  # the operator is gone
            sys.exit(0)


def _receive(channel: int) -> Optional[Dict[bytes, bytes]]:
    """The variables of the next run; None at the end."""
    text = b""
    while not text.endswith(b"\0\0"):
        part = os.read(channel, 1 << 16)
        if not part:
            return None
        text += part
    variables: Dict[bytes, bytes] = {}
    for variable in text[:-2].split(b"\0"):
        name, _, value = variable.partition(b"=")
        variables[name] = value
    return variables


def _replace_environment(wanted: Dict[bytes, bytes]) -> None:
    for name in set(os.environb) - set(wanted):
        del os.environb[name]
    os.environb.update(wanted)


def _forked(run: Callable[[], None], variables: Dict[bytes, bytes], channel: int) -> int:
    """The exit status of run in a fork."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(channel)
            _leave_preparation()
            os.environb.update(variables)
            for name, descriptor in ((b"HOOK_STDOUT", 1), (b"HOOK_STDERR", 2)):
                _open_pipe(variables.get(name), descriptor)
            status = _status(run)
            status = _end(status)
        finally:
            os._exit(status)
    _, ended = os.waitpid(pid, 0)
    if os.WIFSIGNALED(ended):
        return 128 + os.WTERMSIG(ended)
    return os.WEXITSTATUS(ended)


def _leave_preparation() -> None:
    """What is to happen at the end of the worker does not happen at the end of a run."""
    atexit._clear()
    for finalizer in list(getattr(weakref.finalize, "_registry", ())):
        finalizer.detach()
    if hasattr(weakref.finalize, "_registered_with_atexit"):
        weakref.finalize._registered_with_atexit = False
    if "multiprocessing.process" in sys.modules:
        sys.modules["multiprocessing.process"]._children = set()  # type: ignore[attr-defined]
    # Modules that were imported by the preparation have registered these, which are about the run.
    ends = [("logging", "shutdown"), ("multiprocessing.util", "_exit_function")]
    if sys.version_info < (3, 9):
        ends.append(("concurrent.futures.thread", "_python_exit"))
    for module, function in ends:
        if hasattr(sys.modules.get(module), function):
            atexit.register(getattr(sys.modules[module], function))


def _open_pipe(path: Optional[bytes], descriptor: int) -> None:
    """Lets a descriptor lead to a named pipe. To open one blocks if the operator is gone."""
    if not path:
        return
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    os.set_blocking(pipe, True)
    os.dup2(pipe, descriptor)
    os.close(pipe)


def _status(run: Callable[[], None]) -> int:
    """Calls run, and returns the status with which a program would exit."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    except BaseException as problem:
        cut_tracebacks()
        sys.excepthook(type(problem), problem, problem.__traceback__)
        return 1
    return 0


def _of_hook(frames: Optional[TracebackType]) -> Optional[TracebackType]:
    """Returns a traceback without the frames of this library before those of the hook, which say nothing about the hook."""
    if frames is None:
        return None
    rest = _of_hook(frames.tb_next)
    if rest is not None and os.path.dirname(frames.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        return rest
    frames.tb_next = rest
    return frames


def cut_tracebacks() -> None:
    """Lets the interpreter print the exception that ends a program without the frames of this library, and report its cause."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _report


def _report(kind: Type[BaseException], problem: BaseException, frames: Optional[TracebackType]) -> None:
    """Prints an exception with paths below the directory of hooks, and writes its cause to the file of the run."""
    frames = _of_hook(frames)
    text = "".join(traceback.format_exception(kind, problem.with_traceback(frames), frames))
    root = _hooks()
    print(text.replace(f'File "{root}', 'File "') if root else text, end="", file=sys.stderr)
    path = os.environ.get("RUN_FAILURE_PATH")
    if path:
        with contextlib.suppress(Exception), open(path, "w", encoding="utf-8") as file:
            json.dump(_failure(kind, problem, frames, root), file)


def _failure(kind: Type[BaseException], problem: BaseException, frames: Optional[TracebackType], root: str) -> Dict[str, object]:
    """The message of an exception, and its place: the innermost one below the directory of hooks. A child has printed why it failed."""
    stack = traceback.extract_tb(frames)
    own = [frame for frame in stack if root and frame.filename.startswith(root)] or stack
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    lines = f"{name}: {problem}".splitlines()
    if isinstance(problem, subprocess.CalledProcessError):
        printed = problem.stderr or problem.output or ""
        printed = printed.decode(errors="replace") if isinstance(printed, bytes) else printed
        lines = [line for line in printed.splitlines() if line.strip()][-1:] or [""]
    failure: Dict[str, object] = {"message": lines[0][:1000], "status": 1}
    if own:
        failure.update(file=own[-1].filename, line=own[-1].lineno)
        if not own[-1].name.startswith("<"):
            failure["function"] = own[-1].name
    return failure


def _hooks() -> str:
    """The directory of hooks, with a slash; empty if it is unknown."""
    path, name = os.path.abspath(sys.argv[0]), os.environ.get("HOOK_NAME", "")
    return path[: -len(name)] if name and path.endswith("/" + name) else ""


def _end(status: int) -> int:
    """Ends a run as the interpreter does: waits for threads, calls what the run has registered, and flushes its output."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        _flush()
    except OSError:
        return status or 120
    return status


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _check_threads() -> None:
    others: List[str] = [t.name for t in threading.enumerate() if t is not threading.current_thread()]
    if others:
        raise RuntimeError(
            f"these threads exist before a run is forked, and would be missing in it: {', '.join(others)}. "
            "Start them in a handler, or use hook.run(fork=False)"
        )
