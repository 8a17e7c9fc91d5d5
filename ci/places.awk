# Reads Rust sources. Prints each function as `Type::function`, and each step that has a mutant as
# `name Type::function`. The type is that of the impl, or the trait; a function outside of both has none. With
# `-v lines=1`, prints only `file line Type::function`: the first line of each function.

# The type of an `impl`, or the name of a `trait`.
function subject(line,    depth, i, c) {
    sub(/^ *((pub(\([a-z]+\))?|unsafe) )*(impl|trait) */, "", line)
    if (line ~ /^</) {
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            depth += (c == "<") - (c == ">" && substr(line, i - 1, 1) != "-")
            if (depth == 0) break
        }
        line = substr(line, i + 1)
    }
    sub(/.* for /, "", line)
    gsub(/^ *|([a-z_]+|crate)::/, "", line)
    match(line, /^[A-Za-z_]+/)
    return substr(line, 1, RLENGTH)
}

function indent(line) {
    match(line, /^ */)
    return RLENGTH
}

FNR == 1 { type = place = "" }

# The mutants of rseq critical sections, by number.
/IN_SECTIONS: /, /\];/ {
    if (match($0, /"[a-z-]+"/)) section[++sections] = substr($0, RSTART + 1, RLENGTH - 2)
}

/^ *((pub(\([a-z]+\))?|unsafe) )*(impl|trait)[ <]/ { type = subject($0); opened = indent($0) }
type != "" && /^ *}/ && indent($0) == opened { type = "" }

/^ *((pub(\([a-z]+\))?|const|unsafe|extern "C") )*fn [a-z_0-9]+/ {
    name = $0
    sub(/^.*[^a-z_]fn |^fn /, "", name)
    match(name, /^[a-z_0-9]+/)
    place = (type == "" ? "" : type "::") substr(name, 1, RLENGTH)
    print lines ? FILENAME " " FNR " " place : place
}

lines { next }

# The name may be on the next line.
/(mutant|step!)\(/ || is_next {
    is_next = /step!\($/
    for (rest = $0; match(rest, /"[a-z-]+"/); rest = substr(rest, RSTART + RLENGTH))
        print substr(rest, RSTART + 1, RLENGTH - 2), place
}

match($0, /unless_mutant!\([0-9]+/) {
    print section[substr($0, RSTART + 15, RLENGTH - 15)], place
}
