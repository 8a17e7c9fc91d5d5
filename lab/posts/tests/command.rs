//! The command as a user runs it.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

#[test]
fn experiment_writes_rows_beside_posted_figures() {
    for experiment in ["e1", "e2", "e3", "e4", "e5", "e6"] {
        let json = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{experiment}.json"));
        let path = json.to_str().expect("the path is text");
        let output = Command::new(env!("CARGO_BIN_EXE_posts"))
            .args(["reproduce", experiment, "--seconds", "0.5", "--rounds", "1", "--json", path])
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(&format!("reproduce {experiment}: ")), "{shown}");
        let text = std::fs::read_to_string(json).expect("the report is there");
        let report: Value = serde_json::from_str(&text).expect("the report is JSON");
        assert_eq!(report["bench"], experiment);
        let rows = report["rows"].as_array().expect("rows");
        assert!(rows.iter().any(|row| row["system"] == "stillpoint"), "{text}");
        assert!(report["posted"]["source"].is_string() && report["posted"]["tables"].is_array(), "{text}");
    }
}
