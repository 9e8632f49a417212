#!/bin/sh
# image.sh - an OCI image of what is staged, made of files: no daemon, no registry, no root.
#
#   packages/image.sh STAGE LAYOUT VERSION      LAYOUT: a folder; LAYOUT.tar: for `docker load`
#
# One layer: the program, the libraries it needs (packages/libraries.sh), certificates, a user. The
# same commit on the same system gives the same digest.
set -eu
stage=$1 out=$2 version=$3
here=$(dirname "$0")
export LC_ALL=C TZ=UTC
umask 022
SOURCE_DATE_EPOCH=$("$here/epoch.sh")
export SOURCE_DATE_EPOCH
case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
"$here/staged.sh" "$stage"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/etc/ssl/certs" \
    "$root/usr/share/doc/cerium" "$work/state/var/lib/cerium/models" "$work/tmp/tmp"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
cp "$stage/usr/bin/cerium" "$root/usr/bin/"
cp -r "$stage/usr/share/cerium" "$root/usr/share/"
cp "$stage/usr/share/doc/cerium/LICENSE" "$root/usr/share/doc/cerium/"

# Libraries, with whose they are.
"$here/libraries.sh" "$root/usr/bin/cerium" >"$work/libraries"
while read -r name file; do
    case $name in
    /*) to=$root$name ;;
    *) to=$root/usr/lib/$(basename "$(dirname "$file")")/$name ;;
    esac
    mkdir -p "$(dirname "$to")"
    cp -L "$file" "$to"
    # Debian's lists have the names from before /lib was a link.
    real=$(realpath "$file")
    printf '%s\n%s\n' "$real" "${real#/usr}" >>"$work/files"
done <"$work/libraries"
xargs dpkg -S <"$work/files" 2>/dev/null | cut -d : -f 1 | sort -u >"$work/owners" || true
echo ca-certificates >>"$work/owners"
# shellcheck disable=SC2016 # dpkg-query fills them in
xargs dpkg-query -W -f '${Package} ${Version}\n' <"$work/owners" | sort -u \
    >"$root/usr/share/doc/cerium/packages.txt"
while read -r owner; do
    text=/usr/share/doc/$owner/copyright
    [ ! -e "$text" ] || install -D -m 644 "$text" "$root$text"
done <"$work/owners"
# Of the package, not of this machine, which may trust others.
find /usr/share/ca-certificates/mozilla -name '*.crt' 2>/dev/null | sort | xargs -r cat \
    >"$root/etc/ssl/certs/ca-certificates.crt"
[ -s "$root/etc/ssl/certs/ca-certificates.crt" ] ||
    echo "image.sh: without certificates: install ca-certificates" >&2
echo 'root:x:0:0:root:/:/sbin/nologin
cerium:x:65532:65532:cerium:/var/lib/cerium:/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:
cerium:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod -R u=rwX,go=rX "$root"
chmod 1777 "$work/tmp/tmp"

# One layer; only two folders are not root's and everybody's to read.
layer=$work/layer.tar
pack() { # FOLDER OWNER NAME...: add to the layer
    folder=$1 owner=$2
    shift 2
    tar -C "$folder" --sort=name --owner="$owner" --group="$owner" --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -rf "$layer" "$@"
}
pack "$root" 0 etc lib lib64 usr
pack "$work/tmp" 0 tmp
pack "$work/state" 65532 var/lib/cerium
diff_id=$(sha256sum "$layer" | cut -c 1-64)
bytes_unpacked=$(wc -c <"$layer")
gzip -6 -n "$layer"

rm -rf "$out"
mkdir -p "$out/blobs/sha256"
digest='' size=''
add() { # FILE: as a blob; digest, size
    digest=$(sha256sum "$1" | cut -c 1-64) size=$(wc -c <"$1")
    cp "$1" "$out/blobs/sha256/$digest"
}
add "$layer.gz"
layer_digest=$digest layer_size=$size
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# shellcheck source=/dev/null
base=$(. /etc/os-release && echo "$ID $VERSION_ID")
second=1000000000
cat >"$work/config" <<END
{"created":"$created","architecture":"$arch","os":"linux",
"config":{"User":"65532:65532","WorkingDir":"/var/lib/cerium",
"Env":["PATH=/usr/bin","HOME=/var/lib/cerium","CERIUM_MODELS=/var/lib/cerium/models",
"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
"Entrypoint":["/usr/bin/cerium"],
"Cmd":["serve","--host","0.0.0.0","--metrics-listen","0.0.0.0:9383","--lame-duck","5"],
"ExposedPorts":{"8383/tcp":{},"9383/tcp":{}},
"Volumes":{"/var/lib/cerium":{}},"StopSignal":"SIGTERM",
"Healthcheck":{"Test":["CMD","/usr/bin/cerium","health","http://127.0.0.1:9383"],
"Interval":$((5 * second)),"Timeout":$((4 * second)),
"StartPeriod":$((120 * second)),"Retries":3},
"Labels":{"org.opencontainers.image.title":"cerium",
"org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0",
"org.opencontainers.image.base.name":"$base"}},
"rootfs":{"type":"layers","diff_ids":["sha256:$diff_id"]},
"history":[{"created":"$created","created_by":"packages/image.sh"}]}
END
add "$work/config"
config_digest=$digest config_size=$size
cat >"$work/manifest" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json",
"digest":"sha256:$config_digest","size":$config_size},
"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",
"digest":"sha256:$layer_digest","size":$layer_size}]}
END
add "$work/manifest"
echo '{"imageLayoutVersion":"1.0.0"}' >"$out/oci-layout"
cat >"$out/index.json" <<END
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",
"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json",
"digest":"sha256:$digest","size":$size,
"platform":{"architecture":"$arch","os":"linux"},
"annotations":{"org.opencontainers.image.ref.name":"$version"}}]}
END
# What older versions of `docker load` read.
cat >"$out/manifest.json" <<END
[{"Config":"blobs/sha256/$config_digest","RepoTags":["cerium:$version","cerium:latest"],
"Layers":["blobs/sha256/$layer_digest"]}]
END
tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --format=gnu -cf "$out.tar" blobs index.json manifest.json oci-layout
echo "image: sha256:$digest, $((bytes_unpacked / 1000000)) MB unpacked," \
    "$((layer_size / 1000000)) MB packed"
