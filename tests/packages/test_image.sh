#!/bin/sh
# test_image.sh - the OCI image: one layer, small, reproducible, and it runs: unpacked, as its
# user, read-only, as process 1.
. tests/shell.sh
. tests/packages/stage.sh

image=$PACKAGES/cerium-image
if [ -z "$PACKAGES" ]; then
    image=$work/image
    check "an image is made" packages/image.sh "$stage" "$image" "$version"
    cat "$work/.output"
fi
megabytes=$(($(find "$image/blobs" -type f -size +1000k -exec gzip -dc {} + | wc -c) / 1000000))
check "at most 60 MB unpacked, not $megabytes" test "$megabytes" -le 60 -a "$megabytes" -gt 0

# Another folder, umask, time zone, language, and another stage.
again() (
    umask 077
    export TZ=Asia/Tokyo LANG=tr_TR.UTF-8 LC_ALL=C.UTF-8
    mkdir -p "$work/other" && packages/stage.sh "$work/other/stage" &&
        packages/image.sh "$work/other/stage" "$work/other/image" "$version"
)
check "and once more" again
check "two builds have the same digest" \
    cmp "$image/index.json" "$work/other/image/index.json"
check "and the same archive" cmp "$image.tar" "$work/other/image.tar"

# Every blob has the digest in its name, and everything referred to exists.
cat >"$work/layout.py" <<'END'
import gzip, hashlib, json, os, sys, tarfile
folder = sys.argv[1]
def blob(entry):
    with open(os.path.join(folder, "blobs", *entry["digest"].split(":")), "rb") as f:
        data = f.read()
    assert hashlib.sha256(data).hexdigest() == entry["digest"][7:] and len(data) == entry["size"]
    return data
def read(name):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)
assert read("oci-layout") == {"imageLayoutVersion": "1.0.0"}
index = read("index.json")
manifest = json.loads(blob(index["manifests"][0]))
config = json.loads(blob(manifest["config"]))
assert len(manifest["layers"]) == 1 == len(config["rootfs"]["diff_ids"]), "one layer"
layer = gzip.decompress(blob(manifest["layers"][0]))
assert "sha256:" + hashlib.sha256(layer).hexdigest() == config["rootfs"]["diff_ids"][0]
assert len(os.listdir(os.path.join(folder, "blobs", "sha256"))) == 3, "nothing else"
docker = read("manifest.json")[0]
assert docker["Config"].split("/")[-1] == manifest["config"]["digest"][7:]
assert config["config"]["User"] == "65532:65532" and config["config"]["StopSignal"] == "SIGTERM"
with open(sys.argv[2], "wb") as f:
    f.write(layer)
with tarfile.open(sys.argv[2]) as t:
    for m in t:
        own = m.name.startswith("var/lib/cerium")
        assert (m.uid, m.gid) == ((65532, 65532) if own else (0, 0)), m.name
        assert not m.mode & 0o6000, m.name  # setuid
        assert own or m.name == "tmp" or m.issym() or not m.mode & 0o022, m.name
END
if command -v python3 >/dev/null; then
    check "the layout is an image of one layer" \
        python3 "$work/layout.py" "$image" "$work/layer.tar"
    printf x >>"$(find "$work/other/image/blobs" -type f -size +1000k)"
    check_fails "a blob that was changed is found" AssertionError \
        python3 "$work/layout.py" "$work/other/image" "$work/other.tar"
else
    skip "the layout" "there is no python3"
fi

# Run as a container runtime does: a read-only root of its own, process 1, user 65532.
cat >"$work/run.sh" <<'END'
set -e
root=$1
shift
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=0755,uid=65532,gid=65532 tmpfs "$root/var/lib/cerium"
exec chroot --userspec=65532:65532 "$root" "$@"
END
inside() {
    timeout -k 9 300 unshare -mpf --propagation private sh "$work/run.sh" "$work/root" "$@"
}
mkdir -p "$work/root"
if [ "$(id -u)" != 0 ] || ! unshare -mpf true 2>/dev/null || [ ! -e "$work/layer.tar" ]; then
    skip "the image, running" "it needs root and namespaces"
else
    tar -C "$work/root" -xpf "$work/layer.tar"
    mkdir -p "$work/root/proc"
    check "it runs" status 0 inside /usr/bin/cerium --version
    check "and has the package's version" says "cerium $version"
    check "it completes a line with its own model" inside /usr/bin/cerium run --raw --quiet -n 4 \
        -p 'def add('
    check_fails "without keys nobody else is let in" "lets others in" \
        inside /usr/bin/cerium serve --host 0.0.0.0
    serve() {
        port=$((20000 + $$ % 10000))
        inside /usr/bin/cerium serve --port "$port" --metrics-listen "127.0.0.1:$((port + 1))" \
            --store /var/lib/cerium/store.db &
        job=$!
        until "$O/cerium" health --wait 1 "http://127.0.0.1:$((port + 1))"; do
            kill -0 "$job" || return 1
        done
        server=$(pgrep -u 65532 -f "serve --port $port ") && kill -TERM "$server" && wait "$job"
    }
    check "as process 1 it serves, is healthy, and ends with SIGTERM" serve
fi
report image
