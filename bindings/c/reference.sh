#!/usr/bin/env bash
# bindings/c/reference.sh DIR: writes the references c-api.md, c-list.md, c-lock.md,
# c-lock-hpp.md, c-map.md, c-map-hpp.md, c-raii-hpp.md,
# c-rcu-hpp.md and c-hazard-pointer-hpp.md, made of the comments in the headers, into DIR.
#
# A comment that begins with /*# is copied. One that begins with /** describes the declaration below it, which ends at
# the first semicolon, or before the body of a function. Members of structures are described where they stand.
set -euo pipefail
(($# == 1)) || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
set -- "$(realpath -m "$1")"
cd "$(dirname "$0")/../.."

reference() {
    awk '
        # The text of a comment of one or more lines, without the marks. Reads on until its end.
        function comment(first, text, more) {
            text = first
            while (text !~ /\*\/[ \t]*$/ && (getline more) > 0) text = text "\n" more
            sub(/^[ \t]*\/\*[*#][ \t]*\n?/, "", text)
            sub(/[ \t\n]*\*\/[ \t]*$/, "", text)
            return text
        }
        # The declaration that begins with this line, without the body of a function.
        function declaration(line, text, open) {
            text = line
            if (line ~ /^#define/) { sub(/\) .*/, ")", text); return text }
            while (line !~ /;[ \t]*$/ && line !~ /^[ \t]*\{/ && line !~ /[^=(] \{$/ && (getline line) > 0) {
                if (line ~ /^[ \t]*\{/) break
                text = text "\n" line
            }
            if (text ~ /^(struct|enum|class|template)/ && text ~ /\{$/) {
                # A type: up to its closing brace.
                while ((getline line) > 0) {
                    text = text "\n" line
                    if (line ~ /^\};/) break
                }
                gsub(/\n[^\n]*(reserved_|opaque_|function_)[^\n]*/, "", text)
                gsub(/\nprivate:.*\n\};/, "\n};", text)
                return text
            }
            sub(/^(SP_TSAN_UNSEEN_ )?static inline /, "", text)
            sub(/^inline /, "", text)
            sub(/[ \t]*\{$/, "", text)
            sub(/ __attribute__\(\(__const__\)\)/, "", text)
            if (text !~ /;$/) text = text ";"
            return text
        }
        /^\/\*#/ { print comment($0) "\n"; next }
        /^\/\*\*/ {
            text = comment($0)
            if ((getline line) <= 0) exit
            print "```c\n" declaration(line) "\n```\n"
            print text "\n"
        }' "$1"
}

mkdir -p "$1"
for page in c-api:stillpoint.h c-list:stillpoint/list.h c-lock:stillpoint/lock.h c-lock-hpp:stillpoint/lock.hpp c-map:stillpoint/map.h c-map-hpp:stillpoint/map.hpp c-raii-hpp:stillpoint/raii.hpp c-rcu-hpp:stillpoint/rcu.hpp c-hazard-pointer-hpp:stillpoint/hazard_pointer.hpp; do
    reference "bindings/c/include/${page#*:}" >"$1/${page%%:*}.md"
done
