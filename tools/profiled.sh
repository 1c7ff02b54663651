#!/usr/bin/env bash
# Builds the release program for what it does most: a first build counts where it goes while its benchmarks run, a second one is laid out by
# that. The result, target/profiled/weir, is for machines like this one: what it did not run here, such as vector code for other processors, is
# taken to be rare.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
folder=$PWD/target/profiled
if [ ! -x "$profdata" ]; then
    rustup component add llvm-tools || {
        echo "profiled: llvm-profdata is missing: rustup component add llvm-tools" >&2
        exit 1
    }
fi
mkdir -p "$folder"
rm -rf "$folder/counts" "$folder/made"

# With a target, programs that run during the build are built without either flag.
build() {
    CARGO_INCREMENTAL=0 RUSTFLAGS=$1 CARGO_TARGET_DIR=$folder/$2 cargo build --release --locked --bin weir --target "$host"
}

# All that a function is measured at: what is left out here would be taken to be rare. Runs are short: they count, and do not measure.
count() {
    echo "profiled: weir bench cpp $1"
    LLVM_PROFILE_FILE=$folder/counts/%m.profraw "$folder/counting/$host/release/weir" bench cpp "$1" --runs 1 >/dev/null
}

build "-Cprofile-generate=$folder/counts" counting
for function in forward router bng qos bridge lwaftr switch vxlan gen lua wiring; do
    count "$function"
done
"$profdata" merge -o "$folder/weir.profdata" "$folder"/counts/*.profraw
build "-Cprofile-use=$folder/weir.profdata" made
ln -f "$folder/made/$host/release/weir" "$folder/weir"
