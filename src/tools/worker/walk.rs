//! Walking a tree for Glob and Grep: ignore rules, bounds, several threads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder, WalkState};

/// More entries than this are not looked at.
const MAX_ENTRIES: u64 = 1_000_000;

/// Deeper folders are not entered.
const MAX_DEPTH: usize = 128;

/// Version control folders: large, and never what a search is for. They are
/// searched when the search starts inside one.
const SKIPPED: &[&str] = &[".git", ".hg", ".svn"];

/// When a search has to end, and whether it left something out.
#[derive(Debug)]
pub(super) struct Bounds {
    deadline: Instant,
    entries: AtomicU64,
    over: AtomicBool,
    incomplete: AtomicBool,
}

impl Bounds {
    pub(super) fn new(time: Duration) -> Bounds {
        Bounds {
            deadline: Instant::now() + time,
            entries: AtomicU64::new(0),
            over: AtomicBool::new(false),
            incomplete: AtomicBool::new(false),
        }
    }

    /// Counts one entry; `false` when the search is over.
    fn count(&self) -> bool {
        let seen = self.entries.fetch_add(1, Ordering::Relaxed);
        // The clock is not free; every 64th entry is often enough.
        if seen >= MAX_ENTRIES || (seen.is_multiple_of(64) && Instant::now() >= self.deadline) {
            self.over.store(true, Ordering::Relaxed);
            self.left_out();
        }
        !self.over.load(Ordering::Relaxed)
    }

    /// Notes that something was left out.
    pub(super) fn left_out(&self) {
        self.incomplete.store(true, Ordering::Relaxed);
    }

    /// Whether something was left out.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete.load(Ordering::Relaxed)
    }
}

/// Gives every file and link below `base` (absolute) to a visitor, one visitor
/// a thread. Links are given, never followed.
pub(super) fn walk<'a, V>(
    base: &Path,
    types: Option<ignore::types::Types>,
    bounds: &'a Bounds,
    visitor: impl Fn() -> V,
) where
    V: FnMut(&DirEntry) + Send + 'a,
{
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    let mut builder = WalkBuilder::new(base);
    builder
        .hidden(false)
        .follow_links(false)
        .require_git(false)
        .git_global(false)
        .max_depth(Some(MAX_DEPTH))
        .threads(threads)
        .filter_entry(|entry| entry.depth() == 0 || !is_skipped(entry));
    if let Some(types) = types {
        builder.types(types);
    }
    builder.build_parallel().run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if !bounds.count() {
                return WalkState::Quit;
            }
            match entry {
                Ok(entry) => {
                    let kind = entry.file_type();
                    if kind.is_some_and(|kind| kind.is_file() || kind.is_symlink()) {
                        visit(&entry);
                    }
                }
                // A folder that cannot be read leaves its files out.
                Err(_) => bounds.left_out(),
            }
            WalkState::Continue
        })
    });
}

fn is_skipped(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    SKIPPED.iter().any(|skipped| name == *skipped) || super::mutate::is_temp_name(name)
}

/// A glob over paths relative to the workspace or to where a search starts.
#[derive(Debug)]
pub(super) struct Pattern {
    matcher: GlobMatcher,
    negated: bool,
}

impl Pattern {
    /// Compiles a pattern as models write it: absolute inside the workspace,
    /// with `./` before it, or a bare name for any folder. `None` as the error
    /// means that it leads out.
    pub(super) fn new(workspace: &Path, written: &str) -> Result<Pattern, Option<String>> {
        let (negated, written) = match written.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, written),
        };
        let inside = workspace.to_str().and_then(|path| {
            let rest = written.strip_prefix(path)?;
            rest.strip_prefix('/')
        });
        let mut glob = match inside {
            Some(rest) => rest,
            None if written.starts_with('/') => return Err(None),
            None => written,
        };
        while let Some(rest) = glob.strip_prefix("./") {
            glob = rest;
        }
        if glob.split('/').any(|part| part == "..") {
            return Err(None);
        }
        let any_folder;
        if inside.is_none() && !glob.contains('/') {
            any_folder = format!("**/{glob}");
            glob = &any_folder;
        }
        GlobBuilder::new(glob)
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map(|glob| Pattern {
                matcher: glob.compile_matcher(),
                negated,
            })
            .map_err(|error| Some(error.to_string()))
    }

    /// Whether a path matches, written from either start.
    pub(super) fn matches(&self, from_base: &Path, from_workspace: &Path) -> bool {
        let found = self.matcher.is_match(from_base) || self.matcher.is_match(from_workspace);
        found != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_what_models_mean_by_it() {
        let ws = Path::new("/w/s");
        let hit = |pattern: &str, path: &str| {
            let pattern = Pattern::new(ws, pattern).expect("pattern");
            pattern.matches(Path::new(path), Path::new(path))
        };
        assert!(hit("*.rs", "a/b/c.rs") && hit("*.rs", "c.rs"));
        assert!(hit("a/*.rs", "a/c.rs") && !hit("a/*.rs", "a/b/c.rs"));
        assert!(hit("a/**/*.rs", "a/c.rs") && hit("**/*.rs", "c.rs"));
        assert!(hit("./a/*.rs", "a/c.rs") && hit("/w/s/a/*.rs", "a/c.rs"));
        assert!(hit("*.{rs,py}", "x.py") && !hit("!*.rs", "x.rs") && hit("!*.rs", "x.py"));
        for out in ["/etc/*", "../*", "a/../../*", "/w/s2/*"] {
            assert!(matches!(Pattern::new(ws, out), Err(None)), "{out}");
        }
        assert!(matches!(Pattern::new(ws, "a[b"), Err(Some(_))));
    }
}
