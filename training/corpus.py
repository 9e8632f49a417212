#!/usr/bin/env python3
"""Build the training text from named, permissively licensed packages.

The packages come through the ordinary clients (apt-get source, pip download,
npm pack), by the names in packages.toml. Archives are read without unpacking.
A file stays only if its licence is permissive, a person is likely to have
written it, and most of its lines are new; held-out packages and the texts
named by --exclude are indexed first, so that nothing trained on copies them.

    python corpus.py fetch     download what is missing
    python corpus.py build     write train.jsonl, held_out.jsonl, CORPUS.md
"""

import argparse
import ast
import collections
import fnmatch
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import re
import string
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent

LANGUAGES = {".py": "python", ".c": "c", ".h": "c", ".js": "javascript",
             ".jsx": "javascript", ".mjs": "javascript", ".cjs": "javascript",
             ".ts": "typescript", ".tsx": "typescript", ".go": "go",
             ".rs": "rust", ".java": "java", ".sh": "shell", ".bash": "shell"}
NAMES = {"python": "Python", "c": "C", "javascript": "JavaScript",
         "typescript": "TypeScript", "go": "Go", "rust": "Rust",
         "java": "Java", "shell": "shell"}

# Directories that hold other projects' code, whose licence or provenance the
# package's own licence file does not speak for.
VENDORED = {"_vendor", "vendor", "vendored", "third_party", "thirdparty",
            "third-party", "3rdparty", "extern", "external", "externals",
            "node_modules", "deps", "contrib", "blib2to3", "packages",
            "subprojects", "dist", "build", "debian"}
# Projects that measure edits and completions elsewhere in this repository.
KEPT_OUT = {"flask", "requests", "numpy", "sqlalchemy", "expressjs", "vuejs",
            "libuv", "lua", "serde", "gson", "click", "httpx", "tornado",
            "sympy", "axios", "zod", "cobra", "redis", "valkey", "curl",
            "ripgrep", "commons-lang", "humaneval", "human_eval", "mbpp"}

ALLOWED = re.compile(
    r"\b(MIT|Expat|X11|BSD|[0-4]-?clause|Apache|ASL|PSF|Python|Boost|"
    r"BSL-1|Zlib|libpng|ISC|public[- ]domain|PD|0BSD|CC0|Unlicense|"
    r"PostgreSQL|TCL|NCSA|OpenSSL|Go$)", re.I)
COPYLEFT = re.compile(
    r"\b(A?L?GPL|GNU (affero |lesser |library )?general public|MPL|Mozilla "
    r"Public|EPL|Eclipse Public|CDDL|CC[- ]BY|EUPL|SSPL|BUSL|OFL|Artistic|"
    r"proprietary|non-?commercial)", re.I)
# Phrases of licence texts, to name a licence that is not declared.
TEXTS = [
    ("Apache-2.0", r"Apache License,?\s+Version 2\.0"),
    ("MIT", r"Permission is hereby granted, free of charge, to any person"),
    ("BSD", r"Redistribution and use in source and binary forms"),
    ("ISC", r"Permission to use, copy, modify,? (and/or|and) distribute this"),
    ("PSF-2.0", r"PYTHON SOFTWARE FOUNDATION LICENSE"),
    ("BSL-1.0", r"Boost Software License"),
    ("Zlib", r"altered source versions must be plainly marked"),
    ("public domain", r"(in|into|to) the public domain"),
    ("Apache-2.0", r"http://www\.apache\.org/licenses/LICENSE-2\.0"),
    ("MIT", r"\b(MIT|Expat) licen[cs]e"),
]

GENERATED = re.compile(
    r"(auto-?\s?generated|generated (by|from|automatically)|"
    r"do not (edit|modif)|@generated|machine generated|code generated)", re.I)
LICENCE_TALK = re.compile(
    r"(copyright|licen[cs]e|redistribut|warrant|spdx|all rights reserved)",
    re.I)
TEST_PATH = re.compile(
    r"(^|/)(tests?|testing|test_[^/]*|[^/]*_tests?)(/|\.|$)")
HELD_OUT_TESTS = 0.3  # unlike --tests, so that figures stay comparable
# A fixed part of each kind is searched first: most files have none.
SECRETS = [
    (("PRIVATE KEY-----",), re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END "
        r"[A-Z ]*PRIVATE KEY-----", re.S), "<private key>"),
    (("AKIA", "ASIA"), re.compile(r"\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
     "<access key>"),
    (("gh", "xox", "sk-", "AIza"), re.compile(
        r"\b(gh[pousr]_[A-Za-z0-9]{30,}|xox[baprs]-[A-Za-z0-9-]{10,}"
        r"|sk-[A-Za-z0-9]{20,}|AIza[0-9A-Za-z_-]{35})"), "<token>"),
    (("@",), re.compile(
        r"\b[\w.+-]{1,64}@[\w-]{1,64}(\.[\w-]{1,64}){1,4}\b"),
     "user@example.com"),
]


# --- fetching ---------------------------------------------------------------

def run(command, cwd):
    """Run a package client; a missing package is reported, not fatal."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL)
    if done.returncode:
        print("failed:", " ".join(map(str, command)), file=sys.stderr)


def apt_source_options(folder):
    """Private source lists, so that the machine's own stay unchanged."""
    stanzas = Path("/etc/apt/sources.list.d/debian.sources").read_text()
    # The security suite's sources are not always mirrored with its packages.
    kept = [s for s in re.split(r"\n\s*\n", stanzas) if "-security" not in s]
    sources = folder / "deb-src.sources"
    sources.write_text("\n\n".join(kept).replace("Types: deb\n",
                                                 "Types: deb-src\n"))
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    return ["-qq", "-o", f"Dir::Etc::sourcelist={sources}",
            "-o", "Dir::Etc::sourceparts=-",
            "-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User="]


def fetch(packages, folder):
    """Download every named package that is missing."""
    for name in ("debian", "pypi", "npm"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    debian = folder / "debian"
    missing = [p for p in members(packages, "debian_source")
               if not list(debian.glob(f"{p}_*.dsc"))]
    if missing:
        options = apt_source_options(folder.resolve())
        run(["apt-get", *options, "update"], debian)
        for p in missing:
            run(["apt-get", *options, "source", "--download-only", p], debian)
    for p in members(packages, "debian_binary"):
        if not list(debian.glob(f"{p}_*.deb")):
            run(["apt-get", "-qq", "download", p], debian)
    for p in members(packages, "pypi"):
        if not find_wheel(folder / "pypi", p):
            run([sys.executable, "-m", "pip", "download", "-q", "--no-deps",
                 "--only-binary", ":all:", "--ignore-requires-python", "-d",
                 ".", p], folder / "pypi")
    for p in members(packages, "npm"):
        if not find_npm(folder / "npm", p):
            run(["npm", "pack", "--silent", p], folder / "npm")


def members(packages, group):
    return packages[group]["train"] + packages[group]["held_out"]


def find_wheel(folder, name):
    stem = re.sub(r"[-_.]+", "_", name).lower()
    return next((w for w in sorted(folder.glob("*.whl")) if re.sub(
        r"[-_.]+", "_", w.name.split("-")[0]).lower() == stem), None)


def find_npm(folder, name):
    stem = name.lstrip("@").replace("/", "-")
    return next((t for t in sorted(folder.glob("*.tgz"))
                 if re.fullmatch(re.escape(stem) + r"-\d.*\.tgz", t.name)),
                None)


# --- reading archives -------------------------------------------------------

def tar_members(data, strip=1):
    """(path, bytes) of the regular files of a tar, top folders removed."""
    mode = "r:*" if isinstance(data, (str, Path)) else "r|*"
    source = ({"name": data} if mode == "r:*" else {"fileobj": data})
    with tarfile.open(mode=mode, **source) as tar:
        for member in tar:
            path = "/".join(member.name.lstrip("./").split("/")[strip:])
            if member.isfile() and wanted(path):
                yield path, tar.extractfile(member).read()


def wanted(path):
    """Source text of a known language, or a file that states a licence."""
    return (Path(path).suffix in LANGUAGES or is_licence(path)
            or path.endswith(("package.json", "METADATA")))


def is_licence(path):
    return re.match(r"(licen[cs]e|copying|copyright)", Path(path).name, re.I)


def read_debian_source(folder, name):
    dsc = sorted(folder.glob(f"{name}_*.dsc"))[-1]
    text = dsc.read_text(errors="replace")
    version = re.search(r"^Version: (.*)$", text, re.M).group(1)
    files = {}
    for archive in re.findall(r"^ [0-9a-f]{64} \d+ (\S+)$", text, re.M):
        if not re.search(r"\.tar\.(gz|bz2|xz)$", archive):
            continue
        strip = 0 if ".debian.tar" in archive else 1
        files.update(tar_members(folder / archive, strip))
    return version, files


def read_debian_binary(folder, name):
    deb = sorted(folder.glob(f"{name}_*.deb"))[-1]
    version = deb.name.split("_")[1]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb],
                          stdout=subprocess.PIPE) as dpkg:
        files = dict(tar_members(dpkg.stdout, strip=3))
    return version, files


def read_wheel(folder, name):
    wheel = find_wheel(folder, name)
    if wheel is None:
        return read_installed(name)
    with zipfile.ZipFile(wheel) as archive:
        files = {i.filename: archive.read(i) for i in archive.infolist()
                 if wanted(i.filename)}
    return wheel.name.split("-")[1], files


def read_installed(name):
    """A package that this environment has anyway (torch's wheel is huge)."""
    dist = importlib.metadata.distribution(name)
    files = {str(f): f.locate().read_bytes() for f in dist.files
             if wanted(str(f)) and f.locate().is_file()}
    return dist.version, files


def read_npm(folder, name):
    tgz = find_npm(folder, name)
    return re.search(r"-(\d.*)\.tgz$", tgz.name).group(1), dict(
        tar_members(tgz))


READERS = {"debian_source": read_debian_source, "npm": read_npm,
           "debian_binary": read_debian_binary, "pypi": read_wheel}
FOLDERS = {"debian_source": "debian", "debian_binary": "debian",
           "pypi": "pypi", "npm": "npm"}


# --- licences ---------------------------------------------------------------

def permissive(expression):
    """Whether a licence expression allows use under permissive terms."""
    for choice in re.split(r"\s+or\s+|\|", expression, flags=re.I):
        terms = re.split(r"\s+and\s+|,|&", choice, flags=re.I)
        if all(ALLOWED.search(t) and not COPYLEFT.search(t)
               for t in terms if t.strip()):
            return True
    return False


def named_by_text(text):
    return next((n for n, p in TEXTS if re.search(p, text, re.I)), None)


def machine_readable(text):
    """[(globs, licence)] of a Debian copyright file in the DEP-5 format.

    Globs match slashes too, as fnmatch's do.
    """
    if not re.search(r"^Format:.*copyright-format", text, re.M | re.I):
        return None
    stanzas = []
    for block in re.split(r"\n\s*\n", text):
        globs = re.search(r"^Files:((?:.*\n?)(?:[ \t].*\n?)*)", block, re.M)
        licence = re.search(r"^License:\s*(.*)$", block, re.M)
        if globs and licence:
            stanzas.append((globs.group(1).split(), licence.group(1)))
    return stanzas


def licence_of(group, files):
    """A function from a path to its licence, or None when not permissive."""
    texts = {p: d.decode("utf-8", "replace") for p, d in files.items()
             if is_licence(p) or p.endswith(("METADATA", "package.json"))}
    if group.startswith("debian"):
        stanzas = machine_readable(texts.get("debian/copyright") or next(
            (t for p, t in texts.items() if p.endswith("/copyright")), ""))
        if stanzas:
            return lambda path: licence_by_glob(stanzas, path)
    name = None
    for path, text in texts.items():
        if path.endswith(".dist-info/METADATA"):
            name = declared_by_metadata(text)
        elif path == "package.json":
            name = str(json.loads(text).get("license"))
    if name is None:
        top = sorted((p for p in texts if is_licence(p)),
                     key=lambda p: (p.count("/"), p))
        name = next(filter(None, (named_by_text(texts[p]) for p in top)), None)
    if name is None or not permissive(name):
        return lambda path: None
    return lambda path: name


def licence_by_glob(stanzas, path):
    """The last matching stanza wins, as the format says."""
    found = None
    for globs, licence in stanzas:
        if any(fnmatch.fnmatchcase(path, g) for g in globs):
            found = licence
    return found if found and permissive(found) else None


def declared_by_metadata(text):
    head = text.split("\n\n")[0]
    for pattern in (r"^License-Expression: (.+)$",
                    r"^Classifier: License :: OSI Approved :: (.+)$",
                    r"^License: (.{2,60})$"):
        found = re.findall(pattern, head, re.M)
        if found:
            return " or ".join(name.strip() for name in found)
    return named_by_text(text)


# --- judging a file ---------------------------------------------------------

def fraction(name):
    """A repeatable number in [0, 1) from a name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32


def share(data, letters):
    return 1 - len(data.translate(None, letters.encode())) / len(data)


def why_not(path, text, tests, args):
    """The reason to leave a file out, or None."""
    parts = path.lower().split("/")
    # A repository of several packages has its own code in a first packages/.
    inside = parts[parts[0] == "packages":-1]
    if VENDORED & set(inside) or re.search(r"\.min\.|[-.]bundle\.", path):
        return "vendored"
    if path.endswith(".d.ts"):
        return "declarations"
    if KEPT_OUT & set(re.split(r"[/.]", path.lower())):
        return "kept out"
    low = text.lower()
    if "humaneval" in low or "human_eval" in low or re.search(r"\bmbpp\b",
                                                              low):
        return "kept out"
    if not args.min_bytes <= len(text) <= args.max_bytes:
        return "size"
    if GENERATED.search(text[:2000]):
        return "generated"
    if COPYLEFT.search(text[:3000]):
        return "licence"
    lines = text.split("\n")
    if max(map(len, lines)) > args.max_line or len(text) / len(lines) > 80:
        return "long lines"
    data = text.encode()
    if share(data, string.ascii_letters) < 0.3 or share(
            data, string.digits) > 0.15:
        return "data"
    if len(data) > 1.05 * len(text):
        return "not ascii"
    if TEST_PATH.search(path) and fraction(path) > tests:
        return "surplus test"
    return None


def without_header(text, language):
    """Drop a leading comment that is only about licences.

    Thousands of copies of a dozen licence texts would take a small model's
    memory; CORPUS.md names every package and licence instead.
    """
    if language in ("python", "shell"):
        match = re.match(r"(?:#!.*\n)?(?:[ \t]*#.*\n|[ \t]*\n)+", text)
    else:
        match = re.match(r"\s*(?:/\*(?s:.*?)\*/[ \t]*\n?|"
                         r"(?:[ \t]*//.*\n)+)\s*", text)
    if match and LICENCE_TALK.search(match.group(0)):
        return text[match.end():]
    return text


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def blocks_of(node):
    """A node and all nodes in it that contain statements; expressions have none."""
    yield node
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, name, ()):
            if hasattr(child, "body"):
                yield from blocks_of(child)


def short_docstrings(text, limit):
    """Keep the first paragraph of most docstrings of over `limit` lines.

    A quarter stays whole, so that the form of a long one is still known.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    lines = text.split("\n")
    nodes = [n.body[0] for n in blocks_of(tree) if isinstance(n, DOCUMENTED)
             and ast.get_docstring(n, clean=False) is not None]
    for node in sorted(nodes, key=lambda n: -n.lineno):
        begin, end = node.lineno - 1, node.end_lineno - 1
        quotes = re.match(r"\s*[rRuU]?(\"{3}|'{3})", lines[begin])
        cut = next((i for i in range(begin + 1, end) if not lines[i].strip()),
                   None)
        if (end - begin < limit or cut is None or quotes is None
                or not lines[end].endswith(quotes.group(1))
                or lines[begin].endswith(("\\", "'", '"'))
                or fraction("\n".join(lines[begin:end])) < 0.25):
            continue
        close = quotes.group(1)
        if cut == begin + 1:  # a summary of one line
            lines[begin:end + 1] = [lines[begin].rstrip() + close]
        else:
            lines[cut:end + 1] = [" " * node.col_offset + close]
    return "\n".join(lines)


def short_comments(text, limit):
    """The same for comments between /* and */ that begin a line."""
    def shorter(match):
        lines = match.group(0).split("\n")
        cut = next((i for i in range(2, len(lines) - 1)
                    if not lines[i].strip(" \t*")), None)
        if (len(lines) <= limit or cut is None
                or fraction(match.group(0)) < 0.25):
            return match.group(0)
        last = lines[-1]
        close = last[:len(last) - len(last.lstrip())] + (
            last.lstrip() if not last.strip(" \t*/") else "*/")
        return "\n".join([*lines[:cut], close])
    return re.sub(r"^[ \t]*/\*(?s:.*?)\*/", shorter, text, flags=re.M)


def without_long_prose(text, language, limit):
    """Long documentation costs a small model a lot and teaches it little."""
    if language == "python":
        return short_docstrings(text, limit)
    return short_comments(text, limit)


def cleaned(text, language):
    text = text.replace("\r\n", "\n").replace("\f", "")
    for _ in range(3):  # a licence, then a version tag, then an include guard
        shorter = without_header(text, language)
        if shorter is text:
            break
        text = shorter
    for parts, pattern, mask in SECRETS:
        if any(part in text for part in parts):
            text = pattern.sub(mask, text)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip("\n") + "\n"


def shingles(text):
    """Hashes of every three consecutive lines with content."""
    lines = [" ".join(l.split()) for l in text.split("\n")]
    lines = [l for l in lines if len(l) > 3]
    return {hash(w) for w in zip(lines, lines[1:], lines[2:])}


class Seen:
    """Exact and near duplicates: the share of a file's shingles met before."""

    def __init__(self, limit):
        self.limit = limit
        self.known = set()

    def add(self, text):
        self.known |= shingles(text)

    def is_copy(self, text):
        own = shingles(text)
        if not own:
            return True
        copied = len(own & self.known) > self.limit * len(own)
        if not copied:
            self.known |= own
        return copied


# --- building ---------------------------------------------------------------

def build(packages, args):
    seen = Seen(args.duplicate)
    for path in args.exclude:
        opener = gzip.open if path.endswith(".gz") else open
        for line in opener(path, "rt", encoding="utf-8"):
            for value in json.loads(line).values():
                if isinstance(value, str) and "\n" in value:
                    seen.add(value)
    report, dropped = [], collections.Counter()
    # Held-out packages come first: training text must not copy them.
    for split in ("held_out", "train"):
        whole = args.out / f"{split}.jsonl"
        partial = whole.with_suffix(".partial")  # until every package is in
        with open(partial, "w", encoding="utf-8") as out:
            for group in READERS:
                for name in packages[group][split]:
                    row = add_package(group, name, split, out, packages, seen,
                                      dropped, args)
                    if row:
                        report.append(row)
        os.replace(partial, whole)
    write_report(report, dropped, args)


def add_package(group, name, split, out, packages, seen, dropped, args):
    """Write one package's files to the corpus and return its report row."""
    try:
        version, files = READERS[group](args.downloads / FOLDERS[group], name)
    except (IndexError, AttributeError, FileNotFoundError,
            importlib.metadata.PackageNotFoundError):
        print("not there:", name, file=sys.stderr)
        return None
    licence = licence_of(group, files)
    caps = {**packages["caps"], **packages["caps_of"].get(name, {})}
    taken = collections.Counter()
    licences = collections.Counter()
    for path in sorted(files, key=lambda p: fraction(name + p)):
        language = LANGUAGES.get(Path(path).suffix)
        if language is None:
            continue
        # Once a package has almost filled its share, the rest of its files
        # need not be judged.
        if taken[language] > 0.97 * caps[language]:
            dropped["cap"] += 1
            continue
        terms = licence(path)
        if terms is None:
            dropped["licence"] += 1
            continue
        try:
            text = files[path].decode("utf-8")
        except UnicodeDecodeError:
            dropped["not utf-8"] += 1
            continue
        tests = HELD_OUT_TESTS if split == "held_out" else args.tests
        reason = why_not(path, text, tests, args)
        if reason is None:
            text = cleaned(text, language)
            if split == "train":
                text = without_long_prose(text, language, args.prose)
            if len(text) < args.min_bytes:
                reason = "size"
            elif taken[language] + len(text) > caps[language]:
                reason = "cap"
            elif seen.is_copy(text):
                reason = "duplicate"
        if reason:
            dropped[reason] += 1
            continue
        taken[language] += len(text)
        licences[terms] += len(text)
        out.write(json.dumps({"package": name, "language": language,
                              "path": path, "text": text}) + "\n")
    print(f"{split:9} {name:20} {version:24}", dict(taken), flush=True)
    if not taken:
        return None
    main = ", ".join(n for n, _ in licences.most_common(3))
    return split, group, name, version, main, taken


def write_report(report, dropped, args):
    totals = {s: collections.Counter() for s in ("train", "held_out")}
    for split, _, _, _, _, taken in report:
        totals[split].update(taken)
    out = io.StringIO()
    out.write("# The training text\n\nWritten by `corpus.py build`; every "
              "package, with the licence that its own metadata or licence "
              "file states and the bytes kept after filtering. Leading "
              "licence comments were cut from the text, not from this "
              "record.\n\n| | training | held out |\n|---|---|---|\n")
    for language, name in NAMES.items():
        out.write(f"| {name} | {totals['train'][language]:,} | "
                  f"{totals['held_out'][language]:,} |\n")
    out.write(f"| all | {sum(totals['train'].values()):,} | "
              f"{sum(totals['held_out'].values()):,} |\n\n")
    out.write("Files left out, by reason: " + ", ".join(
        f"{r} {n:,}" for r, n in dropped.most_common()) + ".\n\n")
    out.write("| split | from | package | version | licence | bytes |\n"
              "|---|---|---|---|---|---|\n")
    for split, group, name, version, licence, taken in report:
        size = ", ".join(f"{NAMES[l]} {n:,}" for l, n in taken.items())
        out.write(f"| {split.replace('_', ' ')} | {group.replace('_', ' ')} | "
                  f"{name} | {version} | {licence} | {size} |\n")
    (HERE / "CORPUS.md").write_text(out.getvalue())
    print({s: dict(t) for s, t in totals.items()}, dict(dropped))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=["fetch", "build"])
    parser.add_argument("--packages", type=Path, default=HERE/"packages.toml")
    parser.add_argument("--downloads", type=Path,
                        default=HERE / "work/downloads")
    parser.add_argument("--out", type=Path, default=HERE / "work/corpus")
    parser.add_argument("--exclude", nargs="*", default=[], metavar="JSONL",
                        help="texts that training files must not copy")
    parser.add_argument("--min-bytes", type=int, default=300)
    parser.add_argument("--max-bytes", type=int, default=150_000)
    parser.add_argument("--max-line", type=int, default=300)
    parser.add_argument("--tests", type=float, default=0.15,
                        help="share of test files to keep in training text")
    parser.add_argument("--prose", type=int, default=8, metavar="LINES",
                        help="longer comments and docstrings are cut short")
    parser.add_argument("--duplicate", type=float, default=0.5,
                        help="share of known lines that makes a file a copy")
    args = parser.parse_args()
    packages = tomllib.loads(args.packages.read_text())
    if args.step == "fetch":
        fetch(packages, args.downloads)
    else:
        # Shingles are kept in Python's own hashes: make them repeatable.
        if os.environ.get("PYTHONHASHSEED") != "0":
            os.execve(sys.executable, [sys.executable, *sys.argv],
                      {**os.environ, "PYTHONHASHSEED": "0"})
        args.out.mkdir(parents=True, exist_ok=True)
        build(packages, args)


if __name__ == "__main__":
    main()
