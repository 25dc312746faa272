#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes proto_fields.c: the numbers that Kubernetes' protobuf form gives to the fields of the kinds
in src/kube/schema*.c. Run it when that table gains kinds or fields:

    proto_fields.py SCHEMA API APIMACHINERY > proto_fields.c

SCHEMA: lines "TYPE FIELD", one for each field of each type of the schema table.
API, APIMACHINERY: checkouts of github.com/kubernetes/api and github.com/kubernetes/apimachinery.
"""
import collections
import os
import re
import sys

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
RENAMED = {"aPIGroup": "apiGroup"}
SCALARS = ("string", "int32", "int64", "bool", "bytes", "double")


def package_dir(type_name, api, machinery):
    if type_name.startswith(META):
        return os.path.join(machinery, "pkg/apis/meta/v1")
    part = type_name.split(".")
    return os.path.join(api, part[3], part[4])


def read_messages(directory):
    """message -> [(number, name, label, type)]"""
    path, messages, current = os.path.join(directory, "generated.proto"), {}, None
    for line in open(path) if os.path.exists(path) else ():
        if m := re.match(r"message (\w+) \{", line):
            current = messages.setdefault(m[1], [])
        elif line.startswith("}"):
            current = None
        elif current is not None:
            if m := re.match(r"  (optional|repeated) ([.\w]+) (\w+) = (\d+)", line):
                current.append((int(m[4]), RENAMED.get(m[3], m[3]), m[1], m[2]))
            elif m := re.match(r"  (map<[^>]*>) (\w+) = (\d+)", line):
                current.append((int(m[3]), m[2], m[1], ""))
    return messages


def read_pointers(directory):
    """(struct, JSON name) of the fields that Go holds by pointer."""
    pointers, current = set(), None
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
        if not re.match(r"types.*\.go$", name):
            continue
        for line in open(os.path.join(directory, name)):
            if m := re.match(r"type (\w+) struct", line):
                current = m[1]
            elif m := re.match(r'\s+\w+\s+\*[\w.\[\]]+\s+`json:"(\w+)', line):
                pointers.add((current, m[1]))
    return pointers


class Table:
    def __init__(self, api, machinery):
        self.api, self.machinery = api, machinery
        self.packages, self.rows = {}, {}

    def package(self, type_name):
        directory = package_dir(type_name, self.api, self.machinery)
        if directory not in self.packages:
            self.packages[directory] = (read_messages(directory), read_pointers(directory))
        return self.packages[directory]

    def add(self, type_name, fields):
        messages, pointers = self.package(type_name)
        short = type_name.split(".")[-1]
        items = []
        for number, name, label, kind in sorted(messages.get(short, ())):
            if name in fields:
                mark = "*" if (short, name) in pointers else ""
                items.append(f"{number}{name}{mark}")
            elif label == "optional" and kind not in SCALARS:
                full = ("io" + kind.replace(".k8s.io", ".k8s", 1) if kind.startswith(".")
                        else type_name[:type_name.rindex(".") + 1] + kind)
                inner = self.package(full)[0].get(full.split(".")[-1], ())
                if inner and all(f[1] in fields for f in inner):  # Go embeds it, JSON shows no level
                    items.append(f"{number}+{full}")
                    self.add(full, fields)
        if items:
            self.rows[type_name] = " ".join(items)


def main():
    schema = collections.OrderedDict()
    for line in open(sys.argv[1]):
        type_name, field = line.split()
        schema.setdefault(type_name, set()).add(field)
    table = Table(sys.argv[2], sys.argv[3])
    for type_name, fields in schema.items():
        table.add(type_name, fields)
    print("// SPDX-License-Identifier: Apache-2.0\n"
          "// Made by proto_fields.py from Kubernetes' generated.proto files: change that.\n"
          '#include "local/proto.h"\n\n'
          "// Sorted by name. A field is NUMBER NAME MARK; * : Go holds it by pointer, so that a zero\n"
          "// counts as given; NUMBER+TYPE : a message whose fields JSON shows one level up.\n"
          "// clang-format off\n"
          "const struct local_proto_type local_proto_types[] = {")
    for name in sorted(table.rows):
        one_line = f'    {{"{name}", "{table.rows[name]}"}},'
        if len(one_line) <= 100:
            print(one_line)
            continue
        words, line = table.rows[name].split(), f'    {{"{name}",\n     "'
        for i, word in enumerate(words):
            if len(line.rsplit("\n", 1)[-1]) + len(word) > 96:
                line += '"\n     "'
            line += word + (" " if i + 1 < len(words) else "")
        print(line + '"},')
    print("};\n// clang-format on\n"
          "const size_t local_n_proto_types = GS_ARRAY_LEN(local_proto_types);")


main()
