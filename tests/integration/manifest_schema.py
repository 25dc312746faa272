#!/usr/bin/env python3
"""Validates Kubernetes objects against the OpenAPI schema of a Kubernetes version: unknown and missing fields, types.

Usage: manifest_schema.py SWAGGER.json <OBJECTS
OBJECTS is a stream of JSON objects. Kinds of the Prometheus operator and of cert-manager are accepted without a schema. Prints
one line for each error.
"""
import json
import re
import sys

OPEN_GROUPS = ("monitoring.coreos.com/", "cert-manager.io/")
# Definitions with other forms than their "type" says.
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
QUANTITY_FORM = re.compile(r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$")
TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}


def stream(text):
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        yield value


class Checker:
    def __init__(self, definitions, kinds):
        self.definitions, self.kinds, self.errors = definitions, kinds, []

    def check(self, value, schema, path):
        name = schema.get("$ref", "").rpartition("/")[2]
        if name == INT_OR_STRING:
            if isinstance(value, bool) or not isinstance(value, (int, str)):
                self.errors.append(f"{path}: {value!r} is neither a number nor a string")
            return
        if name == QUANTITY:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)) or not QUANTITY_FORM.match(str(value)):
                self.errors.append(f"{path}: {value!r} is no quantity")
            return
        if name:
            schema = self.definitions[name]
        kind = schema.get("type")
        if value is None:
            self.errors.append(f"{path}: null")
        elif kind in TYPES and not isinstance(value, TYPES[kind]):
            self.errors.append(f"{path}: {value!r} is no {kind}")
        elif kind in ("integer", "number") and (isinstance(value, bool) or not isinstance(value, (int, float) if kind == "number" else int)):
            self.errors.append(f"{path}: {value!r} is no {kind}")
        elif isinstance(value, list):
            for i, item in enumerate(value):
                self.check(item, schema.get("items", {}), f"{path}[{i}]")
        elif isinstance(value, dict):
            self.check_fields(value, schema, path)

    def check_fields(self, value, schema, path):
        fields, others = schema.get("properties"), schema.get("additionalProperties")
        for field in schema.get("required", []):
            if field not in value:
                self.errors.append(f"{path}.{field}: missing")
        if fields is None and others is None:
            return  # any object, such as RawExtension
        for field, inner in value.items():
            if fields and field in fields:
                self.check(inner, fields[field], f"{path}.{field}")
            elif isinstance(others, dict):
                self.check(inner, others, f"{path}.{field}")
            else:
                self.errors.append(f"{path}.{field}: unknown field")

    def check_object(self, value):
        version, kind = value.get("apiVersion", ""), value.get("kind", "")
        path = f"{kind} {value.get('metadata', {}).get('name', '')}"
        name = self.kinds.get((version, kind))
        if name is not None:
            self.check(value, {"$ref": "#/definitions/" + name}, path)
        elif not version.startswith(OPEN_GROUPS):
            self.errors.append(f"{path}: this version of Kubernetes has no {version} {kind}")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        definitions = json.load(f)["definitions"]
    kinds = {}
    for name, schema in definitions.items():
        for gvk in schema.get("x-kubernetes-group-version-kind", []):
            version = f"{gvk['group']}/{gvk['version']}" if gvk["group"] else gvk["version"]
            kinds[version, gvk["kind"]] = name
    checker, count = Checker(definitions, kinds), 0
    for value in stream(sys.stdin.read()):
        for item in value["items"] if value.get("kind") == "List" else [value]:
            checker.check_object(item)
            count += 1
    for error in checker.errors:
        print(error)
    if not count:
        print("no objects")
    return 1 if checker.errors or not count else 0


sys.exit(main())
