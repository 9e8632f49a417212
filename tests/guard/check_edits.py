#!/usr/bin/env python3
"""check_edits.py CERIUM: what `cerium scan` says of edits, made in every form that agents have, in
nine languages, in three directions: a weak line that is mended, one that is repeated beside a new
line, and one that is put in the place of a safe one.  The first two are none, the last blocks.
Prints what does not hold; status 1 when anything does not."""
import collections
import difflib
import json
import os
import subprocess
import sys
import tempfile

# path, text with a place for a line, the weak line, the safe one, a line that says nothing
LANGUAGES = {
    "python": ("src/db.py",
               "def find(db, name):\n    cur = db.cursor()\n    {}\n    return cur\n",
               "cur.execute(\"SELECT id FROM users WHERE name = '\" + name + \"'\")",
               "cur.execute(\"SELECT id FROM users WHERE name = ?\", (name,))", "    limit = 10\n"),
    "js": ("src/db.js",
           "async function find(db, name) {\n  const n = 1;\n  {}\n  return n;\n}\n",
           "const r = await db.query(\"SELECT id FROM users WHERE name = '\" + name + \"'\");",
           "const r = await db.query('SELECT id FROM users WHERE name = ?', [name]);",
           "  const limit = 10;\n"),
    "ts": ("src/db.ts", "export async function find(db: Pool, name: string) {\n  const n = 1;\n"
           "  {}\n  return n;\n}\n",
           "const r = await db.query(`SELECT id FROM users WHERE name = '${name}'`);",
           "const r = await db.query('SELECT id FROM users WHERE name = ?', [name]);",
           "  const limit = 10;\n"),
    "java": ("src/Db.java", "class Db {\n    ResultSet find(Statement s, String name) throws "
             "SQLException {\n        int n = 1;\n        {}\n        return r;\n    }\n}\n",
             "ResultSet r = s.executeQuery(\"SELECT id FROM users WHERE n = '\" + name + \"'\");",
             "ResultSet r = s.executeQuery(\"SELECT id FROM users\");",
             "        int limit = 10;\n"),
    "go": ("db/find.go",
           "package db\n\nfunc find(db *sql.DB, name string) error {\n\tn := 1\n\t{}\n"
           "\treturn use(rows, err, n)\n}\n",
           "rows, err := db.Query(\"SELECT id FROM users WHERE name = '\" + name + \"'\")",
           "rows, err := db.Query(\"SELECT id FROM users WHERE name = $1\", name)",
           "\tlimit := 10\n"),
    "c": ("src/run.c", "#include <stdio.h>\nvoid run(const char *dir)\n{\n    char cmd[99];\n"
          "    snprintf(cmd, sizeof cmd, \"ls %s\", dir);\n    {}\n    puts(cmd);\n}\n",
          "system(cmd);", "run_list(dir);", "    int limit = 10;\n"),
    "php": ("src/find.php", "<?php\nfunction find($db, $name) {\n    $n = 1;\n    {}\n"
            "    return $r;\n}\n",
            "$r = $db->query(\"SELECT id FROM users WHERE name = '$name'\");",
            "$r = $db->prepare('SELECT id FROM users WHERE name = ?');", "    $limit = 10;\n"),
    "ruby": ("lib/find.rb", "def find(name)\n  n = 1\n  {}\n  r\nend\n",
             "r = User.where(\"name = '#{name}'\")", "r = User.where('name = ?', name)",
             "  limit = 10\n"),
    "bash": ("bin/run.sh", "#!/bin/sh\nset -e\n{}\necho done\n", "eval \"ls $1\"", "ls -- \"$1\"",
             "echo more\n"),
}
KEYS = [("old_str", "new_str"), ("old_string", "new_string"), ("oldString", "newString"),
        ("old_text", "new_text"), ("search", "replace"), ("find", "replace"), ("from", "to"),
        ("original", "updated"), ("before", "after"), ("TargetContent", "ReplacementContent"),
        ("old_code", "new_code"), ("old_lines", "new_lines"), ("previous", "current"),
        ("searchText", "replaceText"), ("pattern", "replacement"), ("match", "replacement")]
PATHS = ["path", "file_path", "filePath", "filename", "file", "target_file", "TargetFile", "uri",
         "absolute_path", "relative_workspace_path"]
WANTED = {"mended": "none", "repeated": "none", "weakened": "block"}


def lines_of(text):
    return text.splitlines(keepends=True)


def unified(old, new, path):
    return list(difflib.unified_diff(lines_of(old), lines_of(new), "a/" + path, "b/" + path))


def patch(old, new, path):
    body = ["@@\n" if line.startswith("@@") else line for line in unified(old, new, path)[2:]]
    return "*** Begin Patch\n*** Update File: %s\n%s*** End Patch\n" % (path, "".join(body))


def blocks(old, new, head="<<<<<<< SEARCH", tail=">>>>>>> REPLACE", start=""):
    return "%s\n%s%s=======\n%s%s\n" % (head, start, old, new, tail)


def fence(label, body, sign="```", margin=""):
    inside = "".join(margin + line for line in lines_of(body))
    return "So:\n\n%s%s%s\n%s%s%s\n\nThat is all.\n" % (margin, sign, label, inside, margin, sign)


def arguments(old, new, path):
    """Each form of a call's arguments: (name, text)."""
    for o, n in KEYS:
        yield o, {"path": path, o: old, n: new}
        yield "edits " + o, {"file_path": path, "edits": [{o: old, n: new}]}
    for p in PATHS:
        yield p, {p: path, "old_string": old, "new_string": new}
        yield p + " last", {"new_string": new, "old_string": old, p: path}
    change = patch(old, new, path)
    diff = unified(old, new, path)
    yield "input", {"input": change}
    yield "argv", {"command": ["apply_patch", change]}
    yield "script", {"command": ["bash", "-lc", "apply_patch <<'EOF'\n" + change + "EOF\n"]}
    yield "git apply", {"command": "git apply <<'EOF'\n" + "".join(diff) + "EOF\n"}
    for skipped, name in enumerate(("diff", "", "diff without headers", "diff without a hunk")):
        if name:
            yield name, {"path": path, "diff": "".join(diff[skipped:])}
    yield "cline", {"path": path, "diff": blocks(old, new, "------- SEARCH", "+++++++ REPLACE")}
    yield "roo", {"path": path, "diff": blocks(old, new, start=":start_line:1\n-------\n")}
    yield "merge", {"path": path, "diff": blocks(old, new, "<<<<<<< HEAD", ">>>>>>> other")}


def answers(old, new, path, label):
    """Each form of an answer's text."""
    edit, change, diff = blocks(old, new), patch(old, new, path), "".join(unified(old, new, path))
    yield "blocks", fence(label, path + "\n" + edit)
    yield "blocks, path before", "So:\n\n%s\n```%s\n%s```\n" % (path, label, edit)
    yield "blocks, no label", "%s\n```\n%s```\n" % (path, edit)
    yield "blocks in prose", path + "\n" + edit
    yield "blocks in a list", fence(label, path + "\n" + edit, margin="   ")
    yield "blocks in a quotation", fence(label, path + "\n" + edit, margin="> ")
    yield "blocks, four ticks", fence(label, path + "\n" + edit, "````")
    yield "blocks, CRLF", fence(label, path + "\n" + edit).replace("\n", "\r\n")
    for name in "diff", "patch", "":
        yield "diff as " + name, fence(name, diff)
    yield "diff in a list", fence("diff", diff, margin="   ")
    yield "diff, CRLF", fence("diff", diff).replace("\n", "\r\n")
    yield "diff alone", diff
    yield "patch alone", change
    for name in "", "patch", "diff":
        yield "patch as " + name, fence(name, change)
    yield "patch in a script", fence("bash", "apply_patch <<'EOF'\n" + change + "EOF\n")


def edits(language):
    path, text, weak, safe, more = LANGUAGES[language]
    before, after = text.replace("{}", weak), text.replace("{}", safe)
    at = before.index(weak) + len(weak) + 1
    yield "mended", before, after, path
    yield "repeated", before, before[:at] + more + before[at:], path
    yield "weakened", after, before, path


def scan(cerium, option, files):
    """What is found, by the mark that each file's name has, and the paths in it."""
    run = subprocess.run([cerium, "scan", "--json", option, "--", *files], capture_output=True,
                         text=True, timeout=600)
    if run.returncode not in (0, 1):
        sys.exit(run.stderr)
    by = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        found = json.loads(line)
        mark = [part for part in found["file"].split("/") if part.startswith("edit-")][0]
        by[mark.split(".")[0]].append(found["severity"])
    return by


def main():
    cerium, n, failed = sys.argv[1], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for option in "--arguments", "--answer":
            made = {}
            for language in LANGUAGES:
                for direction, old, new, path in edits(language):
                    forms = (list(arguments(old, new, path)) if option == "--arguments"
                             else list(answers(old, new, "PATH", language)))
                    for name, text in forms:
                        mark = len(made)
                        text = (json.dumps(text) if option == "--arguments"
                                else text.replace("PATH", "edit-%d/%s" % (mark, path)))
                        made["edit-%d" % mark] = (name, language, direction)
                        with open(os.path.join(folder, "edit-%d.txt" % mark), "w",
                                  newline="") as f:
                            f.write(text)
            found = scan(cerium, option, [os.path.join(folder, m + ".txt") for m in made])
            for mark, (name, language, direction) in made.items():
                severities = found.get(mark, [])
                verdict = "block" if "block" in severities else "warn" if severities else "none"
                n += 1
                if verdict != WANTED[direction]:
                    failed += 1
                    print("%s, %s, %s: %s" % (name, language, direction, verdict))
    print("edits: %d of %d hold" % (n - failed, n))
    sys.exit(failed != 0)


main()
