#!/bin/sh
# The files of a release: two runs are equal, the checksums are right, the bill of materials is complete, and the tarball can
# be configured without git and knows its commit.
. "$(dirname "$0")/lib.sh"
cd "$source"
git rev-parse HEAD >/dev/null 2>&1 || skip "this is not a clone"
version=$(git show HEAD:meson.build | sed -n "s/^ *version : '\([^']*\)',\$/\1/p" | head -n 1)

tools/dist "$dir/one" >"$dir/out.txt" 2>&1 || { cat "$dir/out.txt" && fail "tools/dist"; }
(umask 077 && TZ=Asia/Tokyo tools/dist "$dir/two" >/dev/null 2>&1) || fail "the second tools/dist"
diff -r "$dir/one" "$dir/two" || fail "two runs differ"
(cd "$dir/one" && sha256sum --quiet -c SHA256SUMS) || fail "checksums"
[ "$(cut -c 67- "$dir/one/SHA256SUMS" | tr '\n' ' ')" = "gpuscale-$version.spdx.json gpuscale-$version.tar.gz gpuscale-chart-$version.tgz " ] || fail "files: $(cat "$dir/one/SHA256SUMS")"

# --- bill of materials ---
sbom=$dir/one/gpuscale-$version.spdx.json
jq -e '.spdxVersion == "SPDX-2.3" and .SPDXID == "SPDXRef-DOCUMENT" and .dataLicense == "CC0-1.0"
    and (.packages[0] | .name == "gpuscale" and .licenseDeclared == "Apache-2.0")
    and ([.packages[].name] | contains(["libuv1-dev", "libgnutls28-dev", "libcurl4-gnutls-dev"]))' "$sbom" >/dev/null || fail "bill of materials"
consistent() { # FILE: identifiers are unique, and each relationship is between two of them
    jq -e '([.SPDXID] + [.packages[].SPDXID] + [.files[]?.SPDXID]) as $ids
        | ($ids | unique | length) == ($ids | length)
        and all(.relationships[] | .spdxElementId, .relatedSpdxElement; . as $id | $ids | index($id))' "$1" >/dev/null || fail "$1: identifiers"
}
consistent "$sbom"
[ "$(jq -r '.packages[0].checksums[0].checksumValue' "$sbom")" = "$(sha256sum "$dir/one/gpuscale-$version.tar.gz" | cut -d ' ' -f 1)" ] ||
    fail "checksum in the bill of materials"

# Of installed files, with the packages of a table.
mkdir -p "$dir/root/usr/bin" "$dir/root/usr/lib"
echo program >"$dir/root/usr/bin/gpuscale"
echo library >"$dir/root/usr/lib/libx.so.1"
printf '/usr/lib/libx.so.1\tlibx1\t1:1.0-2+b1\tarm64\n' >"$dir/packages"
tools/sbom root "$dir/root" --packages "$dir/packages" >"$dir/root.json" || fail "tools/sbom root"
consistent "$dir/root.json"
[ "$(jq -r '.packages[1].externalRefs[0].referenceLocator' "$dir/root.json")" = "pkg:deb/debian/libx1@1%3A1.0-2%2Bb1?arch=arm64" ] || fail "package URL"
[ "$(jq -r '[.files[].fileName] | join(" ")' "$dir/root.json")" = "./usr/bin/gpuscale ./usr/lib/libx.so.1" ] || fail "files"
# With the files of dpkg: tool belongs to the package that diverts it, and what was moved to the other.
admin=$dir/system/var/lib/dpkg
mkdir -p "$admin/info" "$dir/diverted/usr/bin"
for package in original replacement; do
    printf 'Package: %s\nStatus: install ok installed\nMaintainer: x <x@example.org>\nArchitecture: amd64\nVersion: 1\nDescription: x\n\n' \
        $package >>"$admin/status"
    printf '/.\n/usr\n/usr/bin\n/usr/bin/tool\n' >"$admin/info/$package.list"
done
printf '/usr/bin/plain\n' >>"$admin/info/original.list"
printf '/usr/bin/tool\n/usr/bin/tool.original\nreplacement\n' >"$admin/diversions"
for name in plain tool tool.original own; do echo $name >"$dir/diverted/usr/bin/$name"; done
tools/sbom root "$dir/diverted" --dpkg-root "$dir/system" >"$dir/diverted.json" || fail "tools/sbom with a diversion"
consistent "$dir/diverted.json"
owners=$(jq -r '(.files | map({(.SPDXID): .fileName}) | add) as $names | .relationships[]
    | select(.relationshipType == "CONTAINS" and $names[.relatedSpdxElement])
    | "\($names[.relatedSpdxElement]) \(.spdxElementId)"' "$dir/diverted.json" | sort | tr '\n' ' ')
[ "$owners" = "./usr/bin/own SPDXRef-Package-gpuscale ./usr/bin/plain SPDXRef-Debian-original-amd64 ./usr/bin/tool SPDXRef-Debian-replacement-amd64 ./usr/bin/tool.original SPDXRef-Debian-original-amd64 " ] ||
    fail "owners of diverted files: $owners"
! tools/sbom root "$dir/two/none" 2>"$dir/err" || fail "no files are accepted"
grep -q "no files in" "$dir/err" || fail "error: $(cat "$dir/err")"

# --- the chart ---
tar -xzOf "$dir/one/gpuscale-chart-$version.tgz" gpuscale/Chart.yaml | grep -qx "version: \"\{0,1\}$version\"\{0,1\}" || fail "version of the chart"
if helm=$("$source/tests/e2e/helm.sh" --no-build 2>/dev/null); then
    for program in $helm; do
        "$program" template test "$dir/one/gpuscale-chart-$version.tgz" >"$dir/rendered.yaml" 2>"$dir/err" || fail "$program template: $(cat "$dir/err")"
        grep -q "kind: DaemonSet" "$dir/rendered.yaml" || fail "the chart has no DaemonSet"
    done
fi

# --- the tarball ---
tar -C "$dir" -xzf "$dir/one/gpuscale-$version.tar.gz"
unpacked=$dir/gpuscale-$version
! find "$unpacked" -perm /022 ! -type l | grep . || fail "files that others can write"
commit=$(git rev-parse HEAD | cut -c 1-12)
[ "$("$unpacked/tools/version")" = "$version" ] || fail "version of the tarball"
[ "$("$unpacked/tools/version" --commit)" = "$commit" ] || fail "commit of the tarball"
# A Git repository around it has another commit.
git -C "$dir" init -q && [ "$("$unpacked/tools/version" --commit)" = "$commit" ] || fail "commit in another repository"
mkdir "$dir/bin"
printf '#!/bin/sh\nexit 1\n' >"$dir/bin/git" && chmod +x "$dir/bin/git"
(cd "$unpacked" && PATH=$dir/bin:$PATH && meson setup -Dtests=disabled built && ninja -C built src/cmd/commit.h) >"$dir/setup.txt" 2>&1 ||
    { cat "$dir/setup.txt" && fail "the tarball cannot be configured"; }
grep -qF "\"$commit\"" "$unpacked/built/src/cmd/commit.h" || fail "commit: $(cat "$unpacked/built/src/cmd/commit.h")"

# --- equal compilations ---
# In another folder, at another time, by a user with another umask and language: a library with debug symbols,
# generated sources, and an object with the paths of its sources. All objects take minutes; packages and images build them.
targets="src/simulation/nvmlsim/libgpuscale-nvmlsim.so src/cmd/commit.h $(ninja -C "$unpacked/built" -t targets all | sed -n 's/^\(.*web_files\.c\): .*/\1/p; s/^\(src.*base_assert\.c\.o\): .*/\1/p' | sort -u | tr '\n' ' ')"
other=$dir/a-folder-with-another-name/source
mkdir -p "${other%/*}" && tar -C "${other%/*}" -xzf "$dir/two/gpuscale-$version.tar.gz" && mv "${other%/*}/gpuscale-$version" "$other"
# shellcheck disable=SC2086 # each is a target
{
    (cd "$unpacked" && CCACHE_DISABLE=1 ninja -C built $targets)
    (cd "$other" && umask 077 && export CCACHE_DISABLE=1 TZ=Asia/Tokyo LC_ALL=C && meson setup -Dtests=disabled other && ninja -C other $targets)
} >"$dir/ninja.txt" 2>&1 || { tail -n 20 "$dir/ninja.txt" && fail "the tarball does not build"; }
for target in $targets; do
    cmp "$unpacked/built/$target" "$other/other/$target" || fail "two compilations of $target differ"
done
echo "ok"
