"""schemas.py - helm's output is valid for these versions of Kubernetes, by their own schemas, with
no unknown field.  Kinds of gateways and operators are skipped.

    schemas.py "1.33 1.37" RENDERED.yaml..."""

import sys

import kubernetes_validate
import yaml

OTHERS = {"InferencePool", "HTTPRoute", "ServiceMonitor"}


def main():
    n = 0
    for path in sys.argv[2:]:
        with open(path) as f:
            documents = [d for d in yaml.safe_load_all(f) if d and d["kind"] not in OTHERS]
        for version in sys.argv[1].split():
            for document in documents:
                n += 1
                kubernetes_validate.validate(document, version, strict=True)
    print("%d documents" % n)
    return n == 0


sys.exit(main())
