#!/bin/sh
# Builds Karpenter's core with its kwok provider from the Go module into the cache directory, once per version (about three
# minutes on two cores), and copies the CRDs of Karpenter and of its provider for AWS. Prints the directory. Exit code 3: there
# is no Go toolchain, or the modules cannot be downloaded; the reason is on stderr.
set -eu
version=${GPUSCALE_KARPENTER:-v1.15.0}
aws=${GPUSCALE_KARPENTER_AWS:-v1.15.1}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/karpenter-$version
PATH=$PATH:/usr/local/go/bin
export GOFLAGS=-mod=mod

# MODULE VERSION: the path of its zip file. A module that requires a newer Go is downloaded, too.
zip_of() {
    go mod download -json "$1@$2" 2>/dev/null | sed -n 's/^\t"Zip": "\(.*\)",*$/\1/p'
}
unpack() { # ZIP PREFIX DIRECTORY: the files below PREFIX
    python3 - "$@" <<'END'
import os, sys, zipfile
archive, prefix, to = sys.argv[1:]
with zipfile.ZipFile(archive) as z:
    for name in z.namelist():
        path = os.path.normpath(os.path.join(to, name[len(prefix):]))
        if name.startswith(prefix) and not name.endswith("/") and path.startswith(to + "/"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(z.read(name))
END
}
if ! [ -x "$cache/karpenter-kwok" ] || ! [ -d "$cache/crds-aws-$aws" ]; then
    command -v go >/dev/null || { echo "e2e: no Go toolchain on PATH to build Karpenter with" >&2; exit 3; }
    core=$(zip_of sigs.k8s.io/karpenter "$version") provider=$(zip_of github.com/aws/karpenter-provider-aws "$aws")
    [ -f "$core" ] && [ -f "$provider" ] || { echo "e2e: the modules of Karpenter $version cannot be downloaded" >&2; exit 3; }
    rm -rf "$cache/module" "$cache/crds-aws-$aws.new"
    unpack "$core" "sigs.k8s.io/karpenter@$version/" "$cache/module"
    unpack "$provider" "github.com/aws/karpenter-provider-aws@$aws/pkg/apis/crds/" "$cache/crds-aws-$aws.new"
    cd "$cache/module"
    # The module may require a newer patch release of Go than the installed one.
    here=$(go env GOVERSION | sed 's/^go//')
    needed=$(sed -n 's/^go //p' go.mod)
    [ "$(printf '%s\n%s\n' "$here" "$needed" | sort -V | head -n 1)" = "$needed" ] || sed -i "s/^go .*/go $here/" go.mod
    echo "e2e: building Karpenter $version" >&2
    CGO_ENABLED=0 nice -n 19 go build -o "$cache/karpenter-kwok.new" ./kwok >&2 || { echo "e2e: Karpenter $version cannot be built" >&2; exit 3; }
    mkdir -p "$cache/crds"
    cp pkg/apis/crds/*.yaml kwok/apis/crds/*.yaml "$cache/crds/"
    mv "$cache/karpenter-kwok.new" "$cache/karpenter-kwok"
    rm -rf "$cache/crds-aws-$aws"
    mv "$cache/crds-aws-$aws.new" "$cache/crds-aws-$aws"
fi
ln -sfn "crds-aws-$aws" "$cache/crds-aws"
echo "$cache"
