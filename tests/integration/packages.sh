#!/bin/sh
# The description of the Debian packages in debian/ agrees with the rest: version, dependencies, every
# installed file and every unit. tests/packages/run.sh builds, installs and runs the packages.
. "$(dirname "$0")/lib.sh"
need jq
cd "$source"
version=$(tools/version)

# --- version and dependencies ---
head -n 1 debian/changelog | grep -q "^gpuscale ($version-[0-9]*) " || fail "the first entry of debian/changelog is not that of version $version"
grep -q "^ -- .* <.*@.*>  [A-Z][a-z][a-z], [ 0-9][0-9] [A-Z][a-z][a-z] 20[0-9][0-9] [0-9:]* +0000$" debian/changelog || fail "the last line of debian/changelog"
sed -n 's/^    build) echo "//; T; :more; /"/!{N; b more}; s/" ;;//; p' tools/install-deps | tr ' ' '\n' | sed 's/.*://; /^$/d' |
    grep -v '^gcc$\|^libc6-dev$\|^pkg-config$' | sort >"$dir/built-with"
sed -n '/^Build-Depends:/,/^$/s/^ \([a-z0-9.+-]*\).*/\1/p' debian/control | grep -v '^debhelper-compat$\|^pkgconf$' | sort >"$dir/build-depends"
diff "$dir/built-with" "$dir/build-depends" || fail "tools/install-deps and Build-Depends differ"

# --- files ---
# Every file that meson installs is in one package, or debian/rules moves it.
meson introspect --installed "$build" >"$dir/installed.json" 2>/dev/null || fail "meson introspect"
prefix=$(meson introspect --buildoptions "$build" 2>/dev/null | jq -r '.[] | select(.name == "prefix").value')
jq -r '.[]' "$dir/installed.json" | sed "s|^$prefix/|usr/|; s|zsh/site-functions|zsh/vendor-completions|; s|completions/gpuscale.bash|completions/gpuscale|" >"$dir/files"
cat debian/*.install | sed 's/#.*//; / etc/d; s/ .*//' | sort >"$dir/listed"
[ -z "$(uniq -d "$dir/listed")" ] || fail "in two packages: $(uniq -d "$dir/listed")"
while read -r file; do
    found=
    case $file in
    usr/lib/systemd/system/*) found=$(grep -c "gpuscale-\\\$\\\$service\|${file##*/}" debian/rules) ;;
    *)
        while read -r pattern; do
            # shellcheck disable=SC2254 # a pattern
            case $file in $pattern | $pattern/*) found=$pattern ;; esac
        done <"$dir/listed"
        ;;
    esac
    [ -n "$found" ] && [ "$found" != 0 ] || fail "no package contains $file"
done <"$dir/files"
for package in $(sed -n 's/^Package: //p' debian/control); do
    case $package in
    gpuscale-exporter | gpuscale-adapter) continue ;; # units only
    gpuscale-cluster) continue ;;                     # a build of its own
    esac
    [ -s "debian/$package.install" ] || fail "$package is empty"
done

# --- the program for clusters ---
# The services run with either program, and only one of them is installed.
for service in exporter engine adapter autoscaler; do
    sed -n "/^Package: gpuscale-$service\$/,/^\$/p" debian/control |
        grep -qF ' gpuscale-cluster (>= ${source:Version}) | gpuscale (>= ${source:Version}),' || fail "gpuscale-$service does not depend on either program"
done
for package in gpuscale gpuscale-cluster; do
    [ "$(sed -n "/^Package: $package\$/,/^\$/p" debian/control | grep -c '^ gpuscale-program,')" = 3 ] || fail "$package: Provides, Conflicts, Replaces"
done

# --- RPM ---
# Each file is in %files, each default file of the services, too.
spec=packaging/rpm/gpuscale.spec
sed -n '/^%files/,/^%changelog/{/^[%/]/{s/^%\(dir\|license\|config([a-z]*)\) //; s/%{_bindir}/bin/; s/%{_libdir}/lib\/*/; s/%{_datadir}/share/; s/%{_mandir}/share\/man/
    s/%{_unitdir}/lib\/systemd\/system/; s/%{_libexecdir}/libexec/; s/%{_sysconfdir}/etc/; p}}' $spec | grep -v '^%\|gpuscale$.*dir' >"$dir/rpm-files"
sed 's|^usr/||; s|zsh/vendor-completions|zsh/site-functions|' "$dir/files" >"$dir/rpm-installed"
for default in debian/*.default debian/default/*; do echo "etc/default/$(basename "$default" .default)"; done >>"$dir/rpm-installed"
while read -r file; do
    found=
    while read -r pattern; do
        [ "$pattern" != 'lib/*/gpuscale' ] || continue # the folder alone
        # shellcheck disable=SC2254 # a pattern
        case $file in $pattern | $pattern/*) found=$pattern ;; esac
    done <"$dir/rpm-files"
    [ -n "$found" ] || fail "$spec: %files does not have $file"
done <"$dir/rpm-installed"
[ -z "$(grep -v '^lib/.*/gpuscale$' "$dir/rpm-files" | sort | uniq -d)" ] || fail "$spec: a file is listed twice"
if command -v rpmlint >/dev/null 2>&1; then
    rpmlint -c packaging/rpm/rpmlint.toml $spec >"$dir/rpmlint.log" 2>&1 || fail "rpmlint: $(cat "$dir/rpmlint.log")"
fi

# --- units ---
for unit in deploy/systemd/*.service.in; do
    name=$(basename "$unit" .service.in)
    [ -s "debian/$name.default" ] || [ -s "debian/default/$name" ] || fail "no /etc/default/$name"
    grep -q "^EnvironmentFile=-/etc/default/$name$" "$unit" || fail "$name does not read /etc/default/$name"
    grep -q "$name\.service\|-p$name\b\|for service in .*\b${name#gpuscale-}\b" debian/rules || fail "no package contains $name.service"
    sed 's|@bindir@|/usr/bin|' "$unit" >"$dir/$name.service"
    if command -v systemd-analyze >/dev/null 2>&1; then
        systemd-analyze security --offline=yes --no-pager --threshold=25 "$dir/$name.service" >"$dir/exposure.txt" 2>&1 || {
            tail -n 1 "$dir/exposure.txt"
            grep -q "Overall exposure level" "$dir/exposure.txt" && fail "the exposure of $name is higher than 2.5"
        }
    fi
done

# --- scripts ---
for script in debian/*.postrm debian/*.postinst debian/*.prerm debian/tests/exporter debian/tests/services tools/deb tools/rpm; do
    [ ! -e "$script" ] || sh -n "$script" || fail "$script"
done
