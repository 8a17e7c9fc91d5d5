# Prints the lines of pages that have a measured figure which is neither generated from the report, nor of a section
# that says where it is from: in a line that begins with "Separate run:" and a command, or "Posted:" and a source. A
# figure is a ratio or a time in ns or us (`0.77x`, `12 us`). Code is no measurement, so constants and options stand
# in it.
function flush_section(   i) {
    if (!has_source) for (i = 1; i <= held; i++) { print lines[i]; found = 1 }
    held = 0; has_source = 0
}
FNR == 1 { flush_section(); in_code = 0; in_block = 0 }
/^ *```/ { in_code = !in_code; next }
in_code { next }
/^<!-- block: / { in_block = 1 }
in_block { if (/<!-- end -->/) in_block = 0; next }
/^#/ { flush_section() }
/^(Separate run: .*`[^`]+`|Posted: .)/ { has_source = 1 }
{
    text = $0
    gsub(/`[^`]*`/, "", text)
    if (text ~ /(^|[^A-Za-z0-9_.])[0-9][0-9.,]*(x|×| ?(ns|us|µs))([^A-Za-z0-9_]|$)/) lines[++held] = FILENAME ":" FNR ": " $0
}
END { flush_section(); exit found }
