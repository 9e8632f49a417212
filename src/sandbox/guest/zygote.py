"""zygote.py - an interpreter that is warm: each job runs in a fork of it, behind the walls of the
library beside it.

A program runs in the process of its tests, and may change whatever module it finds.  So what is
needed after it has run is held in this file's own names, this file is in no module that it can
import, and guard() ends programs that look at the frames of those who call them."""

import builtins

BUILTINS = builtins.__dict__
__builtins__ = BUILTINS.copy()  # of the functions below
PRISTINE = BUILTINS.copy()  # of tests; programs have the others

import ast  # noqa: E402
import ctypes  # noqa: E402
import doctest  # noqa: E402
import gc  # noqa: E402
import io  # noqa: E402
import os  # noqa: E402
import random  # noqa: E402
import sys  # noqa: E402
import types  # noqa: E402
import unittest  # noqa: E402

import guard  # noqa: E402

end, write = os._exit, os.write
TestCase, TestLoader, TestResult = unittest.TestCase, unittest.TestLoader, unittest.TestResult
hidden = []  # modules that nobody can import
HERE = os.path.dirname(os.path.abspath(__file__))
FAIL, ERROR, PARSE, MEMORY, BROKEN = 1, 113, 114, 115, 116
TESTS, DOCTEST, PYTEST, BEHAVIOUR, LINES = range(5)
MAY_LOOK = 4  # a flag of a job: the file itself looks at frames, or calls C


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
    write(3, text.encode("utf-8", "replace")[:400])


def parsed(text, name):
    """A program's code; what does not parse ends here."""
    try:
        return compile(text, name, "exec", dont_inherit=True)
    except MemoryError:
        end(PARSE)
    except (SyntaxError, ValueError, RecursionError, OverflowError) as e:
        note("%s: %s" % (type(e).__name__, str(e)[:200]))
        end(PARSE)


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


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
UNITTEST = {"unittest", "unittest.case", "unittest.result", "unittest.loader", "unittest.suite",
            "doctest", "ast"}


def read_tests(text):
    """The tests' text, compiled before the program runs."""
    try:
        tree = ast.parse(text, "tests")
        for one in ast.walk(tree):
            if isinstance(one, ast.Assert):
                check_equality(one)
        steps = [compile(ast.Module([one], []), "tests", "exec", dont_inherit=True)
                 for one in tree.body]
    except (SyntaxError, ValueError, RecursionError) as e:
        note("!tests:%s: %s" % (getattr(e, "lineno", 0), getattr(e, "msg", e)))
        end(BROKEN)
    defined = [one for one in tree.body if isinstance(one, DEFINITIONS)]
    tests = types.SimpleNamespace(steps=steps, uses=set())
    tests.functions = [one.name for one in defined if one.name.startswith("test_")
                       and not isinstance(one, ast.ClassDef)]
    tests.cases = [one.name for one in defined if isinstance(one, ast.ClassDef) and any(
        ast.unparse(base).rsplit(".", 1)[-1] == "TestCase" for base in one.bases)]
    for one in ast.walk(tree):
        tests.uses.update(imported(one))
    if any(isinstance(one, ast.AsyncFunctionDef) for one in defined):
        import asyncio
        tests.run_async = asyncio.run
    return tests


def imported(node):
    """Modules of Python's own that a statement imports; they are loaded."""
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module]
    for name in names:
        if name.split(".")[0] in getattr(sys, "stdlib_module_names", ()):
            try:
                __import__(name)
            except ImportError:
                continue
            yield name


def check_equality(node):
    """Let an assertion of a == b ask equal(), which knows what equals everything."""
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        call = ast.Call(ast.Name("__equal", ast.Load()), [test.left, test.comparators[0]], [])
        node.test = ast.fix_missing_locations(ast.copy_location(call, test))


def equal(a, b):
    """a == b; false if a also equals something else that b does not."""
    same, others = a == b, [object()]
    if not same:
        return same
    if type(b) in (int, float, str, bytes):
        others.append(b + {int: 1, float: 1, str: "~"}.get(type(b), b"~"))
    for other in others:
        try:
            if a == other and not b == other:
                return False
        except Exception:
            pass
    return same


def run_case(case, passed):
    """A class of unittest.  What a program skips is not passed: its tests say what is skipped."""
    for one in TestLoader().loadTestsFromTestCase(case):
        result = TestResult()
        one.run(result)
        bad = [(one, text) for one, text in result.failures + result.errors]
        bad += [(one, "unexpected success") for one in result.unexpectedSuccesses]
        method = getattr(one, one._testMethodName)
        for _, why in result.skipped:
            if not any(getattr(x, "__unittest_skip__", False) for x in (case, method)):
                bad.append((one, "skipped: %s" % why))
        for one, text in bad:
            note("!%s: %s" % (one.id(), text.strip().rsplit("\n", 1)[-1][:200]))
            end(FAIL)
        if not result.testsRun:
            note("!%s: it did not run" % one.id())
            end(FAIL)
        passed()


def run_function(tests, f, passed):
    code = f.__code__
    if code.co_argcount - len(f.__defaults__ or ()) == 0:
        result = f()
        if isinstance(result, types.CoroutineType):
            tests.run_async(result)
        passed()


def run_tests(space, tests):
    """All of them; each that is passed is one more."""
    count = [0]

    def passed():
        count[0] += 1
        note(".")
    space["__equal"] = guard.alone(
        equal, object=object, type=type, int=int, float=float, str=str, bytes=bytes,
        Exception=Exception)
    for code in tests.steps:
        exec(code, space)
        passed()
    cases = [v for v in space.values() if isinstance(v, type) and issubclass(v, TestCase)]
    for name in tests.cases:
        if space.get(name) not in cases:
            note("!%s: no longer a TestCase" % name)
            end(FAIL)
    for case in cases:
        run_case(case, passed)
    for name in tests.functions:
        if isinstance(space.get(name), types.FunctionType):
            run_function(tests, space[name], passed)
    return count[0]


def run_doctest(module, original):
    """The examples of the docstrings as they were before a variant could change them."""
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
            end(FAIL)
        note(".")
    if not n:
        note("!there is no example in a docstring")
        end(BROKEN)


def plugin_of(name):
    """What pytest did: its status alone is 0 for tests that the program skipped or left."""
    class Seen:
        def __init__(self):
            self.passed, self.collected, self.ended, self.bad = 0, 0, 0, None
            self.files = {}
            for folder, _, files in os.walk("/tmp/task"):
                for file in files:
                    if file.endswith(".py"):
                        path = os.path.realpath(os.path.join(folder, file))
                        with open(path, "rb") as f:
                            self.files[path] = f.read()

        def check(self, path):
            """Before a file of the tests is imported: it is as it was."""
            path = os.path.realpath(str(path))
            if path.endswith(".py"):
                with open(path, "rb") as f:
                    if self.files.get(path) != f.read():
                        self.bad = "the program wrote %s" % os.path.basename(path)

        def pytest_plugin_registered(self, plugin, manager=None):
            if str(getattr(plugin, "__file__", None)).endswith("conftest.py"):
                self.check(plugin.__file__)

        def pytest_collectstart(self, collector):
            self.check(getattr(collector, "fspath", None) or "")

        def pytest_collection_finish(self, session):
            self.collected = len(session.items)

        def pytest_runtest_logreport(self, report):
            self.ended += report.when == "teardown"
            self.passed += report.when == "call" and report.passed
            where = report.longrepr[0] if isinstance(report.longrepr, tuple) else ""
            if report.skipped and os.path.basename(str(where)) == os.path.basename(name):
                self.bad = "the program skips its tests"
    return Seen()


def run_pytest(job, program, name, arguments):
    import shlex
    try:
        import pytest
    except ImportError:
        note("!there is no pytest for /usr/bin/python3: install python3-pytest")
        end(BROKEN)
    if not lib.exec_unpack(b"/tmp/task"):
        note("!the folder does not fit into the sandbox")
        end(BROKEN)
    os.chdir("/tmp/task")
    with open(name, "wb") as f:
        f.write(program)
    sys.path.insert(0, "/tmp/task")
    seen = plugin_of(name)
    status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *shlex.split(arguments)], [seen])
    sys.stdout.flush()
    if status in (4, 5):  # its arguments are wrong, or it found no test
        note("!pytest found no tests by these arguments")
        end(BROKEN)
    if status == 0 and (seen.bad or not seen.passed or seen.ended != seen.collected):
        note("!%s" % (seen.bad or "pytest ended before its last test"))
        status = 1
    if status != 0:
        end(FAIL)


def other_values(value):
    """Values near to one that a test has."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [value + 1, -value, 0]
    if isinstance(value, (str, bytes)):
        return [value[1:], value[::-1], value + value]
    return []


def turned(tests, which, turn):
    """The tests' tree so turned; None: there is no such literal."""
    class Turned(ast.NodeTransformer):
        """The tests with one literal turned into another, and assertions that say what they see."""

        def __init__(self):
            self.n, self.changed = -1, False

        def visit_Constant(self, node):
            others = other_values(node.value)
            if others:
                self.n += 1
            if not others or self.n != which or turn >= len(others):
                return node
            self.changed = True
            return ast.copy_location(ast.Constant(others[turn]), node)

        def visit_Assert(self, node):
            seen = node.test.left if isinstance(node.test, ast.Compare) else node.test
            seen = self.visit(seen)
            call = ast.Call(ast.Name("__seen", ast.Load()), [seen], [])
            return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))

    turning = Turned()
    tree = turning.visit(ast.parse(tests, "tests"))
    return tree if turning.changed else None


def behaviour(code, module, tests):
    """What the program gives where the tests ask for something else than they do, a line each."""
    lines = []

    def seen(value):
        lines.append(repr(value)[:200])
    for turn in range(3):
        for which in range(24):
            tree = turned(tests, which, turn)
            if not tree:
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
    space["__builtins__"] = PRISTINE
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
    module.__builtins__ = BUILTINS
    sys.modules[module.__name__] = module
    tester = read_tests(tests) if job.mode in (TESTS, LINES) else None
    kept = guard.names_of(tester.uses if tester else ())
    if not job.flags & MAY_LOOK:
        arm()
    try:
        exec(code, module.__dict__)
        guard.put_back(unittest_names)
        guard.put_back(kept)
        if job.mode == DOCTEST:
            run_doctest(module, tests)
        elif job.mode == BEHAVIOUR:
            behaviour(code, module, tests)
        elif job.mode == LINES:
            reached_lines(module, program, name, tester)
        else:
            space = dict(module.__dict__)
            space["__name__"] = "tests"
            space["__builtins__"] = PRISTINE
            if not run_tests(space, tester):
                note("!there is no test")
                end(BROKEN)
        sys.stdout.flush()
    except SystemExit:
        note("!SystemExit")
        end(ERROR)
    except BaseException as e:
        end(failed(e, name))
    return mark


def refuse(event):
    note("!it looks at what calls it (%s)" % event)
    end(ERROR)


def main():
    global lib, arm, unittest_names
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
    guard.freeze({one for m in UNITTEST for one in vars(sys.modules[m]).values()
                  if isinstance(one, type) and one.__module__ == m})
    unittest_names = guard.names_of(UNITTEST)
    arm = guard.watch(refuse)
    for name in ("__main__", "guard"):
        hidden.append(sys.modules.pop(name))
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.dont_write_bytecode = True
    g = GuestJob()
    gc.collect()
    gc.freeze()
    got = lib.guest_next(ctypes.byref(g))
    if got != 1:
        sys.exit(0 if got == 0 else 4)
    mark = run(g)
    write(3, mark)
    end(0)


main()
