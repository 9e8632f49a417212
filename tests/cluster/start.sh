# start.sh - sourced by the tests of this folder: `rig NAME` runs rig.py with root's rights over
# networks of its own, or prints why not.  CLUSTER=whole makes it longer.
rig() {
    skip_all() {
        echo "skipped: a cluster behind $1: $2"
        echo "cluster $1: 0 passed, 0 failed"
        exit 0
    }
    command -v python3 >/dev/null || skip_all "$1" "there is no python3"
    case ${BUILD:-release} in release) ;; *) skip_all "$1" "only a release build is tried" ;; esac
    [ "$(id -u)" = 0 ] && unshare -mn ip link set lo up 2>/dev/null ||
        skip_all "$1" "it needs root, network namespaces and iproute2"
    case $1 in
    haproxy) command -v haproxy >/dev/null || skip_all "$1" "haproxy is not installed" ;;
    envoy) [ -x build/cluster/envoy ] || skip_all "$1" "run tools/fetch_cluster_tools.sh envoy" ;;
    picker)
        [ -x build/cluster/envoy ] && [ -x build/cluster/epp ] ||
            skip_all "$1" "run tools/fetch_cluster_tools.sh envoy picker"
        ;;
    esac
    CERIUM=$PWD/${O:-build/release}/cerium
    export CERIUM
    exec unshare -mn --propagation private python3 tests/cluster/rig.py "$1"
}
