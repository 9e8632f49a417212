#!/bin/bash
# check_bare_debian.sh - the first minute of a new user, as a test: in a fresh Debian 12 that has
# only git and make, clone the repository, `make run`, scan weak files, run the commands of the
# documents, `make test`.
#
#   tools/check_bare_debian.sh [--keep]     as root; needs debootstrap or mmdebstrap, and a network
#
# Each part reports its time and how much it wrote.
# The mirror is that of this machine, read from /etc/apt when it runs.  The system is made in a
# temporary folder and removed at the end, unless --keep is given.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "check_bare_debian: must be root, for chroot" >&2; exit 2; }
bootstrap=$(command -v debootstrap || command -v mmdebstrap) || {
    echo "check_bare_debian: install debootstrap or mmdebstrap" >&2
    exit 2
}

repository=$(cd "$(dirname "$0")/.." && pwd)
if (: </dev/tcp/127.0.0.1/8383) 2>/dev/null; then
    echo "check_bare_debian: port 8383 is in use, and \`make run\` wants it" >&2
    exit 2
fi
keep=${1:-} # in a trap, $1 is that of the function that exits
root=$(mktemp -d)
chmod 755 "$root" # a root folder that other users can enter
mounted= job=
finish() {
    [ -z "$job" ] || kill -TERM -- "-$job" 2>/dev/null || true
    for place in $mounted; do umount "$root/$place" || umount -l "$root/$place" || true; done
    # --one-file-system: should an unmount have failed, the host's files stay.
    if [ "$keep" = --keep ]; then
        echo "kept: $root"
    else
        rm -rf --one-file-system "$root"
    fi
}
trap finish EXIT

mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null |
        sed '/^ *#/d' | grep -Eo '(https?|file|copy):[^ ]*debian/?( |$)' | head -n 1 | tr -d ' '
}

used_mb() { du -smx "$root" | cut -f 1; }
start=0 before=0
part() {
    start=$SECONDS before=$(used_mb)
    echo "== $1"
}
part_ends() { echo "== $1 took $((SECONDS - start)) s and $(($(used_mb) - before)) MB"; }

part "a Debian 12 with git and make"
"$bootstrap" --variant=minbase --include=git,make,ca-certificates bookworm "$root" "$(mirror)" \
    >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
part_ends bootstrap

cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
# Certificates that this machine trusts must be trusted there, too: pip uses the same network.
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
for place in proc dev dev/pts sys; do
    mount --bind --make-private "/$place" "$root/$place"
    mounted="$place $mounted"
done

part "git clone"
git clone -q --no-local "$repository" "$root/home/cerium"
part_ends "git clone"

inside() {
    env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        chroot "$root" sh -c "cd /home/cerium && $1" </dev/null
}

die() {
    echo "check_bare_debian: $1" >&2
    exit 1
}

part "make run"
set -m # a process group of its own, to end servers that keep running
: >"$root/run.log"
inside "make run" >"$root/run.log" 2>&1 &
job=$!
until grep -q '^Open http://127.0.0.1:8383 in a browser' "$root/run.log"; do
    kill -0 "$job" 2>/dev/null && [ $((SECONDS - start)) -lt 1800 ] || {
        tail -n 30 "$root/run.log" >&2
        exit 1
    }
    sleep 1
done
part_ends "make run"
head -n 3 "$root/run.log"
tail -n 25 "$root/run.log"
grep -q '^make run: .* minutes .* MB' "$root/run.log" || die "it does not say what it takes"
grep -q ' tokens at [0-9]* tokens/s, over ws://' "$root/run.log" || die "no speed"
grep -q '    def __sub__(self' "$root/run.log" || die "no completion"
! grep 'grammars: none' "$root/run.log" || {
    tail -n 20 "$root/home/cerium/build/grammars/log" >&2
    die "grammars are missing"
}
(: </dev/tcp/127.0.0.1/8383) # it still serves
kill -TERM -- "-$job"
wait "$job" || true
part "make run, again"
: >"$root/run.log"
inside "make run" >"$root/run.log" 2>&1 &
job=$!
until grep -q '^Open http' "$root/run.log"; do sleep 0.1; done
part_ends "make run, again"
kill -TERM -- "-$job"
wait "$job" || true
job=
set +m

part "cerium scan, of weak files"
cat >"$root/home/weak.py" <<'END'
import os, sqlite3
def find(name):
    db = sqlite3.connect("shop.db")
    return db.execute("SELECT id FROM item WHERE name = '" + name + "'").fetchone()
def show(folder):
    os.system("ls -l " + folder)
password = "correcthorse9battery"
END
cat >"$root/home/weak.js" <<'END'
const { exec } = require('child_process');
app.get('/list', (req, res) => { exec('ls ' + req.query.folder); });
app.get('/hello', (req, res) => { res.send('<h1>' + req.query.name + '</h1>'); });
END
inside "./cerium scan ../weak.py ../weak.js" >"$root/scan.log" 2>&1 &&
    die "scan finds nothing in weak files"
cat "$root/scan.log"
[ "$(grep -c ': weak: .*CWE-' "$root/scan.log")" = 5 ] || die "scan does not find all five"
part_ends "scan"

part "the commands of the documents"
inside "sh tests/house/test_commands.sh" || die "a command does not do what is written"
part_ends "commands"

part "make test"
inside "make test" | tee "$root/test.log"
part_ends "make test"
tail -n 1 "$root/test.log" | grep -q '^cerium: [0-9]* passed, 0 failed'
