#!/bin/sh
# An agent that does not keep to the protocol. The first word says how; the words behind it are what
# a campaign types to start an agent, and are not run.
how=$1
case "$*" in
*--take*) exit 1 ;;
*--give*)
    # Other bytes than those that were announced, and as many.
    while read -r _; do printf '{"bytes":5}\nwrong'; done
    exit 0
    ;;
esac
zeros=0000000000000000000000000000000000000000000000000000000000000000
now() { date +%s%N; }
done_with() { printf '{"done":{"seconds":1.0,"said":"","files":[{"name":"%s","bytes":%s,"sha256":"%s"}]}}\n' "$1" "$2" "$zeros"; }
# What comes when the replays have begun.
after() { # instant
    left=$((($1 - $(now)) / 1000000 + 100))
    sleep "$((left / 1000)).$(printf %03d $((left % 1000)))"
    case $how in
    name) done_with ../../escaped 5 ;;
    page) done_with evil.html 5 ;;
    bytes) done_with run.toml 18446744073709551615 ;;
    flood) yes '"alive"' ;;
    *) done_with run.toml 5 ;;
    esac
}
job=
while read -r line; do
    case "$line" in
    *'"hello"'*)
        build=$(printf %s "$line" | sed 's/.*"build":"\([0-9a-f]*\)".*/\1/')
        case $how in
        rubbish) echo now ;;
        huge) head -c 3000000 /dev/zero | tr '\0' x ;;
        nested) head -c 100000 /dev/zero | tr '\0' '[' && echo ;;
        protocol) echo '{"hello":{"protocol":2,"shiny":true}}' ;;
        build) printf '{"hello":{"protocol":1,"build":"%s","facts":{}}}\n' $zeros ;;
        escape) printf '{"fault":{"kind":"failed","text":"\\u001b[2Jgone"}}\n' ;;
        *) printf '{"hello":{"protocol":1,"build":"%s","facts":{}}}\n' "$build" ;;
        esac
        ;;
    *'"check"'*) echo '{"outlook":{"does":[],"loses":[],"volumes":[]}}' ;;
    *'"undo"'*) echo '{"undone":{"left":[]}}' ;;
    '"undo') echo '{"undone":{"left":[]}}' ;;
    *'"drop"'*) echo '"dropped"' ;;
    '"collect"') echo '{"kept":{"texts":[["../../escaped","x"]]}}' ;;
    *'"apply"'*)
        [ "$how" = silent ] && sleep 60
        echo '{"volumes":{"volumes":[{"path":"sim","kind":"simulated","size":0,"may_lose":false,"is_there":true}]}}'
        ;;
    *'"arm"'*)
        echo '"armed"'
        [ "$how" = early ] && done_with run.toml 5
        ;;
    *'"ping"'*)
        number=$(printf %s "$line" | sed 's/[^0-9]//g')
        [ "$how" = clock ] && printf '{"pong":{"number":%s,"at_ns":%s}}\n' "$number" $((number * 1000000000 + 5)) && continue
        [ "$how" = number ] && number=$((number + 7))
        printf '{"pong":{"number":%s,"at_ns":%s}}\n' "$number" "$(now)"
        ;;
    *'"start"'*)
        at=$(printf %s "$line" | sed 's/.*"at_ns":\([0-9]*\).*/\1/')
        in_time=true
        [ "$how" = deaf ] && in_time=false
        printf '{"heard":{"at_ns":%s,"in_time":%s}}\n' "$at" $in_time
        # Another instant takes the place of the one before.
        [ -z "$job" ] || kill "$job" 2>/dev/null
        after "$at" &
        job=$!
        ;;
    '"stop"') echo '{"fault":{"kind":"stopped","text":"stopped"}}' ;;
    esac
done
