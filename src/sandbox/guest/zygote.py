"""zygote.py - an interpreter that is warm: each job runs in a fork of it, behind the walls of the
library beside it."""

import ast
import builtins
import ctypes
import gc
import io
import os
import random
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
FAIL, ERROR, PARSE, MEMORY, BROKEN = 1, 113, 114, 115, 116
TESTS, DOCTEST, PYTEST, BEHAVIOUR, LINES = range(5)


class WireJob(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_uint32) for n in ("magic", "language", "mode", "flags", "wall_ms",
                                                "cpu_s", "processes", "descriptors")]
                + [(n, ctypes.c_uint64) for n in ("memory_bytes", "file_bytes", "tmp_bytes",
                                                  "output_bytes")]
                + [(n, ctypes.c_uint32) for n in ("n_program", "n_tests", "n_name", "seed",
                                                  "cpu_ms", "unused")]
                + [("mark", ctypes.c_char * 32)])


class GuestJob(ctypes.Structure):
    _fields_ = [("job", WireJob), ("program", ctypes.c_void_p), ("tests", ctypes.c_void_p),
                ("name", ctypes.c_void_p), ("map", ctypes.c_void_p), ("n_map", ctypes.c_size_t)]


def note(text):
    """A word to those who watch: how far it came, and what stopped it."""
    os.write(3, text.encode("utf-8", "replace")[:400])


def parsed(text, name):
    """A program's code; what does not parse ends here."""
    try:
        return compile(text, name, "exec", dont_inherit=True)
    except MemoryError:
        os._exit(PARSE)
    except (SyntaxError, ValueError, RecursionError, OverflowError) as e:
        note("%s: %s" % (type(e).__name__, str(e)[:200]))
        os._exit(PARSE)


def failed(e, name):
    """The exit status for an exception, after a note with its lines."""
    if isinstance(e, MemoryError):
        note("!MemoryError")
        return MEMORY
    lines, at = {}, e.__traceback__
    while at:
        lines[at.tb_frame.f_code.co_filename] = at.tb_lineno
        at = at.tb_next
    try:
        text = str(e)[:200]
    except BaseException:
        text = ""
    places = ["%s:%d: " % (f, lines[f]) for f in ("tests", name) if f in lines]
    note("!%s%s%s%s" % ("".join(places), type(e).__name__, text and ": ", text))
    return FAIL if isinstance(e, AssertionError) else ERROR


def pieces(tests):
    """Statements of the tests; each that is passed is one more."""
    tree = ast.parse(tests, "tests")
    for i, statement in enumerate(tree.body):
        yield compile(ast.Module([statement], []), "tests", "exec", dont_inherit=True), i


def run_cases(space, passed):
    """Classes of unittest and functions called test_*; how many passed."""
    cases = [v for k, v in list(space.items()) if isinstance(v, type) and "unittest" in sys.modules
             and issubclass(v, sys.modules["unittest"].TestCase)]
    for case in cases:
        suite = sys.modules["unittest"].TestLoader().loadTestsFromTestCase(case)
        for one in suite:
            result = sys.modules["unittest"].TestResult()
            one.run(result)
            for _, text in result.failures + result.errors:
                note("!%s: %s" % (one.id(), text.strip().rsplit("\n", 1)[-1][:200]))
                os._exit(FAIL)
            passed()
    for name, f in list(space.items()):
        if name.startswith("test_") and isinstance(f, types.FunctionType):
            code = f.__code__
            if code.co_argcount - len(f.__defaults__ or ()) == 0 and code.co_filename == "tests":
                f()
                passed()


def run_tests(space, tests):
    count = [0]

    def passed():
        count[0] += 1
        note(".")
    for code, _ in pieces(tests):
        exec(code, space)
        passed()
    run_cases(space, passed)
    return count[0]


def run_doctest(module, original):
    """The examples of the docstrings as they were before a variant could change them."""
    import doctest
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    n = 0
    for node in ast.walk(ast.parse(original)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = ast.get_docstring(node)
        if not text or ">>>" not in text:
            continue
        name = getattr(node, "name", "module")
        for example in parser.get_examples(text):
            n += 1
        out = io.StringIO()
        test = parser.get_doctest(text, module.__dict__.copy(), name, "tests", 0)
        runner.run(test, out=out.write)
        if runner.failures:
            note("!%s: %s" % (name, " ".join(out.getvalue().split())[-200:]))
            os._exit(FAIL)
        note(".")
    if not n:
        note("!there is no example in a docstring")
        os._exit(BROKEN)


def run_pytest(job, program, name, arguments):
    import shlex
    try:
        import pytest
    except ImportError:
        note("!there is no pytest for /usr/bin/python3: install python3-pytest")
        os._exit(BROKEN)
    if not lib.exec_unpack(b"/tmp/task"):
        note("!the folder does not fit into the sandbox")
        os._exit(BROKEN)
    os.chdir("/tmp/task")
    with open(name, "wb") as f:
        f.write(program)
    sys.path.insert(0, "/tmp/task")
    status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *shlex.split(arguments)])
    sys.stdout.flush()
    if status in (4, 5):  # its arguments are wrong, or it found no test
        note("!pytest found no tests by these arguments")
        os._exit(BROKEN)
    if status != 0:
        os._exit(FAIL)


def other_values(value):
    """Values near to one that a test has."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [value + 1, -value, 0]
    if isinstance(value, (str, bytes)):
        return [value[1:], value[::-1], value + value]
    return []


class Turned(ast.NodeTransformer):
    """The tests with one literal turned into another, and assertions that say what they see."""

    def __init__(self, which, turn):
        self.which, self.turn, self.n, self.changed = which, turn, -1, False

    def visit_Constant(self, node):
        others = other_values(node.value)
        if others:
            self.n += 1
        if not others or self.n != self.which or self.turn >= len(others):
            return node
        self.changed = True
        return ast.copy_location(ast.Constant(others[self.turn]), node)

    def visit_Assert(self, node):
        seen = node.test.left if isinstance(node.test, ast.Compare) else node.test
        seen = self.visit(seen)
        call = ast.Call(ast.Name("__seen", ast.Load()), [seen], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def behaviour(code, module, tests):
    """What the program gives where the tests ask for something else than they do, a line each."""
    lines = []

    def seen(value):
        lines.append(repr(value)[:200])
    for turn in range(3):
        for which in range(24):
            turned = Turned(which, turn)
            tree = turned.visit(ast.parse(tests, "tests"))
            if not turned.changed:
                continue
            fresh = dict(module.__dict__)
            exec(code, fresh)
            fresh.update({"__name__": "tests", "__seen": seen})
            for statement in tree.body:
                try:
                    exec(compile(ast.Module([statement], []), "tests", "exec"), fresh)
                except Exception as e:
                    lines.append(type(e).__name__)
            for name, f in list(fresh.items()):
                if name.startswith("test_") and isinstance(f, types.FunctionType):
                    try:
                        f()
                    except Exception as e:
                        lines.append(type(e).__name__)
    sys.stdout.write("%x\n" % (hash(tuple(lines)) & (1 << 64) - 1))


def reached_lines(module, program, name, tests):
    """Numbers of the lines that the tests reach."""
    lines = set()

    def trace(frame, event, arg):
        if frame.f_code.co_filename != name:
            return None
        if event == "line":
            lines.add(frame.f_lineno)
        return trace
    space = dict(module.__dict__)
    sys.settrace(trace)
    try:
        run_tests(space, tests)
    except BaseException:
        pass
    sys.settrace(None)
    print(" ".join(map(str, sorted(lines))))


def run(g):
    job = g.job
    program = ctypes.string_at(g.program, job.n_program)
    tests = ctypes.string_at(g.tests, job.n_tests).decode("utf-8", "replace")
    name = ctypes.string_at(g.name, job.n_name).decode("utf-8", "replace")
    mark = ctypes.string_at(ctypes.addressof(g.job) + WireJob.mark.offset, 32)
    os.chdir("/tmp")
    random.seed(job.seed)
    sys.argv = [name]
    if job.mode == PYTEST:
        run_pytest(job, program, name, tests)
        return mark
    code = parsed(program, name)
    module = types.ModuleType(os.path.splitext(os.path.basename(name))[0])
    module.__file__ = name
    sys.modules[module.__name__] = module
    try:
        exec(code, module.__dict__)
        if job.mode == DOCTEST:
            run_doctest(module, tests)
        elif job.mode == BEHAVIOUR:
            behaviour(code, module, tests)
        elif job.mode == LINES:
            reached_lines(module, program, name, tests)
        else:
            space = dict(module.__dict__)
            space["__name__"] = "tests"
            space["__builtins__"] = builtins.__dict__.copy()
            if not run_tests(space, tests):
                note("!there is no test")
                os._exit(BROKEN)
        sys.stdout.flush()
    except SystemExit:
        note("!SystemExit")
        os._exit(ERROR)
    except BaseException as e:
        if isinstance(e, SyntaxError) and e.filename == "tests":
            note("!tests:%s: %s" % (e.lineno, e.msg))
            os._exit(BROKEN)
        os._exit(failed(e, name))
    return mark


def main():
    global lib
    folder = sys.argv[2] if len(sys.argv) > 2 else "/sandbox"
    lib = ctypes.PyDLL(sys.argv[1])
    if not lib.walls_open(os.fsencode(folder + "/filter")):
        sys.exit(2)
    if not lib.exec_open_folder(os.fsencode(folder + "/folder")):
        sys.exit(3)
    sys.path[:] = [at for at in sys.path if at and at != HERE]
    if lib.exec_n_folder():
        if not lib.exec_unpack(b"/task"):
            sys.exit(3)
        sys.path.insert(0, "/task")
    for name in sys.argv[3:]:
        try:
            __import__(name)
        except ImportError:
            pass
    import unittest  # noqa: F401  before the fork, for all
    sys.dont_write_bytecode = True
    g = GuestJob()
    gc.collect()
    gc.freeze()
    got = lib.guest_next(ctypes.byref(g))
    if got != 1:
        sys.exit(0 if got == 0 else 4)
    mark = run(g)
    os.write(3, mark)
    os._exit(0)


main()
