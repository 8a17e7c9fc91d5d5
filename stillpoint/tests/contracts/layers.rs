//! The layers of the library: a module imports from the layers below it only, and in no package do files import each
//! other in a circle. And the library defines no symbol that another version of it would define too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the bottom up. Modules of one layer do not import each other.
const LAYERS: &[&[&str]] = &[
    &["sys", "probes"],
    &["sync"],
    &["fence", "pointer"],
    &["grace_period", "percpu"],
    &["readers", "lock"],
    &["slots"],
    &["reclaim"],
    &["domain"],
    &["rcu"],
    &["qsbr", "srcu", "arc"],
    &["hazard"],
    &["metrics", "statistics_page", "guide", "lib"],
];

/// The packages whose files do not use each other in circles, by folder.
const PACKAGES: &[&str] = &[
    "stillpoint",
    "collections",
    "bindings/c",
    "dropins/liburcu/core",
    "dropins/arc-swap",
    "dropins/crossbeam-epoch",
    "lab/models/litmus",
    "dropins/pthread",
    "lab/harness",
    "lab/posts",
    "lab/torture",
];

/// The code of source files, without comments and tests, by module path: `rcu::guard`, `rcu` for `rcu/mod.rs`, and ``
/// for the root.
type Sources = BTreeMap<String, String>;

/// Returns the code of a package.
fn sources(package: &str) -> Sources {
    fn read(folder: &Path, module: &str, into: &mut Sources) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let name = if module.is_empty() { stem.to_owned() } else { format!("{module}::{stem}") };
            if path.is_dir() {
                read(&path, &name, into);
            } else if path.extension().is_some_and(|ext| ext == "rs") && stem != "tests" {
                let is_of_folder = stem == "mod" || module.is_empty() && matches!(stem, "lib" | "main");
                let name = if is_of_folder { module.to_owned() } else { name };
                into.insert(name, code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut files = BTreeMap::new();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    read(&workspace.join(package).join("src"), "", &mut files);
    files
}

/// Returns the part of a file that is compiled into the library.
fn code(text: &str) -> String {
    let text = text.split("\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Returns the paths that a file names, relative to `crate`, and whether it re-exports them.
fn paths(module: &str, is_folder: bool, code: &str) -> Vec<(String, bool)> {
    let parent_of = |module: &str| module.rsplit_once("::").map_or("", |(parent, _)| parent).to_owned();
    let absolute = |path: &str| -> Option<String> {
        if let Some(path) = path.strip_prefix("crate::") {
            return Some(path.to_owned());
        }
        let mut rest = path.strip_prefix("self::").unwrap_or(path);
        // The folder that the first name is looked up in. Names of inner modules of a file are its own.
        let mut base = module.to_owned();
        if rest.len() == path.len() && !rest.starts_with("super::") && !is_folder {
            return None;
        }
        while let Some(path) = rest.strip_prefix("super::") {
            base = parent_of(&base);
            rest = path;
        }
        Some(if base.is_empty() { rest.to_owned() } else { format!("{base}::{rest}") })
    };
    let mut found = Vec::new();
    let mut rest = code.to_owned();
    while let Some(at) = rest.find("use ") {
        let end = at + rest[at..].find(';').unwrap_or(rest.len() - at);
        let before = rest[..at].trim_end();
        let is_declaration = before.is_empty() || before.ends_with([';', '}', '{', ']', ')', 'b']);
        let tree = rest[at + 4..end].to_owned();
        if is_declaration {
            let public = before.ends_with("pub") || before.ends_with(')');
            let own = in_inner_module(&rest[..at]).then_some("super::");
            expand("", &tree, &mut |path| {
                let path = own.map_or(path, |own| path.strip_prefix(own).unwrap_or(path));
                found.extend(absolute(path).map(|path| (path, public)));
            });
        }
        rest.replace_range(at..if is_declaration { end } else { at + 4 }, "");
    }
    for prefix in ["crate::", "super::"] {
        for (at, _) in rest.match_indices(prefix) {
            let follows =
                rest[..at].ends_with([':', '$', '_']) || rest[..at].ends_with(char::is_alphanumeric);
            let path: String =
                rest[at..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
            if !follows {
                found.extend(absolute(path.trim_end_matches(':')).map(|path| (path, false)));
            }
        }
    }
    found
}

/// Returns `true` if the code ends in a module that is written in its file, whose `super` is the file.
fn in_inner_module(code: &str) -> bool {
    let begins = |line: &str| line.trim_start_matches("pub ").starts_with("mod ") && line.ends_with('{');
    code.lines().rev().find(|line| *line == "}" || begins(line)).is_some_and(begins)
}

/// Calls `f` with each path of the tree of a `use` declaration.
fn expand(prefix: &str, tree: &str, f: &mut dyn FnMut(&str)) {
    let tree = tree.trim();
    let Some((head, list)) = tree.split_once('{') else {
        return f(&format!("{prefix}{}", tree.split(" as ").next().unwrap()));
    };
    let (mut depth, mut item) = (0, String::new());
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    for c in list.chars().chain([',']) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            if !item.trim().is_empty() {
                expand(&format!("{prefix}{head}"), &item, f);
            }
            item.clear();
        } else {
            item.push(c);
        }
    }
}

/// Returns the files that each file uses. A name that a `mod.rs` re-exports counts as imported from its definition.
fn uses(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let is_folder = |module: &str| {
        module.is_empty() || sources.keys().any(|other| other.starts_with(&format!("{module}::")))
    };
    let file = |path: &str| -> Option<String> {
        let mut path = path;
        loop {
            if sources.contains_key(path) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once("::")?.0;
        }
    };
    let mut exported = BTreeMap::new();
    for (module, code) in sources {
        for (path, public) in paths(module, is_folder(module), code) {
            if let Some(from) = file(&path).filter(|_| public) {
                let name = path.rsplit("::").next().unwrap();
                let name = if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
                exported.insert(name, from);
            }
        }
    }
    let mut uses = BTreeMap::new();
    for (module, code) in sources {
        let to: BTreeSet<_> = paths(module, is_folder(module), code)
            .into_iter()
            .filter(|(_, public)| !(*public && is_folder(module)))
            .map(|(path, _)| path)
            .chain(inner_paths(sources, module, code))
            .filter_map(|path| exported.get(&path).cloned().or_else(|| file(&path)))
            .filter(|to| to != module)
            .collect();
        uses.insert(module.clone(), to);
    }
    uses
}

/// Returns the modules of a folder that its own file names in expressions: `backend` for `backend::is_chosen()`.
fn inner_paths(sources: &Sources, module: &str, code: &str) -> Vec<String> {
    let prefix = if module.is_empty() { String::new() } else { format!("{module}::") };
    let inner = sources.keys().filter_map(|other| Some((other, other.strip_prefix(&prefix)?)));
    let is_named = |name: &str| {
        let path = format!("{name}::");
        code.match_indices(&path).any(|(at, _)| {
            let line = &code[code[..at].rfind('\n').map_or(0, |end| end + 1)..at];
            !line.ends_with(is_of_name) && !line.ends_with([':', '$']) && !line.contains("use ")
        })
    };
    inner.filter(|(_, name)| !name.contains("::") && is_named(name)).map(|(other, _)| other.clone()).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn layer(module: &str) -> usize {
    let name = if module.is_empty() { "lib" } else { module.split("::").next().unwrap() };
    LAYERS.iter().position(|names| names.contains(&name)).unwrap_or_else(|| panic!("{module} is in no layer"))
}

/// Returns the files that use themselves through others, and what they use on the way.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(file) = left.pop() {
            for next in &uses[file] {
                if next == to {
                    return true;
                }
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        false
    };
    let in_circles = uses.iter().filter(|(file, _)| reaches(file, file));
    in_circles
        .map(|(file, to)| (file.clone(), to.iter().filter(|to| reaches(to, file)).cloned().collect()))
        .collect()
}

#[test]
fn imports_go_downwards() {
    let uses = uses(&sources("stillpoint"));
    let mut upwards = Vec::new();
    for (from, to) in uses.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let is_inside = from.split("::").next() == to.split("::").next();
        if !is_inside && layer(from) <= layer(to) {
            upwards.push(format!("{from} imports {to}"));
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn files_do_not_use_each_other_in_circles() {
    for package in PACKAGES {
        let circles = circles(&uses(&sources(package)));
        assert!(circles.is_empty(), "{package}: {circles:#?}");
    }
}

/// Returns the files in circles among some that the test makes up.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let sources = files.iter().map(|&(name, code)| (name.to_owned(), code.to_owned())).collect();
    circles(&uses(&sources)).into_keys().collect()
}

#[test]
fn circle_of_imports_is_found() {
    let below = ("lock::queue", "use super::word::Word;\n");
    assert_eq!(circles_of(&[("lock", ""), below, ("lock::word", "pub struct Word;\n")]), [""; 0]);
    let upwards = ("lock::word", "pub struct Word;\nfn wait() { crate::lock::queue::wait() }\n");
    assert_eq!(circles_of(&[("lock", ""), below, upwards]), ["lock::queue", "lock::word"]);
}

#[test]
fn circle_through_the_file_of_a_folder_is_found() {
    let below = ("fence::backend", "use super::SHARED;\n");
    let folder = "static SHARED: u32 = 0;\nmod backend;\n";
    assert_eq!(circles_of(&[("fence", folder), below]), [""; 0]);
    let folder = format!("{folder}fn light() {{ backend::is_chosen() }}\n");
    assert_eq!(circles_of(&[("fence", &folder), below]), ["fence", "fence::backend"]);
}

#[test]
fn library_defines_no_symbols_that_two_versions_would_share() {
    for (module, code) in sources("stillpoint") {
        // Code of tests, and stated in a comment there.
        if module == "percpu::rseq::faults" || module.starts_with("percpu::rseq::faults::") {
            continue;
        }
        for word in ["no_mangle", "export_name", ".globl", ".global", ".comm"] {
            let attribute =
                code.split(|c: char| !(c.is_alphanumeric() || "_.".contains(c))).any(|w| w == word);
            assert!(
                !attribute,
                "{module} defines a symbol by {word}: a program with two versions would not link"
            );
        }
    }
}
