#!/bin/sh
# test_chart.sh - the chart: helm's output is valid for each Kubernetes it names, equals
# tests/packages/chart has, and keeps its promises (checks.py).  helm is built once by
# tools/fetch_cluster_tools.sh; the test is skipped without it.
. tests/shell.sh
chart=packages/chart
PATH=$PWD/build/cluster:$PATH

# The version is in one place.
version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
check "the chart has the program's version" grep -qx "appVersion: \"$version\"" $chart/Chart.yaml
if ! command -v helm >/dev/null; then
    skip "the chart" "helm is not installed: tools/fetch_cluster_tools.sh"
    report chart
    exit
fi

KEYS="--set keys.text=a-key-for-a-test"
check "helm lint" helm lint --strict $KEYS $chart
check_fails "without keys it is refused" "keys" helm lint --strict $chart
render() { # NAME OPTION...: into $work/NAME.yaml
    name=$1
    shift
    helm template cerium $chart --kube-version 1.34.0 --namespace code "$@" >"$work/$name.yaml"
}
check_fails "a value that is not known is refused" "fly" render x $KEYS --set fly=1
check_fails "half a processor is refused" "cpu" render x $KEYS --set resources.cpu=0.5

router='[{"podSelector":{"matchLabels":{"app":"router"}}}]'
check_fails "events for everybody are refused" "kvEvents" render x $KEYS --set kvEvents.enabled=true
check_fails "and without a policy" "networkPolicy" render x $KEYS --set kvEvents.enabled=true \
    --set-json "kvEvents.from=$router" --set networkPolicy.enabled=false
cases="small team gateway events full secret"
options() {
    case $1 in
    small) echo "--set replicas=1,networkPolicy.enabled=false,podDisruptionBudget.enabled=false" ;;
    team) echo "--set model=qwen2.5-coder-7b.gguf,models.existingClaim=models" ;;
    gateway) echo "--set gateway.enabled=true" ;;
    events) echo "--set gateway.enabled=true,kvEvents.enabled=true" \
        "--set-json kvEvents.from=$router" ;;
    full) echo "--set autoscaling.enabled=true,metrics.serviceMonitor=true" \
        "--set resources.hugepages2Mi=2Gi --set-json args=[\"--running\",\"32\"]" ;;
    secret) echo "--set keys.existingSecret=ours --set keys.text=" ;;
    esac
}
for case in $cases; do
    # Several words, on purpose.
    check "$case is rendered" render $case $KEYS $(options $case)
    if [ "$GOLDEN" = write ]; then cp "$work/$case.yaml" tests/packages/chart/; fi
    check "$case is unchanged (GOLDEN=write to change)" \
        diff -u "tests/packages/chart/$case.yaml" "$work/$case.yaml"
done

if command -v python3 >/dev/null && python3 -c 'import yaml' 2>/dev/null; then
    check "every pod has probes, limits and a security context" \
        python3 tests/packages/chart/promises.py "$work"/[a-w]*.yaml
    sed '/readinessProbe:/,/failureThreshold/d' "$work/small.yaml" >"$work/lax.yml"
    check_fails "one without a probe is found" readinessProbe \
        python3 tests/packages/chart/promises.py "$work/lax.yml"
else
    skip "the promises of the chart" "there is no python3 with yaml"
fi

if python_with build/schemas/python kubernetes_validate,yaml kubernetes-validate==1.37.0; then
    schemas=tests/packages/chart/schemas.py versions="1.33 1.34 1.35 1.36 1.37"
    check "all of it is valid for Kubernetes 1.33 to 1.37" \
        $python $schemas "$versions" "$work"/[a-w]*.yaml
    sed s/terminationGracePeriodSeconds/terminationGraceSeconds/ "$work/small.yaml" \
        >"$work/x.yaml"
    check_fails "a field that Kubernetes does not know is found" terminationGraceSeconds \
        $python $schemas 1.35 "$work/x.yaml"
else
    skip "the chart's schemas" "$why"
fi
report chart
