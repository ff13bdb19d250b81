# shellcheck shell=bash
# The tests that start processes a second time, as an ordinary user. Sourced by .ci/run.

user=

# As root: a fresh user, and a reason when there can be none.
make_user() {
    [ "$(id -u)" = 0 ] || return 0
    local name=delegate-ci-$$
    if ! command -v useradd >/dev/null || ! command -v runuser >/dev/null; then
        skip user-tests "useradd and runuser are not installed"
    elif ! useradd --create-home --shell /bin/sh "$name"; then
        skip user-tests "useradd failed"
    else
        user=$name
    fi
}

# Only a user that this run made is removed, with what it still runs.
drop_user() {
    [ -n "$user" ] && [ "$user" = "delegate-ci-$$" ] || return 0
    local process
    for process in /proc/[0-9]*; do
        if [ "$(stat -c %U "$process" 2>/dev/null)" = "$user" ]; then
            kill -KILL "${process#/proc/}" 2>/dev/null
        fi
    done
    userdel --remove "$user" 2>/dev/null || echo "== the user $user could not be removed"
    user=
}

as_user() {
    runuser -u "$user" -- env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$(getent passwd "$user" | cut -d: -f6)" \
        USER="$user" LOGNAME="$user" LANG=C.UTF-8 CI=true "$@"
}

# Test binaries have paths of the checkout compiled in. Where the ordinary user
# cannot read those (a checkout below /root), the whole run moves to a copy.
copy_if_unreadable() {
    [ -n "$user" ] || return 0
    as_user test -r "$root/Cargo.toml" && as_user test -x "$root" &&
        { [ -z "${CARGO_TARGET_DIR:-}" ] || as_user test -x "$CARGO_TARGET_DIR"; } && return 0
    if [ -n "${DELEGATE_CI_COPY:-}" ]; then
        skip user-tests "the ordinary user cannot read $root"
        drop_user
        return 0
    fi
    local copy
    copy=$(mktemp -d /var/tmp/delegate-ci-copy.XXXXXX) && chmod 755 "$copy" || exit 1
    echo "== the ordinary user cannot read $root; going on in a copy, $copy"
    tar -C "$root" --exclude=./target -cf - . | tar -C "$copy" -xf - || exit 1
    clean_up
    trap - EXIT
    (
        cd "$copy" || exit 1
        unset CARGO_TARGET_DIR
        umask 022
        DELEGATE_CI_COPY=1 "$copy/.ci/run" "$@"
    )
    local status=$?
    rm -rf "$copy"
    exit "$status"
}

# Runs their binaries again, under the ordinary user.
user_tests() {
    if [ "$(id -u)" != 0 ]; then
        skip user-tests "this run is an ordinary user's already"
        return
    fi
    [ -n "$user" ] || return 0
    local list=$scratch/user-tests
    if ! cargo test --locked --workspace --no-run --message-format=json 2>/dev/null |
        python3 .ci/user_tests.py >"$list"; then
        note user-tests 1 0
        return
    fi
    if [ ! -s "$list" ]; then
        echo "no test binary was found"
        note user-tests 1 0
        return
    fi
    step test-user run_listed "$list"
    count_test_skips test-user
}

run_listed() {
    local package binary status=0
    while IFS=$'\t' read -r package binary; do
        echo "     Running $binary as $user"
        (cd "$package" && as_user CARGO_MANIFEST_DIR="$package" "$binary" --show-output) || status=1
    done <"$1"
    return "$status"
}
