#!/bin/sh
# Makes policy.wasm, and policy.wasm.sources, by which tests/policy_in_c.rs notices that it is older than its sources.
#
# Needs clang and lld, 14 or later, with the target wasm32 (or others by CC and LD: of zig, `zig cc
# --target=wasm32-freestanding` and `zig wasm-ld`), sha256sum, and by `cargo install --locked`
# wit-bindgen-cli 0.63.0 and wasm-tools 1.263.0. What is built is committed, so the tests need none of these.
set -eu
export LC_ALL=C
cd "$(dirname "$0")"
wit=../../../wit
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Short names for what is generated: `lease` for `incumbent:policy/lease@0.1.0`.
set --
for interface in kv streams queue epochs clock log describe lease gate holds; do
    set -- "$@" --rename "incumbent:policy/$interface@0.1.0=$interface"
done
wit-bindgen c "$wit" --world policy --out-dir "$made" "$@" >"$made/log" 2>&1 || { cat "$made/log"; exit 1; }

compile() {
    ${CC:-clang --target=wasm32-unknown-unknown} -mcpu=mvp -std=c17 -Oz -ffreestanding -fno-builtin \
        -ffunction-sections -fdata-sections -I libc -I "$made" -I . -c "$@"
}
# What is generated is not ours to tidy.
compile -w "$made/policy.c" -o "$made/bindings.o"
for source in *.c; do
    compile -Wall -Wextra -Wconversion -Wshadow -Werror "$source" -o "$made/own-${source%.c}.o"
done
# The stack comes first, so that one that overflows traps instead of writing over the data.
${LD:-wasm-ld} --no-entry --gc-sections --strip-all --stack-first -z stack-size=131072 \
    "$made"/*.o -o "$made/module.wasm"

wasm-tools component new "$made/module.wasm" -o policy.wasm
sha256sum build.sh ./*.c ./*.h libc/*.h "$wit"/*.wit policy.wasm >policy.wasm.sources
