//! Misuse that the types exclude does not compile, for the intended reason.
//!
//! Each file in `compile_fail/` says which errors the compiler reports: `//~ E0505` and how the message begins, at
//! the end of the line with the error or below it. Cargo checks the files as examples of a package that uses the
//! library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of a file, a line, and the message there.
type Error = (String, usize, String);

#[test]
fn misuse_does_not_compile() {
    let package = package();
    let output = Command::new(env!("CARGO"))
        .args(["check", "--examples", "--keep-going", "--offline", "--quiet", "--message-format=short"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .output()
        .expect("cargo runs");
    let text = String::from_utf8_lossy(&output.stderr);
    let reported: Vec<Error> = text.lines().filter_map(reported).collect();
    let mut expected = Vec::new();
    for file in fs::read_dir(package.join("examples")).expect("the folder exists") {
        let path = file.expect("it can be read").path();
        let errors = errors_in(&path);
        assert!(!errors.is_empty(), "{} says no error", path.display());
        expected.extend(errors);
    }
    let is_it = |found: &Error, wanted: &Error| {
        (&found.0, found.1) == (&wanted.0, wanted.1) && found.2.starts_with(&wanted.2)
    };
    let missing: Vec<_> =
        expected.iter().filter(|wanted| !reported.iter().any(|found| is_it(found, wanted))).collect();
    let others: Vec<_> =
        reported.iter().filter(|found| !expected.iter().any(|wanted| is_it(found, wanted))).collect();
    assert!(
        missing.is_empty() && others.is_empty(),
        "not reported: {missing:#?}\nnot expected: {others:#?}\n{text}"
    );
}

/// Makes a package whose examples are the files, and returns its folder.
fn package() -> PathBuf {
    let library = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    fs::create_dir_all(&package).expect("a folder can be made");
    let manifest = format!(
        "[package]\nname = \"misuse\"\nedition = \"2024\"\n\
         [dependencies]\nstillpoint = {{ path = {library:?} }}\n[workspace]\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).expect("a file can be written");
    // The crates have the versions of the workspace, if there is one.
    _ = fs::copy(library.join("../Cargo.lock"), package.join("Cargo.lock"));
    let examples = package.join("examples");
    _ = fs::remove_file(&examples);
    symlink(library.join("tests/compile_fail"), examples).expect("a link can be made");
    package
}

/// Returns the error in a line of the compiler's short form: `examples/NAME.rs:7:1: error[E0505]: message`.
fn reported(line: &str) -> Option<Error> {
    let (place, message) = line.split_once(": error")?;
    let mut place = place.split(':');
    let (file, number) = (place.next()?.rsplit('/').next()?, place.next()?.parse().ok()?);
    let message = message.trim_start_matches('[').replacen("]: ", " ", 1);
    Some((file.to_owned(), number, message.trim_start_matches(": ").to_owned()))
}

/// Returns the errors that a file expects.
fn errors_in(path: &Path) -> Vec<Error> {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    let text = fs::read_to_string(path).expect("it can be read");
    let (mut errors, mut last) = (Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let Some((code, message)) = line.split_once("//~ ") else {
            last = index + 1;
            continue;
        };
        if !code.trim().is_empty() {
            last = index + 1;
        }
        errors.push((name.to_string(), last, message.to_owned()));
    }
    errors
}
