/* test_exists.c - names of an environment: what is read from sources, that the index stores it, and
 * findings in code that uses it; each allocation fails in turn. */
#include <unistd.h>

#include "exists/code_file.h"
#include "exists/exists_names.h"
#include "exists/go.h"
#include "exists/java.h"
#include "exists/known_packages.h"
#include "exists/listing.h"

#include "names_fixture.h"

/* ---- an environment in texts ---- */

static const struct {
    const char *path, *text; /* p: Python; P: a package; j: a script; t: declarations; g: Go */
} modules[] = {
    {"pos", "def getcwd(): pass\ndef walk(top, topdown=True): pass\n"},
    {"Ppkg", "from ._impl import *\nfrom . import sub\nimport os as _os\n__version__ = '1'\n"},
    {"ppkg._impl", "__all__ = ['call', 'Base']\ndef call(a, *, key=1): pass\ndef rest(**kw): pass\n"
                   "class Base:\n    one = 1\n    def __init__(self, size): self.made = size\n"},
    {"ppkg.sub", "from pkg import Base\nclass Child(Base):\n    two = 2\nimport open_ as o\n"},
    {"ppkg.all", "from pkg.own import *\n"},
    {"Ppkg.own", "from pkg.own.sub import one\nfrom .words import *\n"},
    {"ppkg.own.sub", "one = 1\n"},
    {"ppkg.own.words", "__all__ = ['default']\ndef default(): pass\n"},
    {"plazy", "_names = {'a': 1, 'b': 2}\ndef __getattr__(name):\n    if name in _names:\n"
              "        return load(name)\n    if name == 'c':\n        return 3\n"
              "    raise AttributeError(name)\n"},
    {"popen", "def __getattr__(name):\n    return load(name)\n"},
    {"pmade", "globals()['x'] = 1\n"},
    {"jcjs", "exports.a = 1\nmodule.exports.b = function () {}\n"},
    {"jobject", "module.exports = { one, two: 2, get three() { return 3 } }\n"},
    {"jfunction", "function make() {}\nmake.sub = 1\nmodule.exports = make\n"},
    {"jdynamic", "for (const k of keys) exports[k] = all[k]\n"},
    {"jesm", "export const a = 1, b = 2\nexport function f() {}\nexport { a as c }\n"
             "export default class D { }\nexport * from 'cjs'\nexport function _own() {}\n"},
    {"jstars", "export * from 'esm'\n"},
    {"ttyped", "export declare namespace ns { const x: number; function y(): void }\n"
               "export interface I { m(): void }\ndeclare const i: I;\nexport default i;\n"},
    {"jfs", "exports.readFile = 1\n"},
    {"gfmt", "// Package fmt prints.\npackage fmt\n\nfunc Println(a ...any) {}\nfunc hidden() {}\n"
             "func (p *pp) Method() {}\ntype (\n\tStringer interface {\n\t\tString() string\n"
             "\t}\n)\n"},
    {"gfmt", "package fmt_test\n\nfunc Beside() {}\n"},
    {"gnet/http", "package http\n\nconst (\n\tMethodGet = \"GET\"\n\tMethodPut, X = `\n"
                  "const Within = 1\n`, 2\n)\nvar DefaultClient, Other = f(), 1\n"
                  "type ResponseWriter interface{}\nfunc Get() { var Local int }\n"},
    {"ghash", "package hash\n\ntype Hash interface{ Sum() }\n"},
    {"gmath/rand/v2", "package rand\n\nfunc IntN(n int) int { return n }\n"},
    {"gexample.com/go-odd", "package odd\n\nfunc F() {}\n"},
    {"gx.org/lib/a", "package a\n\nfunc F() {}\n"},
};

/* Facts from folders, manifests and a JDK. */
static const char *const marks[] = {"g!", "gm", "mgexample.com/app", "dgx.org/lib", "wgx.org/lib",
                                    "dgy.org/lib", "c!", "cstdio.h", "csys/socket.h", "cvector",
                                    "v!"};

static bool find(void *user, view specifier, char *out)
{
    (void)user;
    return snprintf(out, NAMES_WORD_MAX, "j%.*s", (int)specifier.len, specifier.ptr) > 1;
}

static int read_all(names_index **out)
{
    name_table b;
    cerium_error err;
    RETURN_IF(names_open(&b));
    for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
        char path[64];
        char kind = modules[i].path[0];
        bool python = kind == 'p' || kind == 'P';
        snprintf(path, sizeof path, "%c%s", python ? 'p' : kind == 'g' ? 'g' : 'j',
                 modules[i].path + 1);
        view label = view_of(path + 1), text = view_of(modules[i].text);
        uint32_t flags = kind == 'P' ? SCOPE_PACKAGE : kind == 't' ? SCOPE_TYPES : 0;
        uint32_t module = names_module(&b, view_of(path), flags, label);
        if (module == NAMES_NONE) break;
        b.pass = 0;
        if (python) python_read(&b, module, label, kind == 'P', text);
        else if (kind == 'g') go_read(&b, module, label, text);
        else script_read(&b, module, text, kind == 't', find, NULL);
    }
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        names_add(&b, 0, view_of(marks[i]), NAME_VALUE, 0);
    uint32_t util = names_module(&b, VIEW("vjava.util"), SCOPE_PACKAGE, VIEW("java.util"));
    names_add(&b, util, VIEW("List"), NAME_VALUE, 0);
    names_add(&b, util, VIEW("Map$Entry"), NAME_VALUE, 0);
    (void)names_module(&b, VIEW("p!"), SCOPE_OPEN, VIEW("p!"));
    (void)names_module(&b, VIEW("j!"), SCOPE_OPEN, VIEW("j!"));
    names_resolve(&b);
    int status = index_seal(out, &b, 7, &err);
    names_close(&b);
    return status;
}

/* ---- code that uses it ---- */

typedef struct {
    char text[512];
} got;

static int note(void *user, const exists_finding *f)
{
    got *t = user;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%s%u:%s", n ? " " : "", f->line, f->name);
    return CERIUM_OK;
}

static const struct {
    guard_language language;
    const char *code, *want; /* LINE:NAME, with blanks between */
} cases[] = {
    {GUARD_PYTHON, "import os, nothing\n", "1:nothing"},
    {GUARD_PYTHON, "import pkg.sub, pkg.no\n", "1:pkg.no"},
    {GUARD_PYTHON, "from pkg import call, rest, Base\n", "1:pkg.rest"}, /* not in __all__ */
    {GUARD_PYTHON, "import pkg\npkg.call(1, key=2)\npkg.call(1, kye=2)\n", "3:call(kye)"},
    {GUARD_PYTHON, "from pkg.sub import Child as C\nC.one, C.two, C.three\nC(size=1)\nC(sise=1)\n",
     "2:Child.three 4:Child(sise)"},
    {GUARD_PYTHON, "import lazy\nlazy.a, lazy.b, lazy.c\nlazy.d\n", "3:lazy.d"},
    {GUARD_PYTHON, "import open, made\nopen.anything\nmade.anything\n", ""},
    {GUARD_PYTHON, "try:\n    import nothing\nexcept ImportError:\n    nothing = None\n", ""},
    {GUARD_PYTHON, "try:\n    import nothing\nfinally:\n    pass\n", "2:nothing"},
    {GUARD_PYTHON, "import sys\nif sys.platform == 'win32':\n    import nothing\n", "1:sys"},
    {GUARD_PYTHON, "import sys, os\nNEW = sys.version_info >= (3, 8)\nif NEW:\n    os.x\nelse:\n"
                   "    os.y\nos.z\n", "1:sys 7:os.z"},
    {GUARD_PYTHON, "import os\nwith assert_raises_regex(TypeError, 'x'):\n    os.walk(x=1)\n", ""},
    {GUARD_PYTHON, "from import x\nimport os\nfrom import getcwd, y as z\n", ""},
    {GUARD_PYTHON, "import os\nassert sys.platform == 'x'\nos.x\n", ""},
    {GUARD_PYTHON, "import os\nassert os.x\nos.y\n", "2:os.x 3:os.y"},
    {GUARD_PYTHON, "from os import x  # type: ignore[attr-defined]\n", ""},
    {GUARD_PYTHON, "import os\nraises(TypeError, lambda: os.walk(x=1))\nos.walk(x=1)\n",
     "3:walk(x)"},
    {GUARD_PYTHON, "from pkg.all import sub, default, other\nsub.Child\nsub.x\n",
     "1:pkg.all.other"},
    {GUARD_PYTHON, "import os\nos.walk(lambda a, b=1: b, c=2)\n", "2:walk(c)"},
    {GUARD_PYTHON, "import os\nif hasattr(os, 'fork'):\n    os.fork()\n", ""},
    {GUARD_PYTHON, "import os\ndef f(os):\n    return os.x\nos.y\n", "4:os.y"},
    {GUARD_PYTHON, "import os\nos.extra = 1\nos.extra()\n", ""},
    {GUARD_PYTHON, "import os\n'''os.x'''  # os.y\n\"os.z\"\n", ""},
    {GUARD_PYTHON, "import os\nx = [\n    os.getcwd(),\n    os.nowhere(),\n]\n", "4:os.nowhere"},
    {GUARD_JAVASCRIPT, "import { a, b, c } from 'cjs'\n", "1:cjs.c"},
    {GUARD_JAVASCRIPT, "const { one, three, four } = require('object')\n", "1:object.four"},
    {GUARD_JAVASCRIPT, "const make = require('function')\nmake.sub()\nmake.other()\nmake.call()\n",
     "3:function.other"},
    {GUARD_JAVASCRIPT, "import * as d from 'dynamic'\nd.anything()\n", ""},
    {GUARD_JAVASCRIPT, "import D, {\n  a,\n  c,\n  f,\n  b,\n  g\n} from 'esm'\n", "6:esm.g"},
    {GUARD_JAVASCRIPT, "try { require('nothing') } catch {}\nrequire('nothing')\n", "2:nothing"},
    {GUARD_JAVASCRIPT, "import fs from 'fs'\nimport './x.css'\nimport v from 'virtual:x'\n", ""},
    {GUARD_JAVASCRIPT, "const fs = require('fs')\nif (fs.rm) fs.rm('x')\nfs.cp('y')\n", "3:fs.cp"},
    {GUARD_JAVASCRIPT, "const fs = require('fs')\nrun((fs) => { fs.x() })\nfs.y()\n", "3:fs.y"},
    {GUARD_JAVASCRIPT, "import * as s from 'stars'\ns.a, s._own\ns._other\n", "3:stars._other"},
    {GUARD_JAVASCRIPT, "const fs = require('fs')\nconst can = 'cp' in fs\nif (x) fs.cp('y')\n"
                       "if (can) { fs.rm('y') }\nfs.rm('y')\n", "5:fs.rm"},
    {GUARD_JAVASCRIPT, "const fs = require('fs')\nconst can = isFunction(fs.cp)\nfs.cp('x')\n"
                       "if (can) { fs.rm('y') }\nfs.rm('y')\n", "5:fs.rm"},
    {GUARD_TYPESCRIPT, "import i, { ns, type I } from 'typed'\nns.x\nns.z\ni.m()\ni.n()\n",
     "3:ns.z 5:I.n"},
    {GUARD_GO, "import \"fmt\"\nfunc main() { fmt.Println(); fmt.Printline(); fmt.hidden() }\n",
     "2:fmt.Printline 2:fmt.hidden"},
    {GUARD_GO, "import (\n\t\"fmt\"\n\th \"net/http\"\n\t\"net/htp\"\n)\n"
               "var _ = h.MethodPut\nvar _ = h.MethodPost\nvar _ = fmt.Beside\n",
     "4:net/htp 7:net/http.MethodPost 8:fmt.Beside"},
    {GUARD_GO, "import \"net/http\"\nvar x = `\nhttp.A\n` // http.B\n/* http.C\nhttp.D */\n"
               "var y = http.Within\nvar z = http.Local\n", "7:net/http.Within 8:net/http.Local"},
    {GUARD_GO, "import \"hash\"\nfunc f(hash hash.Hash, g func(interface{})) {\n\thash.Sum()\n}\n"
               "func g() {\n\thash.Sum()\n\tfor _, hash := range x { hash.X() }\n\thash.Y()\n}\n",
     "6:hash.Sum"}, /* after := its type is unknown until the block ends */
    {GUARD_GO, "import \"hash\"\nfunc f(\n\thash hash.Hash,\n) {\n\thash.Sum()\n}\n"
               "func g() { hash.Sum() }\n", "7:hash.Sum"},
    {GUARD_GO, "import \"hash\"\nfunc f() {\n\tvar (\n\t\ta, hash = g()\n\t\tb int\n\t)\n"
               "\thash.X()\n}\nfunc h() { hash.Y() }\n", "9:hash.Y"},
    {GUARD_GO, "import \"math/rand/v2\"\nimport . \"hash\"\nimport odd \"example.com/go-odd\"\n"
               "func f() { rand.Intn(3); hash.X(); odd.X() }\n", "4:math/rand/v2.Intn"},
    {GUARD_GO, "//go:build zos\npackage p\nimport \"fmt\"\nfunc f() { fmt.Nothing() }\n", ""},
    {GUARD_GO, "import (\n\"C\"\n\"example.com/app/new\"\n\"x.org/lib/a\"\n\"x.org/lib/b\"\n"
               "\"y.org/lib/b\"\n\"z.org/lib\"\n\"nothing\"\n\"./near\"\n)\n",
     "5:x.org/lib/b 7:z.org/lib 8:nothing"},
    {GUARD_C, "#include <stdio.h>\n#include <sys/sokcet.h>\n#include \"later.h\"\n",
     "2:sys/sokcet.h"},
    {GUARD_CPP, "#ifndef A_H\n#define A_H\n# include <vector>\n#include <vectr> // x\n"
                "#if X\n#include <nothing.h>\n#endif\n#include <windows.h>\n#endif\n",
     "4:vectr"},
    {GUARD_C, "/*\n#include <a.h>\n*/\nchar *s = \"\\\n#include <b.h>\";\n#include NAME\n"
              "#include <c.h\n", ""},
    {GUARD_JAVA, "package p;\nimport java.util.List;\nimport java.util.Lisst;\n"
                 "import java.util.Map.Entry;\nimport java.utils.*;\nimport java.util.*;\n"
                 "import static java.util.List.of;\nimport org.junit.Test;\n",
     "3:java.util.Lisst 5:java.utils"},
};

static void test_slips(void)
{
    static const char *const slips[] = {"reqeusts", "matplotib", "tensorrflow", "sqlalchamy"};
    static const char *const names_[] = {"requests", "request", "sparse", "parser", "tools", "tool",
                                         "models", "numpi", "panda", "pandass"};
    for (size_t i = 0; i < ARRAY_LEN(slips); i++)
        TEST_CHECK_THAT(known_is_slip('p', view_of(slips[i])), "%s", slips[i]);
    for (size_t i = 0; i < ARRAY_LEN(names_); i++)
        TEST_CHECK_THAT(!known_is_slip('p', view_of(names_[i])), "%s", names_[i]);
}

/* ---- go.mod, and a JDK's classes ---- */

static void note_line(void *user, view directive, view module, view version)
{
    got *t = user;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "%.*s %.*s %.*s;", (int)directive.len, directive.ptr,
             (int)module.len, module.ptr, (int)version.len, version.len ? version.ptr : "");
}

static void test_go_mod(void)
{
    got t = {""};
    go_mod_each(VIEW("module \"a.org/b\" // x\n\ngo 1.22\nrequire c.org/d v1.2.3\n"
                     "require (\n\te.org/f v2.0.0 // indirect\n\t// g.org/h v1.0.0\n)\n"
                     "replace c.org/d => ../d\nrequire (\n"), note_line, &t);
    TEST_CHECK_THAT(!strcmp(t.text, "module a.org/b ;go 1.22 ;require c.org/d v1.2.3;"
                                    "require e.org/f v2.0.0;replace c.org/d =>;"), "%s", t.text);
    TEST_CHECK(view_equal(go_package_of(VIEW("math/rand/v2")), VIEW("rand")));
    TEST_CHECK(view_equal(go_package_of(VIEW("v2")), VIEW("v2")));
    TEST_CHECK(view_equal(go_package_of(VIEW("a/vx")), VIEW("vx")));
}

/* A jimage with one class: each truncation is refused or read, never past its end. */
static void test_java_image(void)
{
    static const char strings[] = "\0java/util\0Map$Entry\0class";
    static const unsigned char place[] = {0, 2 << 3, 1, 3 << 3, 11, 4 << 3, 21, 0};
    const uint32_t head[] = {0xcafedada, 1 << 16, 0, 1, 1, sizeof place, sizeof strings}, one = 1;
    char file[sizeof head + 8 + sizeof place + sizeof strings];
    size_t n = 0;
    memcpy(file, head, sizeof head), n += sizeof head + 4;
    memset(file + sizeof head, 0, 4);
    memcpy(file + n, &one, 4), n += 4;
    memcpy(file + n, place, sizeof place), n += sizeof place;
    memcpy(file + n, strings, sizeof strings), n += sizeof strings;
    TEST_CHECK(n == sizeof file);
    for (size_t len = 0; len <= n; len++) {
        name_table b;
        char *exact = memory_alloc(len + 1);
        TEST_CHECK(exact && names_open(&b) == 0);
        memcpy(exact, file, len);
        TEST_CHECK(java_image_read(&b, (view){exact, len}) == (len == n));
        uint32_t at = names_find(&b, 0, VIEW("vjava.util"));
        TEST_CHECK((at != NAMES_NONE) == (len == n));
        if (at != NAMES_NONE)
            TEST_CHECK(names_find(&b, names_entry_at(&b, at)->target, VIEW("Map$Entry")) !=
                       NAMES_NONE);
        names_close(&b);
        memory_free(exact);
    }
}

static void check_cases(const names_index *x)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        got t = {""};
        TEST_CHECK(exists_text(x, cases[i].language, view_of(cases[i].code), note, &t) == 0);
        TEST_CHECK_THAT(!strcmp(t.text, cases[i].want), "%s: %s, not %s", cases[i].code, t.text,
                        cases[i].want);
    }
}

static void test_code(void)
{
    names_index *x = NULL;
    TEST_CHECK(read_all(&x) == 0);
    check_cases(x);
    index_close(&x);
}

/* The written index is the one that is mapped; for another environment it is refused, and
 * so is each damaged one. */
static void test_file(void)
{
    names_index *x = NULL, *y = NULL;
    char path[] = "/tmp/cerium-names-XXXXXX";
    cerium_error err;
    int fd = mkstemp(path);
    TEST_CHECK(fd >= 0 && read_all(&x) == 0 && index_write(x, path, &err) == 0);
    TEST_CHECK(index_map(&y, path, 7, &err) == 0);
    check_cases(y);
    index_close(&y);
    TEST_CHECK(index_map(&y, path, 8, &err) == CERIUM_ERR_FORMAT && !y);
    close(fd);
    FILE *file = fopen(path, "r+b");
    TEST_CHECK(!fseek(file, 0, SEEK_END));
    for (long at = 12, end = ftell(file); at < end; at += 97) {
        char was = 0;
        TEST_CHECK(!fseek(file, at, SEEK_SET) && fread(&was, 1, 1, file) == 1);
        TEST_CHECK(!fseek(file, at, SEEK_SET) && fputc(was ^ 0x10, file) != EOF && !fflush(file));
        TEST_CHECK(index_map(&y, path, 0, &err) == CERIUM_ERR_FORMAT && !y);
        TEST_CHECK(!fseek(file, at, SEEK_SET) && fputc(was, file) != EOF && !fflush(file));
    }
    TEST_CHECK(!ftruncate(fileno(file), 1000) && index_map(&y, path, 0, &err) != 0 && !y);
    fclose(file);
    unlink(path);
    index_close(&x);
}

static void test_listing(void)
{
    name_table b;
    char library[4096];
    const char *text = "P\t/usr/lib/py\nM\tpos\nv\tgetcwd\nf\topen\ta,b\nf\trun\t?\no\nE\n";
    TEST_CHECK(names_open(&b) == 0);
    TEST_CHECK(!listing_read(&b, VIEW("M\tpos\nv\tgetcwd\n"), library)); /* truncated */
    TEST_CHECK(listing_read(&b, view_of(text), library) && !strcmp(library, "/usr/lib/py"));
    uint32_t os = names_module(&b, VIEW("pos"), 0, VIEW("os"));
    TEST_CHECK(names_find(&b, os, VIEW("getcwd")) != NAMES_NONE);
    TEST_CHECK(names_scope_at(&b, os)->flags & SCOPE_OPEN);
    names_close(&b);
}

static void test_words(void)
{
    char what[EXISTS_SAID_BYTES], instead[EXISTS_SAID_BYTES];
    names_index *x = fixture_names();
    exists_finding f = {.kind = EXISTS_ATTRIBUTE, .letter = 'p', .name = "numpy.aray", .word = 6};
    TEST_CHECK(index_module(x, 'p', VIEW("numpy"), &f.scope) == INDEX_THERE);
    exists_describe(x, &f, what, instead);
    TEST_CHECK_THAT(!strcmp(what, "numpy has no aray"), "%s", what);
    TEST_CHECK_THAT(strstr(instead, "did you mean array") != NULL, "%s", instead);
    f = (exists_finding){.letter = 'p', .scope = NAMES_NONE, .name = "pandas"};
    exists_describe(x, &f, what, instead);
    TEST_CHECK_THAT(strstr(what, "not installed") != NULL, "%s", what);
    f = (exists_finding){.letter = 'p', .scope = NAMES_NONE, .name = "nunpy"};
    exists_describe(x, &f, what, instead);
    TEST_CHECK_THAT(strstr(instead, "numpy") != NULL, "%s", instead);
    index_close(&x);
}

/* Each word is found by its letters, and no other name is taken for one. */
static void test_marks(void)
{
    const marked_words *lists[] = {marks_of_python, marks_of_scripts};
    for (size_t l = 0; l < ARRAY_LEN(lists); l++)
        for (int c = 0; c < 32; c++)
            for (const marked_word *m = lists[l][c].words; m && m->word; m++) {
                char longer[64];
                int n = snprintf(longer, sizeof longer, "%sx", m->word);
                uint8_t same = marks_of_name(lists[l], view_of(m->word));
                uint8_t other = marks_of_name(lists[l], (view){longer, (size_t)n});
                TEST_CHECK_THAT(same == m->marks, "%s", m->word);
                TEST_CHECK_THAT(other == (m->begins ? m->marks : 0), "%s", longer);
            }
    TEST_CHECK(!marks_of_name(NULL, VIEW("if")));
    TEST_CHECK(!marks_of_name(marks_of_python, VIEW("i")));
    TEST_CHECK(marks_of_sign('=') == MARK_BINDS && !marks_of_sign('('));
}

static void test_without_memory(void)
{
    bool failed = true;
    long n = 0, alive = memory_live();
    for (; failed && n < 100000; n += n < 60 ? 1 : 37) {
        names_index *x = NULL;
        memory_fail_at(n);
        int status = read_all(&x);
        failed = status != 0;
        memory_fail_at(-1);
        TEST_CHECK(status == 0 || status == CERIUM_ERR_MEMORY);
        TEST_CHECK(failed == !x);
        index_close(&x);
        TEST_CHECK(memory_live() == alive);
    }
    TEST_CHECK(n > 20 && !failed);
}

int main(void)
{
    TEST_RUN(test_code);
    TEST_RUN(test_file);
    TEST_RUN(test_listing);
    TEST_RUN(test_words);
    TEST_RUN(test_slips);
    TEST_RUN(test_go_mod);
    TEST_RUN(test_java_image);
    TEST_RUN(test_marks);
    TEST_RUN(test_without_memory);
    return unit_report("exists");
}
