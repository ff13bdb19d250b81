#!/bin/sh
# calc.sh: integer arithmetic. usage: sh calc.sh add|sub|mul A B
set -eu

if [ "$#" -ne 3 ]; then
    echo "usage: sh calc.sh add|sub|mul A B" >&2
    exit 2
fi

case "$1" in
add) echo "$(($2 + $3))" ;;
sub) echo "$(($2 + $3))" ;;
mul) echo "$(($2 * $3))" ;;
*)
    echo "calc.sh: unknown operation: $1" >&2
    exit 2
    ;;
esac
