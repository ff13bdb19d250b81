#!/bin/sh
# test.sh: checks calc.sh, names each check that fails, and returns 1 if any does.
failed=0

# check WANT OPERATION A B
check() {
    got=$(sh calc.sh "$2" "$3" "$4")
    if [ "$got" = "$1" ]; then
        echo "ok    $2 $3 $4 = $1"
    else
        echo "FAIL  $2 $3 $4: want $1, got $got"
        failed=1
    fi
}

check 5 add 2 3
check 4 sub 7 3
check -3 sub 2 5
check 42 mul 6 7

if [ "$failed" -eq 0 ]; then
    echo "all checks pass"
fi
exit "$failed"
