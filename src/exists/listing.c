/* listing.c - runs an interpreter with our script, which lists its names (listing_read.c). */
#include "exists/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang-format off */
static const char python_script[] =
"import sys,os,warnings\n"
"warnings.simplefilter('ignore')\n"
"out=os.fdopen(os.dup(1),'w',encoding='utf-8',errors='replace')\n"
"os.dup2(os.open(os.devnull,os.O_WRONLY),1)\n"
"import inspect,importlib,pkgutil,types\n"
"lib=os.path.dirname(os.__file__)\n"
"skip=set('antigravity this idlelib turtledemo test tests __main__ lib2to3'.split())\n"
"skip|=set('ensurepip _bundled turtle site msilib'.split())\n"
"std=set(sys.stdlib_module_names)|set(sys.builtin_module_names)\n"
"found=set(std)\n"
"for top in sorted(std):\n"
"  d=os.path.join(lib,top)\n"
"  if top in skip or not os.path.isdir(d): continue\n"
"  for p,ds,fs in os.walk(d):\n"
"    ds[:]=[x for x in ds if x not in skip and x.isidentifier()]\n"
"    m=os.path.relpath(p,lib).replace(os.sep,'.')\n"
"    found.add(m)\n"
"    found.update(m+'.'+f[:-3] for f in fs if f.endswith('.py') and f[:-3].isidentifier())\n"
"w=out.write\n"
"w('P\\t'+lib+'\\n')\n"
"done={}\n"
"todo=[]\n"
"def cid(c):\n"
"  k=done.get(id(c))\n"
"  if k is None:\n"
"    k='c%s:%s'%(getattr(c,'__module__',''),getattr(c,'__qualname__',c.__name__))\n"
"    if any(x in k for x in '\\t\\n'): return None\n"
"    done[id(c)]=k\n"
"    todo.append((c,k))\n"
"  return k\n"
"def sig(f):\n"
"  try: s=inspect.signature(f)\n"
"  except BaseException: return '?'\n"
"  r=[]\n"
"  for p in s.parameters.values():\n"
"    if p.kind==p.VAR_KEYWORD: return '?'\n"
"    if p.kind in (p.POSITIONAL_OR_KEYWORD,p.KEYWORD_ONLY): r.append(p.name)\n"
"  return ','.join(r) or '-'\n"
"F=(types.FunctionType,types.BuiltinFunctionType)\n"
"def say(n,v):\n"
"  if not n.isidentifier(): return\n"
"  if isinstance(v,types.ModuleType) and v.__name__ in found:\n"
"    w('s\\t%s\\tp%s\\n'%(n,v.__name__)); return\n"
"  if isinstance(v,type) and type(v).__module__ in ('builtins','abc','enum'):\n"
"    k=cid(v)\n"
"    if k: w('s\\t%s\\t%s\\n'%(n,k)); return\n"
"  if isinstance(v,F): w('f\\t%s\\t%s\\n'%(n,sig(v))); return\n"
"  w('v\\t%s\\n'%n)\n"
"for m in sorted(found):\n"
"  w('M\\tp%s\\n'%m)\n"
"  if m.split('.')[0] in skip: w('o\\n'); continue\n"
"  try: mod=importlib.import_module(m)\n"
"  except BaseException: w('o\\n'); continue\n"
"  for n in sorted(set(dir(mod))|set(vars(mod))|set(getattr(mod,'__all__',()))):\n"
"    try: v=getattr(mod,n)\n"
"    except BaseException: v=None\n"
"    say(n,v)\n"
"while todo:\n"
"  c,k=todo.pop()\n"
"  w('C\\t%s\\n'%k)\n"
"  try: ns=set(dir(c))|set(getattr(c,'__members__',()) or ())|{'mro','__name__'}\n"
"  except BaseException: w('o\\n'); continue\n"
"  for b in c.__mro__: ns|=set(vars(b))\n"
"  if type(c) is not type: ns|=set(dir(type(c)))\n"
"  own=sig(c) if c.__init__ is not object.__init__ or c.__new__ is not object.__new__ else '?'\n"
"  w('f\\t()\\t%s\\n'%own)\n"
"  for n in sorted(ns):\n"
"    if not n.isidentifier() or (n[:2]=='__' and n!='__init__'): continue\n"
"    try: v=inspect.getattr_static(c,n)\n"
"    except BaseException: v=None\n"
"    if isinstance(v,(staticmethod,classmethod)): v=v.__func__\n"
"    if isinstance(v,type): w('v\\t%s\\n'%n); continue\n"
"    say(n,v)\n"
"w('E\\n')\n"
"out.flush()\n"
"os._exit(0)\n";

static const char node_script[] =
"const out=[];const {builtinModules:l}=require('module');\n"
"const plain=n=>/^[A-Za-z_$][\\w$]*$/.test(n);\n"
"const seen=new Map(),todo=[];\n"
"const flat=new Set(['process','module','repl','v8','inspector','sys','wasi','domain']);\n"
"function names(v){const s=new Set();for(let o=v;o&&o!==Object.prototype&&o!==Function.prototype;"
"o=Object.getPrototypeOf(o))for(const n of Object.getOwnPropertyNames(o))if(plain(n))s.add(n);"
"return [...s].sort();}\n"
"function get(o,n){try{const d=Object.getOwnPropertyDescriptor(o,n);"
"if(d&&'value' in d)return d.value;"
"return o[n];}catch{return undefined;}}\n"
"function say(o,n,m,deep){const v=get(o,n);let k;\n"
" if(deep&&n!=='constants'&&!flat.has(m)&&v&&v!==o){const t=typeof v;\n"
"  const c=t==='function'&&/^[A-Z]/.test(n)||t==='object'&&Object.keys(v).length>1&&"
"[Object.prototype,null].includes(Object.getPrototypeOf(v));\n"
"  if(c){k=seen.get(v);if(!k){k='c'+m+'.'+n;seen.set(v,k);todo.push([v,k,m]);}}}\n"
" out.push(k?'s\\t'+n+'\\t'+k:'v\\t'+n);}\n"
"const all=new Set(l.filter(m=>m[0]!=='_'));\n"
"for(const m of ['node:test','node:test/reporters','node:sqlite','node:sea'])all.add(m);\n"
"const mods=[];\n"
"for(const m of all){let v;const short=m.replace(/^node:/,'');\n"
" try{v=require(m);}catch{if(m===short)mods.push([m,null]);continue;}\n"
" mods.push([m,v]);\n"
" if((typeof v==='object'||typeof v==='function')&&!seen.has(v))seen.set(v,'j'+m);}\n"
"for(const [m,v] of mods){\n"
" for(const p of m.startsWith('node:')?[m]:[m,'node:'+m]){out.push('M\\tj'+p);\n"
"  if(!v){out.push('o');continue;}\n"
"  for(const n of names(v))say(v,n,m,true);\n"
"  out.push('s\\tdefault\\tj'+p);}}\n"
"while(todo.length){const [v,k,m]=todo.pop();out.push('C\\t'+k);\n"
" for(const n of names(v))out.push('v\\t'+n);}\n"
"out.push('E');process.stdout.write(out.join('\\n')+'\\n');\n";
/* clang-format on */

/* ---- running ---- */

static int start(const char *path, const char *const *argv, int *from, pid_t *pid)
{
    int ends[2];
    const char *const env[] = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=/", NULL};
    posix_spawn_file_actions_t acts;
    if (pipe2(ends, O_CLOEXEC)) return errno;
    int why = posix_spawn_file_actions_init(&acts);
    if (!why) {
        why = posix_spawn_file_actions_addopen(&acts, 0, "/dev/null", O_RDONLY, 0);
        if (!why) why = posix_spawn_file_actions_adddup2(&acts, ends[1], 1);
        if (!why) why = posix_spawn_file_actions_addopen(&acts, 2, "/dev/null", O_WRONLY, 0);
        if (!why) why = posix_spawn(pid, path, &acts, NULL, (char *const *)(uintptr_t)argv,
                               (char *const *)(uintptr_t)env);
        posix_spawn_file_actions_destroy(&acts);
    }
    close(ends[1]);
    if (why) close(ends[0]);
    else *from = ends[0];
    return why;
}

/* All its output, within the time limit. */
static int gather(int from, bytes *out)
{
    char part[65536];
    uint64_t end = clock_ns() + LISTING_SECONDS * UINT64_C(1000000000);
    for (;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        uint64_t now = clock_ns();
        if (now >= end) return CERIUM_ERR_IO;
        int ready = poll(&p, 1, (int)((end - now) / 1000000) + 1);
        if (ready < 0 && errno != EINTR) return CERIUM_ERR_IO;
        if (ready <= 0) continue;
        ssize_t n = read(from, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return CERIUM_ERR_IO;
        if (n == 0) return CERIUM_OK;
        RETURN_IF(bytes_append(out, part, (size_t)n));
    }
}

static int run(name_table *b, const char *path, const char *const *argv, char *library,
               cerium_error *err)
{
    bytes out = {.max = LISTING_BYTES_MAX};
    int from = -1, code = 0;
    pid_t pid;
    int why = start(path, argv, &from, &pid);
    if (why) return error_set(err, CERIUM_ERR_IO, "%s: %s", path, strerror(why));
    int status = gather(from, &out);
    if (status) kill(pid, SIGKILL);
    close(from);
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) continue;
    bool done = !status && listing_read(b, (view){out.ptr, out.len}, library);
    bytes_free(&out);
    if (b->status) status = b->status;
    if (status == CERIUM_ERR_MEMORY) return error_set(err, status, "%s: no memory", path);
    if (done) return CERIUM_OK;
    return error_set(err, CERIUM_ERR_IO, "%s: did not say what it has", path);
}

int listing_python(name_table *b, const char *path, char *library, cerium_error *err)
{
    const char *argv[] = {path, "-I", "-S", "-B", "-X", "utf8", "-c", python_script, NULL};
    library[0] = 0;
    return run(b, path, argv, library, err);
}

int listing_node(name_table *b, const char *path, cerium_error *err)
{
    const char *argv[] = {path, "--no-warnings", "-e", node_script, NULL};
    return run(b, path, argv, NULL, err);
}

/* ---- the choice of the interpreter ---- */

static bool may_run(const char *path, const char *root, char *out)
{
    struct stat at;
    char real[4096], base[4096];
    if (!realpath(path, real) || stat(real, &at) || !S_ISREG(at.st_mode)) return false;
    if (access(real, X_OK) || at.st_mode & (S_IWGRP | S_IWOTH)) return false;
    if (at.st_uid != 0 && at.st_uid != geteuid()) return false;
    if (root && realpath(root, base)) {
        size_t n = strlen(base);
        bool below = !strncmp(real, base, n) && (real[n] == '/' || n == 1);
        if (below) return false;
    }
    return snprintf(out, 4096, "%s", real) < 4096;
}

bool listing_find(const char *folder, const char *const *names_of, const char *root, char *out)
{
    const char *const folders[] = {folder, "/usr/local/bin", "/usr/bin", "/bin", "/opt/bin"};
    char path[4096];
    for (size_t i = 0; i < ARRAY_LEN(folders); i++)
        for (size_t k = 0; folders[i] && names_of[k]; k++)
            if (snprintf(path, sizeof path, "%s/%s", folders[i], names_of[k]) < (int)sizeof path &&
                may_run(path, root, out))
                return true;
    return false;
}
