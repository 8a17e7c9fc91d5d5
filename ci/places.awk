# Reads Rust sources, and prints each function as `Type::function`, and each step that has a mutant as `name Type::function`: where
# it is. A type is that of the impl, or the trait; a function outside of both stands alone. With `-v lines=1` prints nothing but
# `file line Type::function`: where each function begins.

# The identifier that an `impl` or a `trait` is about.
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

# The mutants of sections, by number.
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

# The name may stand on the next line.
/(mutant|step!)\(/ || is_next {
    is_next = /step!\($/
    for (rest = $0; match(rest, /"[a-z-]+"/); rest = substr(rest, RSTART + RLENGTH))
        print substr(rest, RSTART + 1, RLENGTH - 2), place
}

match($0, /unless_mutant!\([0-9]+/) {
    print section[substr($0, RSTART + 15, RLENGTH - 15)], place
}
