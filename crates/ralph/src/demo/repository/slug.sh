#!/bin/sh
# Turns a title into a name for a file: sh slug.sh 'two words'
printf '%s\n' "$1" | tr ' ' '-'
