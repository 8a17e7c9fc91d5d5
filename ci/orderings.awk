# Names the orderings that a model has executed: `Type::function:half`, followed by `#2` for the second of its kind
# in a function. Reads the first lines of functions (`places.awk -v lines=1`), then the record
# (`stillpoint/src/sync/orderings.rs`), both sorted by file, line and column. Prints each name, and the place that
# selects it in the models.

NR == FNR {
    count[$1]++
    line[$1, count[$1]] = $2
    place[$1, count[$1]] = $3
    next
}

$1 ~ /^(stillpoint|collections|dropins\/liburcu\/core)\/src\// {
    for (at = count[$1]; at > 0 && line[$1, at] > $2; at--);
    name = place[$1, at] ":" $4
    print name (++seen[name] > 1 ? "#" seen[name] : ""), $1 ":" $2 ":" $3 ":" $4
}
