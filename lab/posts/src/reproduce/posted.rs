//! The reports of the posts.

use harness::report::{Grid, Posted};

/// Collects the report of a post: the post and its machine, the shape that must carry over, and its tables.
pub(super) fn posted(
    source: &'static str,
    expected: &'static str,
    tables: &[&'static str],
) -> Option<Posted> {
    let tables = tables.iter().map(|table| Grid::parse(table)).collect();
    Some(Posted { source: source.into(), expected: expected.into(), tables })
}
