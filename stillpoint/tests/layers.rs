//! The layers of the library: a module imports from the layers below it only, and no files import each other in a
//! circle. And it defines no symbol that another version of the library would define too.

#![cfg(not(loom))]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the bottom up. Modules of one layer do not import each other.
const LAYERS: &[&[&str]] = &[
    &["sys", "tagged"],
    &["sync"],
    &["fence"],
    &["grace_period", "percpu"],
    &["readers", "lock"],
    &["reclaim"],
    &["domain"],
    &["rcu"],
    &["qsbr", "srcu"],
    &["metrics", "guide", "lib"],
];

/// Returns the code of the source files, without comments and tests, by module path: `rcu::guard`, and `rcu` for
/// `rcu/mod.rs`.
fn sources() -> BTreeMap<String, String> {
    fn read(folder: &Path, module: &str, into: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let name = if module.is_empty() { stem.to_owned() } else { format!("{module}::{stem}") };
            if path.is_dir() {
                read(&path, &name, into);
            } else if path.extension().is_some_and(|ext| ext == "rs") && stem != "tests" {
                let name = if stem == "mod" { module.to_owned() } else { name };
                into.insert(name, code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut files = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut files);
    files
}

/// Returns the part of a file that is compiled into the library.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Returns the paths that a file names, relative to `crate`, and whether it re-exports them.
fn paths(module: &str, is_folder: bool, code: &str) -> Vec<(String, bool)> {
    let parent = if is_folder { module } else { module.rsplit_once("::").map_or("", |(parent, _)| parent) };
    let absolute = |path: &str| -> Option<String> {
        let (mut base, mut rest) = (parent.to_owned(), path);
        if let Some(path) = rest.strip_prefix("crate::") {
            return Some(path.to_owned());
        }
        if let Some(path) = rest.strip_prefix("self::") {
            base = module.to_owned();
            rest = path;
        } else if !rest.starts_with("super::") {
            return is_folder.then(|| format!("{module}::{rest}"));
        } else if is_folder {
            base = module.rsplit_once("::").map_or("", |(parent, _)| parent).to_owned();
            rest = &rest["super::".len()..];
        } else {
            rest = &rest["super::".len()..];
        }
        while let Some(path) = rest.strip_prefix("super::") {
            base = base.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned());
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
            expand("", &tree, &mut |path| found.extend(absolute(path).map(|path| (path, public))));
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

/// Returns the files that each file imports. A name that a `mod.rs` re-exports counts as imported from its definition.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources();
    let is_folder = |module: &str| {
        sources.keys().any(|other| other.starts_with(&format!("{module}::"))) || module == "lib"
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
    for (module, code) in &sources {
        for (path, public) in paths(module, is_folder(module), code) {
            if public && let Some(from) = file(&path) {
                exported.insert(format!("{module}::{}", path.rsplit("::").next().unwrap()), from);
            }
        }
    }
    let mut imports = BTreeMap::new();
    for (module, code) in &sources {
        let named = paths(module, is_folder(module), code);
        let to: BTreeSet<_> = named
            .into_iter()
            .filter(|(_, public)| !(*public && is_folder(module)))
            .filter_map(|(path, _)| exported.get(&path).cloned().or_else(|| file(&path)))
            .filter(|to| to != module)
            .collect();
        imports.insert(module.clone(), to);
    }
    imports
}

fn layer(module: &str) -> usize {
    let name = module.split("::").next().unwrap();
    LAYERS.iter().position(|names| names.contains(&name)).unwrap_or_else(|| panic!("{module} is in no layer"))
}

#[test]
fn imports_go_downwards() {
    let mut upwards = Vec::new();
    for (from, to) in imports().iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to))) {
        let is_inside = from.split("::").next() == to.split("::").next();
        if !is_inside && layer(from) <= layer(to) {
            upwards.push(format!("{from} imports {to}"));
        }
    }
    assert!(upwards.is_empty(), "{upwards:#?}");
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut imports = imports();
    // A file without imports is in no circle. Remove it, and repeat.
    loop {
        let leaves: Vec<_> =
            imports.iter().filter(|(_, to)| to.is_empty()).map(|(from, _)| from.clone()).collect();
        if leaves.is_empty() {
            break;
        }
        for leaf in leaves {
            imports.remove(&leaf);
            imports.values_mut().for_each(|to| {
                to.remove(&leaf);
            });
        }
    }
    // Nor is a file that no other imports.
    loop {
        let imported: BTreeSet<_> = imports.values().flatten().cloned().collect();
        let before = imports.len();
        imports.retain(|from, _| imported.contains(from));
        if imports.len() == before {
            break;
        }
    }
    assert!(imports.is_empty(), "{imports:#?}");
}

#[test]
fn library_defines_no_symbols_that_two_versions_would_share() {
    for (module, code) in sources() {
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
