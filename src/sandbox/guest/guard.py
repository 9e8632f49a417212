"""guard.py - a program runs in the process of its tests: this ends one that looks at those who call
it, or reaches for C, and undoes what it changed in the modules that the tests use.

Whom events come from is told by the file names of code: those of Python, of this folder and of the
tests can be given to no other code."""

import builtins

BUILTINS = builtins.__dict__
__builtins__ = BUILTINS.copy()  # of the functions below: others' changes do not reach them

import _signal  # noqa: E402
import ctypes  # noqa: E402
import sys  # noqa: E402
import types  # noqa: E402
from _thread import get_ident  # noqa: E402

frame_at = sys._getframe

OURS = ("/usr/", "/sandbox/", "/task/", "<frozen ", "<doctest ")
SHOWS_FRAMES = ("/inspect.py", "/traceback.py", "/logging/__init__.py")
FRAMES = frozenset(["tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_code"])
EVENTS = frozenset(["sys._getframe", "sys._current_frames", "sys._current_exceptions",
                    "sys.settrace", "sys.setprofile", "sys.addaudithook",
                    "sys.monitoring.register_callback", "gc.get_objects", "gc.get_referrers",
                    "gc.get_referents", "marshal.loads", "code.__new__", "compile", "import",
                    "object.__getattr__"])
REACH_C = frozenset(["cffi", "_cffi_backend", "_testcapi", "_testinternalcapi", "_signal",
                     "_ctypes", "ctypes"])
IMMUTABLE, FLAGS_AT = 1 << 8, 24 + 18 * 8  # of a type: Py_TPFLAGS_IMMUTABLETYPE, tp_flags
VERSION_AT = 24  # of a dictionary: ma_version_tag


def is_ours(name):
    return name == "tests" or str.startswith(name, OURS)


def is_of_program(frame, event):
    """Whether the program asks, itself or by a module that gives frames to who calls it."""
    while frame and (str.startswith(frame.f_code.co_filename, "<frozen ")
                     or event[:7] == "ctypes." and "/ctypes/" in frame.f_code.co_filename):
        frame = frame.f_back
    if not frame:
        return False
    name = frame.f_code.co_filename
    if not is_ours(name):
        return True
    if not str.endswith(name, SHOWS_FRAMES):
        return False
    back = frame.f_back
    return (str.endswith(name, "/inspect.py") or frame.f_code.co_name == "walk_stack"
            or bool(back) and not is_ours(back.f_code.co_filename))


def looks(event, args, frame, hidden):
    """Whether an event is a look at callers, or a way around this guard."""
    if event == "object.__getattr__":
        thing, name = args
        if thing is hidden:
            return True
        if name == "__code__":
            return (not is_ours(frame.f_code.co_filename)
                    and thing.__code__.co_filename == "tests")
        if name not in FRAMES:
            return False
    elif event == "import":
        if args[0] not in REACH_C:
            return False
    elif event == "marshal.loads":
        return not is_ours(frame.f_code.co_filename)
    elif event == "compile":
        return takes_name(args[0], args[1], frame)
    return is_of_program(frame, event)


def takes_name(source, name, frame):
    """Whether a program's text gets a file name of ours that it does not come from."""
    if isinstance(name, bytes):
        name = bytes.decode(name, "utf-8", "replace")
    if not isinstance(name, str) or not is_ours(name) or not is_of_program(frame, "compile"):
        return False
    try:
        with open(name, "rb") as f:
            return f.read() != source
    except OSError:
        return True


def alone(function, **names):
    """The same function, through which nothing else of this file is reached."""
    return types.FunctionType(function.__code__, {"__builtins__": names}, function.__name__,
                              function.__defaults__)


def signal(number, handler, /, real=_signal.signal):
    """Its handlers see no frame."""
    if not callable(handler):
        return real(number, handler)
    return real(number, lambda number, frame: handler(number, None))


def watch(refuse):
    """Refuse(what) where the program looks, as soon as the function that this returns was called.
    All of it is made before the first fork: memory that a variant touches is copied."""
    busy, armed = set(), []
    hidden = _signal.signal = alone(signal, callable=callable)

    def hook(event, args):
        if not armed or event not in EVENTS and event[:7] != "ctypes.":
            return
        me = get_ident()
        if me in busy:
            return
        busy.add(me)
        try:
            bad = looks(event, args, frame_at(1), hidden)
        except BaseException:
            bad = True
        if bad:
            refuse(event)
        busy.discard(me)
    sys.addaudithook(hook)
    return lambda: armed.append(True)


def freeze(classes):
    """Make attributes of classes of Python unchangeable, as those of C are."""
    for one in classes:
        flags = ctypes.c_ulong.from_address(id(one) + FLAGS_AT)
        if sys.version_info >= (3, 10) and flags.value == one.__flags__:
            flags.value |= IMMUTABLE


def version_of(names):
    """A number that changes with a dictionary (PEP 509); 0: there is none."""
    if sys.version_info >= (3, 13):
        return 0
    return ctypes.c_uint64.from_address(id(names) + VERSION_AT).value


def names_of(modules):
    """What put_back() needs of modules that are there."""
    return {m: (sys.modules[m], dict(sys.modules[m].__dict__), version_of(sys.modules[m].__dict__))
            for m in modules if m in sys.modules}


def put_back(kept):
    for name, (module, names, version) in kept.items():
        sys.modules[name] = module
        if not version or version != version_of(module.__dict__):
            module.__dict__.update(names)
