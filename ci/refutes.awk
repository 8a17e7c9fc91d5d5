# Reads Rust sources. Prints each mutant that a test claims to refute, as `mutant program test`. A test claims mutants by
# the last lines of its comment, which begin with `/// Refutes: ` and name steps, patches, and orderings
# (`Type::function:half`), separated by commas. Orderings that are weakened together are joined by ` + `.

FNR == 1 {
    claims = ""
    claiming = 0
    module = FILENAME
    sub(/\.rs$/, "", module)
    if (module ~ /\/tests\//) {
        # `tests/PROGRAM.rs`, or a module of `tests/PROGRAM/main.rs`.
        sub(/^.*\/tests\//, "", module)
        program = module
        sub(/\/.*$/, "", program)
        if (!sub(/^[^\/]*\//, "", module) || module == "main") module = ""
    } else {
        sub(/^.*\/src\//, "", module)
        program = "stillpoint"
        if (module !~ /(^|\/)tests$/) module = module "/tests"
    }
    sub(/\/mod$/, "", module)
    gsub(/\//, "::", module)
    if (module != "") module = module "::"
}

/^ *\/\/\/ Refutes: / {
    claiming = 1
    sub(/^ *\/\/\/ Refutes: */, "")
    claims = $0
    next
}

claiming && /^ *\/\/\/ / {
    sub(/^ *\/\/\/ */, "")
    claims = claims " " $0
    next
}

claiming && /^ *fn [a-z_0-9]+\(/ {
    name = $0
    sub(/^ *fn /, "", name)
    sub(/\(.*/, "", name)
    gsub(/ \+ /, "+", claims)
    count = split(claims, mutants, /, */)
    for (i = 1; i <= count; i++) print mutants[i], program, module name
    claiming = 0
}

# Only attributes come between the comment and the test.
claiming && !/^ *#\[/ {
    print FILENAME ":" FNR ": no test after `Refutes:`" >"/dev/stderr"
    exit 1
}
