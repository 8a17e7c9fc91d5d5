//! Times and amounts as text.

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
