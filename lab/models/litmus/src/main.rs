//! Checks litmus tests against the memory models of ARMv8, RISC-V and x86. See README.md.

mod aarch64;
mod execution;
mod membarrier;
mod models;
mod operations;
mod outcome;
mod parse;
mod program;
mod relation;
mod riscv;
#[cfg(test)]
mod tests;
mod x86;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use models::Model;
use outcome::run;
use parse::{Test, Variant, Verdict};
use program::Architecture;

const USAGE: &str = "usage:
  litmus check PATH...      runs the tests; fails if a verdict is not the expected one
  litmus clauses PATH...    drops each clause of the models; fails if no verdict changes
  litmus explain PATH...    runs the tests; prints an execution of each that is allowed";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let result = tests(arguments.map(PathBuf::from)).and_then(|tests| match command.as_str() {
        "check" => check(&tests, false),
        "explain" => check(&tests, true),
        "clauses" => clauses(&tests),
        _ => Err(USAGE.into()),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the tests of files and folders, in order.
fn tests(paths: impl Iterator<Item = PathBuf>) -> Result<Vec<Test>, String> {
    let mut all = Vec::new();
    for file in paths.flat_map(|path| files(&path)) {
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        all.extend(Test::parse(&text).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(all)
}

fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.into()] };
    let mut inner: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    inner.retain(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "litmus"));
    inner.sort();
    inner.iter().flat_map(|path| files(path)).collect()
}

fn model(architecture: Architecture) -> Model {
    Model { architecture, dropped: None }
}

/// Iterates over a test as it is, and its variants.
fn all_variants(test: &Test) -> impl Iterator<Item = Option<&Variant>> {
    std::iter::once(None).chain(test.variants.iter().map(Some))
}

/// Runs all tests and prints a table.
fn check(tests: &[Test], explain: bool) -> Result<(), String> {
    let (mut rows, mut wrong) = (0, 0);
    println!("{:<8} {:<58} {:<10} {:<10} {:>10}", "", "test", "expected", "verdict", "executions");
    for test in tests {
        let mut row = |test: &Test, variant: Option<&Variant>, name: &str, expected: Verdict| {
            let at = format!("{} {}", test.name, name);
            let outcome =
                run(test, variant, &model(test.architecture)).map_err(|error| format!("{at}: {error}"))?;
            let mark = if outcome.verdict == expected { "" } else { "  WRONG" };
            rows += 1;
            wrong += usize::from(!mark.is_empty());
            let verdict = format!("{:?}", outcome.verdict);
            let (architecture, candidates) = (test.architecture.name(), outcome.candidates);
            let expected = format!("{expected:?}");
            println!("{architecture:<8} {at:<58} {expected:<10} {verdict:<10} {candidates:>10}{mark}");
            if let Some(witness) = outcome.witness.filter(|_| explain || !mark.is_empty()) {
                println!("{witness}");
            }
            Ok::<_, String>(())
        };
        for variant in all_variants(test) {
            let (name, expected) =
                variant.map_or(("", test.expected), |variant| (variant.name.as_str(), variant.expected));
            row(test, variant, name, expected)?;
        }
        // Where processors have LDAPR, compilers may use it for loads Acquire.
        if let Some(weaker) = test.with_ldapr().filter(|_| test.expected == Verdict::Forbidden) {
            row(&weaker, None, "with LDAPR", Verdict::Forbidden)?;
        }
    }
    println!("{rows} verdicts of {} tests, {wrong} wrong", tests.len());
    if wrong == 0 { Ok(()) } else { Err("a verdict is not the expected one".into()) }
}

/// Drops each clause of the models, one at a time, and prints how many verdicts change.
fn clauses(tests: &[Test]) -> Result<(), String> {
    let mut unnoticed = 0;
    for (_, architecture) in Architecture::ALL {
        for clause in Model::clauses(architecture) {
            let broken = Model { architecture, dropped: Some(clause) };
            let of_architecture = tests.iter().filter(|test| test.architecture == architecture);
            let all = of_architecture.flat_map(|test| all_variants(test).map(move |variant| (test, variant)));
            let mut changed = Vec::new();
            for (test, variant) in all {
                let expected = variant.map_or(test.expected, |variant| variant.expected);
                if run(test, variant, &broken)?.verdict != expected {
                    changed.push(format!(
                        "{} {}",
                        test.name,
                        variant.map_or("", |variant| variant.name.as_str())
                    ));
                }
            }
            let is_implied = models::IMPLIED.contains(clause);
            let note = match (changed.first(), is_implied) {
                (Some(first), false) => first.as_str(),
                (None, true) => "implied by the others",
                (Some(_), true) => "NOT IMPLIED",
                (None, false) => "NOT NOTICED",
            };
            unnoticed += usize::from(changed.is_empty() != is_implied);
            println!(
                "{:<8} without {clause:<34} {:>4} verdicts change  {note}",
                architecture.name(),
                changed.len()
            );
        }
    }
    if unnoticed == 0 { Ok(()) } else { Err("the tests do not notice a clause".into()) }
}
