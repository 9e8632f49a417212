"""promises.py - properties of every container of the chart: probes, limits that are requests, whole
processors, an unprivileged user; and time to shut down.

    promises.py RENDERED.yaml..."""

import sys

import yaml

FAULTS = []


def need(what, where):
    if not what:
        FAULTS.append(where)


def check_pod(name, pod):
    need(not pod.get("automountServiceAccountToken", True), name + ": a token is mounted")
    need(pod["securityContext"].get("runAsNonRoot"), name + ": runAsNonRoot")
    need("seccompProfile" in pod["securityContext"], name + ": seccompProfile")
    for container in pod["containers"]:
        where = "%s/%s: " % (name, container["name"])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            need(container.get(probe), where + probe)
        resources = container["resources"]
        need(resources["requests"] == resources["limits"], where + "requests are not limits")
        need(isinstance(resources["limits"]["cpu"], int), where + "parts of a processor")
        context = container["securityContext"]
        need(context.get("readOnlyRootFilesystem"), where + "its root can be written")
        need(context.get("allowPrivilegeEscalation") is False, where + "it may get rights")
        need(context["capabilities"] == {"drop": ["ALL"]}, where + "capabilities")
        duck, drain = (int(next(a for a in container["args"] if a.startswith(o)).split("=")[1])
                       for o in ("--lame-duck", "--drain"))
        need(pod["terminationGracePeriodSeconds"] > duck + drain, where + "it is killed too early")
        need(duck > container["readinessProbe"]["periodSeconds"] + 1, where + "lame for too short")


def main():
    n_pods = 0
    for path in sys.argv[1:]:
        with open(path) as f:
            for document in filter(None, yaml.safe_load_all(f)):
                if document["kind"] == "Deployment":
                    n_pods += 1
                    check_pod(path, document["spec"]["template"]["spec"])
                    update = document["spec"]["strategy"]["rollingUpdate"]
                    need(update == {"maxUnavailable": 0, "maxSurge": 1}, path + ": rolling update")
    need(n_pods, "there is no pod")
    print("\n".join(FAULTS) or "%d pods" % n_pods)
    return bool(FAULTS)


sys.exit(main())
