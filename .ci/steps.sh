# shellcheck shell=bash
# Steps, skips and the summary. Sourced by .ci/run, which sets `root`,
# `scratch`, `target` and `release`.

names=() results=() seconds=() skips=()

# step NAME COMMAND...: runs it, shows its output, keeps a copy of the output.
step() {
    local name=$1 begun=$SECONDS status
    shift
    echo "::group::$name"
    "$@" 2>&1 | tee "$scratch/$name.log"
    status=${PIPESTATUS[0]}
    echo "::endgroup::"
    note "$name" "$status" $((SECONDS - begun))
}

# note NAME STATUS SECONDS: enters one result.
note() {
    names+=("$1") results+=("$2") seconds+=("$3")
    if [ "$2" = 0 ]; then
        echo "== $1: ok in $3 s"
    else
        echo "== $1: FAILED with status $2 after $3 s"
    fi
}

# skip NAME WHY: counted and shown, never silent.
skip() {
    skips+=("$1: $2")
    echo "== $1: skipped: $2"
}

failed() {
    local i
    for i in "${!names[@]}"; do
        if [ "${names[$i]}" = "$1" ]; then [ "${results[$i]}" != 0 ] && return 0; fi
    done
    return 1
}

# Every distinct `skipped: why` line that the tests of a step printed.
count_test_skips() {
    local line
    while IFS= read -r line; do
        skips+=("$1: $line")
    done < <(grep -hE '^skipped: ' "$scratch/$1.log" | sed 's/^skipped: //' | sort | uniq -c |
        sed -E 's/^ *([0-9]+) (.*)/\2 (\1 times)/')
}

summary() {
    local i bad=0
    echo
    echo "summary of .ci/run at $(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo '?')" \
        "on $(uname -sr), $(nproc) cores, uid $(id -u), $SECONDS s in all"
    for i in "${!names[@]}"; do
        if [ "${results[$i]}" = 0 ]; then
            printf '  ok      %-18s %5s s\n' "${names[$i]}" "${seconds[$i]}"
        else
            printf '  FAILED  %-18s %5s s  status %s\n' "${names[$i]}" "${seconds[$i]}" "${results[$i]}"
            bad=$((bad + 1))
        fi
    done
    echo "  ${#skips[@]} skipped"
    for i in "${!skips[@]}"; do echo "    skipped: ${skips[$i]}"; done
    local passed
    passed=$(grep -hE '^test result: ' "$scratch"/test*.log 2>/dev/null |
        sed -E 's/.* ([0-9]+) passed; ([0-9]+) failed.*/\1 \2/' |
        awk '{p += $1; f += $2} END {printf "%d tests passed, %d failed", p, f}')
    echo "  $passed"
    if [ "$bad" = 0 ]; then echo "  all $((${#names[@]})) steps ok"; else echo "  $bad of ${#names[@]} steps FAILED"; fi
    [ "$bad" = 0 ]
}

# What has to be there. Root on Debian or Ubuntu gets it installed.
need_tools() {
    local missing=() tool
    [ -d "$HOME/.cargo/bin" ] && PATH=$PATH:$HOME/.cargo/bin
    for tool in git python3 cc; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    # pip and venv fetch the model server and the Python client; without them those are skipped.
    python3 -c 'import pip, venv, ensurepip' 2>/dev/null || missing+=(pip)
    if [ "${#missing[@]}" != 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing: ${missing[*]}"
        apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
            --no-install-recommends git python3 python3-pip python3-venv gcc libc6-dev ca-certificates
    fi
    for tool in git python3 cc cargo; do
        if ! command -v "$tool" >/dev/null; then
            echo "$tool is not installed; delegate builds with Rust 1.95, a C compiler, git and python3"
            return 1
        fi
    done
    cargo --version && rustc --version && python3 --version && git --version
}

# The Python client that one test drives the server with; the test says so and
# skips itself without it.
test_python() {
    [ -z "${DELEGATE_CI_OFFLINE:-}" ] || return 0
    timeout 300 scripts/test-python || echo "== no Python MCP client here; its test will be skipped"
}

# The command with a home of its own: nothing of a CI run touches the real one.
in_fresh_home() {
    mkdir -p "$scratch/home" && env -u XDG_CONFIG_HOME -u XDG_STATE_HOME -u XDG_DATA_HOME \
        HOME="$scratch/home" "$@"
}

# DELEGATE_CI_REQUIRE: what this machine has to be able to do.
require_form() {
    local wanted=${DELEGATE_CI_REQUIRE:-}
    [ -n "$wanted" ] || return 0
    step "require-$wanted" "$release" jail run base --form "$wanted" -- true
    if grep -qE '^skipped: ' "$scratch"/test*.log; then
        echo "tests were skipped although $wanted is required:"
        grep -hE '^skipped: ' "$scratch"/test*.log | sort | uniq -c
        note no-skips 1 0
    else
        note no-skips 0 0
    fi
}

# The protocol tier against a real llama.cpp server, where it can be had.
smoke() {
    local line status begun=$SECONDS
    if [ -n "${DELEGATE_CI_OFFLINE:-}" ]; then
        skip smoke "DELEGATE_CI_OFFLINE is set"
        return
    fi
    line=$(timeout 900 scripts/local-model --background "$scratch/model.pid" 2>"$scratch/model.log")
    status=$?
    if [ "$status" = 69 ] || [ "$status" = 124 ]; then
        skip smoke "$(tail -n 1 "$scratch/model.log")"
        return
    fi
    if [ "$status" != 0 ]; then
        cat "$scratch/model.log" "$scratch/model.pid.log"
        note local-model "$status" $((SECONDS - begun))
        return
    fi
    note local-model 0 $((SECONDS - begun))
    step smoke python3 scripts/smoke-local-model --tier protocol --model local \
        --base-url "$(python3 -c 'import json,sys; print(json.loads(sys.argv[1])["base_url"])' "$line")" \
        --binary "$release" --timeout 300
    stop_model
}

stop_model() {
    [ -s "$scratch/model.pid" ] || return 0
    kill "$(cat "$scratch/model.pid")" 2>/dev/null
    rm -f "$scratch/model.pid"
}

macos() {
    if [ -z "${DELEGATE_CI_MACOS:-}" ]; then
        skip check-macos "DELEGATE_CI_MACOS is not set (fetches 224 MB of toolchain)"
        return
    fi
    local begun=$SECONDS status
    scripts/check-macos 2>&1 | tee "$scratch/macos.log"
    status=${PIPESTATUS[0]}
    if [ "$status" = 69 ]; then
        skip check-macos "$(tail -n 1 "$scratch/macos.log")"
    else
        note check-macos "$status" $((SECONDS - begun))
    fi
}

clean_up() {
    stop_model
    drop_user
    rm -rf "$scratch"
}
