//! Times, amounts and names as text.

/// The system of this project. Every ratio is of it to another one.
pub const OURS: &str = "stillpoint";

/// Parses the time of a run.
pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number")?;
    if seconds > 0.0 && seconds < 1e6 { Ok(seconds) } else { Err("must be more than 0".to_owned()) }
}

/// Returns a duration with the unit that suits its size.
pub fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{} ns", digits(ns)),
        _ if ns < 1e6 => format!("{} us", digits(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

/// Returns about three significant digits, without an exponent.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 => format!("{value:.2}"),
        v if v >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.6}"),
    }
}

/// Returns a ratio as people write it.
pub fn times(ratio: f64) -> String {
    format!("{}x", digits(ratio))
}

/// Returns a value as people write it.
pub fn figure(value: f64, unit: &str) -> String {
    match unit {
        "ns" => duration(value),
        "ratio" => times(value),
        "bytes" if value < 1024.0 => format!("{} B", digits(value)),
        "bytes" if value < 1_048_576.0 => format!("{} KiB", digits(value / 1024.0)),
        "bytes" => format!("{} MiB", digits(value / 1_048_576.0)),
        _ => digits(value),
    }
}
