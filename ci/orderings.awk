# Names orderings that a model has executed: `file:Type::function:half`, with `#2` behind it if it is the second of its function.
# Reads where functions begin (`places.awk -v lines=1`), then the record (`stillpoint/src/sync/orderings.rs`), both sorted by file, line
# and column; prints each name, and the place by which the models know it.

NR == FNR {
    count[$1]++
    line[$1, count[$1]] = $2
    place[$1, count[$1]] = $3
    next
}

$1 ~ /^stillpoint\/src\// {
    for (at = count[$1]; at > 0 && line[$1, at] > $2; at--);
    name = $1
    gsub(/^stillpoint\/src\/|\.rs$/, "", name)
    name = name ":" place[$1, at] ":" $4
    print name (++seen[name] > 1 ? "#" seen[name] : ""), $1 ":" $2 ":" $3 ":" $4
}
