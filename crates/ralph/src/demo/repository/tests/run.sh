#!/bin/sh
# Tests slug.sh with the cases in tests/cases.txt and prints TAP.
number=0
failed=0
while IFS='|' read -r title wanted; do
    number=$((number + 1))
    got=$(sh slug.sh "$title")
    if [ "$got" = "$wanted" ]; then
        echo "ok $number - '$title' becomes '$got'"
    else
        echo "not ok $number - '$title' becomes '$got', not '$wanted'"
        failed=1
    fi
done <tests/cases.txt
echo "1..$number"
exit $failed
