#!/bin/sh
# Reads every script without running it.
for script in *.sh; do
    sh -n "$script" || exit 1
done
