"""Checks an OpenAPI 3.1 document by the specification's own schema; exit code 1 if it is wrong."""

import json
import sys

from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
faults = [
    f"{'/'.join(map(str, error.instance_path))}: {error.message}"
    for error in OPENAPI_31_VALIDATOR.iter_errors(document)
]
print("\n".join(faults))
sys.exit(1 if faults else 0)
