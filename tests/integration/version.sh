#!/bin/sh
# The version is the same in all places: the program, its manual pages, CHANGELOG.md, manifests, the chart, the Debian package
# and the output that pages show. meson.build is the source.
. "$(dirname "$0")/lib.sh"
cd "$source"

version=$(tools/version)
echo "$version" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' || fail "meson.build has the version \"$version\""
is() { [ "$2" = "$version" ] || fail "$1 has the version \"$2\", meson.build has $version"; }

is "gpuscale version" "$("$gpuscale" version | sed 's/^gpuscale //')"
is "gpuscale version -o json" "$("$gpuscale" version -o json | jq -r .version)"
is "gpuscale --version" "$("$gpuscale" --version | sed 's/^gpuscale //')"
[ "$("$gpuscale" version -o json | jq -r '.commit // ""')" = "$(tools/version --commit)" ] || [ -e .git ] ||
    fail "the program and tools/version --commit have different commits"
is "gpuscale(1)" "$(sed -n 's/^\.TH .*"gpuscale \([0-9.]*\)".*/\1/p' "$build/src/cmd/gpuscale.1")"

# The section of this version is the newest one, below "Unreleased". Each version has a date in descending order.
sed -n 's/^## \[\([^]]*\)\]\(.*\)/\1\2/p' CHANGELOG.md >"$dir/versions"
[ "$(head -n 1 "$dir/versions")" = Unreleased ] || fail "CHANGELOG.md does not begin with ## [Unreleased]"
sed 1d "$dir/versions" >"$dir/released"
! grep -vxE '[0-9]+\.[0-9]+\.[0-9]+ - [0-9]{4}-[0-9]{2}-[0-9]{2}' "$dir/released" || fail "CHANGELOG.md: a heading is not \"## [VERSION] - DATE\""
is CHANGELOG.md "$(sed -n '1s/ .*//p' "$dir/released")"
sort -rV "$dir/released" | diff - "$dir/released" || fail "CHANGELOG.md: versions are not in descending order"
while read -r number _; do
    grep -q "^\[$number\]: https://" CHANGELOG.md || fail "CHANGELOG.md: [$number] is no link"
done <"$dir/versions"
! grep '^### ' CHANGELOG.md | grep -vxE '### (Added|Changed|Deprecated|Removed|Fixed|Security)' || fail "CHANGELOG.md: unknown heading"

# Tags of images in manifests and pages, and the version of the API that pages show.
git_files() { git ls-files "$@" 2>/dev/null || find "$@" -type f; }
git_files deploy docs README.md | while read -r file; do
    case $file in *.md | *.yaml | */Containerfile) ;; *) continue ;; esac
    grep -noE '(gpuscale:|[-+]gpuscale\.)[0-9]+\.[0-9]+\.[0-9]+' "$file" | while IFS=: read -r line text; do
        number=${text##*[!0-9.]}
        is "$file:$line" "${number#.}"
    done || exit 1
done || exit 1
chart=deploy/helm/gpuscale/Chart.yaml
if [ -e $chart ]; then
    is "appVersion of $chart" "$(sed -n 's/^appVersion: *"\{0,1\}\([^" ]*\).*/\1/p' $chart)"
    is "version of $chart" "$(sed -n 's/^version: *"\{0,1\}\([^" ]*\).*/\1/p' $chart)"
fi
if [ -e debian/changelog ]; then
    is debian/changelog "$(sed -n '1s/^gpuscale (\([0-9.]*\).*/\1/p' debian/changelog)"
fi
is packaging/rpm/gpuscale.spec "$(sed -n 's/^Version: *//p' packaging/rpm/gpuscale.spec)"
grep -q "^\* .* - $version-[0-9]*$" packaging/rpm/gpuscale.spec || fail "packaging/rpm/gpuscale.spec: %changelog does not have the version"
echo "ok: $version"
