#!/usr/bin/env bash
# Makes a Debian 12 machine ready to build and check talweg: LLVM 19, a C linker, Python and Rust.
# Run it, or source it to get cargo on PATH as well. It installs only what is
# missing and prints nothing when nothing is.

talweg_say() { printf 'setup: %s\n' "$*" >&2; }

# Prints the lowest Rust release the workspace accepts, as MAJOR.MINOR.
talweg_required_rust() {
    sed -n 's/^rust-version = "\([0-9]*\.[0-9]*\).*/\1/p' \
        "$(dirname "${BASH_SOURCE[0]}")/../Cargo.toml"
}

# Installs the given Debian packages that are not installed yet.
talweg_install_packages() {
    local package missing=() sudo=()
    if ! command -v apt-get >/dev/null; then
        talweg_say "this is not Debian: make sure the equivalents of these packages are installed: $*"
        return 0
    fi
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' ||
            missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0

    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            talweg_say "these packages are missing: ${missing[*]}"
            talweg_say "as root, run: apt-get update && apt-get install ${missing[*]}"
            return 1
        fi
        sudo=(sudo)
    fi
    talweg_say "installing ${missing[*]}"
    "${sudo[@]}" apt-get -qq update </dev/null >&2 &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 \
            install -y --no-install-recommends "${missing[@]}" </dev/null >/dev/null && return 0
    talweg_say "apt-get could not install ${missing[*]}; its message is above"
    return 1
}

# True when cargo, rustfmt and clippy run and are at least release $1.
talweg_rust_is_ready() {
    local have
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2)
    [ -n "$have" ] && [ "$(printf '%s\n' "$1" "$have" | sort -V | head -n1)" = "$1" ] &&
        cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1
}

# Fetches the official rustup installer for this machine, checks it and runs it.
talweg_install_rustup() {
    local base file status=1
    base="https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init"
    talweg_install_packages ca-certificates curl || return 1
    file=$(mktemp -d)/rustup-init
    talweg_say "installing rustup with Rust $1 into $HOME/.cargo and $HOME/.rustup"
    if curl -sSf --proto '=https' --retry 3 -o "$file" "$base" &&
        curl -sSf --proto '=https' --retry 3 -o "$file.sha256" "$base.sha256"; then
        if [ "$(cut -c1-64 "$file.sha256")" = "$(sha256sum "$file" | cut -c1-64)" ]; then
            chmod +x "$file"
            "$file" -y -q --no-modify-path --profile minimal --default-toolchain "$1" \
                -c rustfmt -c clippy </dev/null >/dev/null
            status=$?
        else
            talweg_say "the downloaded installer does not match its checksum"
        fi
    fi
    rm -rf "$(dirname "$file")"
    return $status
}

# Like talweg_rust_is_ready, and also accepts release $1 from rustup when its
# default toolchain is another one: that is then selected for this process only.
talweg_select_rust() {
    talweg_rust_is_ready "$1" && return 0
    [ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
    talweg_rust_is_ready "$1" && return 0
    rustup toolchain list 2>/dev/null | grep -q "^$1-" || return 1
    export RUSTUP_TOOLCHAIN="$1"
    talweg_rust_is_ready "$1" && return 0
    unset RUSTUP_TOOLCHAIN
    return 1
}

talweg_install_rust() {
    local required
    required=$(talweg_required_rust)
    talweg_select_rust "$required" && return 0
    if command -v rustup >/dev/null; then
        talweg_say "installing Rust $required with rustup"
        rustup -q toolchain install "$required" --profile minimal -c rustfmt -c clippy \
            </dev/null >/dev/null
    else
        talweg_install_rustup "$required"
    fi
    talweg_select_rust "$required" && return 0

    talweg_say "talweg needs Rust $required or newer with rustfmt and clippy; found:" \
        "$(cargo --version 2>/dev/null || echo none)"
    talweg_say "Debian 12 has only an older one: install it from https://rustup.rs," \
        "then: rustup toolchain install $required -c rustfmt -c clippy"
    return 1
}

# g++ brings the C++ library that the linker needs beside LLVM's.
# The checks of whole networks need a Python environment with ONNX Runtime.
talweg_install_packages gcc g++ libc6-dev llvm-19-dev python3 python3-venv && talweg_install_rust
